"""What stands in the place of a behaviour of core's files and streams; `sandboxio_contract.liars.cores_io` says where."""

import posixpath
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from sandboxio.command_files import CommandFiles
from sandboxio.errors import ConfigurationError, FileSystemError, SandboxError
from sandboxio.files import Files
from sandboxio.port import FileInfo
from sandboxio.process import Process

# As they were before anything was broken.
_list, _mkdir, _write = CommandFiles.list, CommandFiles.mkdir, CommandFiles.write
_read, _exists, _read_text, _write_whole = CommandFiles.read, Files.exists, Files.read_text, Files.write
_wait = Process.wait
_only: Callable[[Process], AbstractContextManager[None]] = vars(Process)["_only_consumer"]


async def visible(files: CommandFiles, path: str) -> list[FileInfo]:
    """List what is not hidden."""
    return [entry for entry in await _list(files, path) if not posixpath.basename(entry.path).startswith(".")]


async def plain(files: CommandFiles, path: str, chunks: AsyncIterator[bytes], **_: object) -> None:
    """Write a file without its mode."""
    await _write(files, path, chunks)


async def tolerant(files: CommandFiles, path: str, **_: object) -> None:
    """Make a directory, and its parents."""
    await _mkdir(files, path, parents=True)


def any_link(target: str, *_: object) -> bytes:
    """Take a link wherever it leads."""
    return target.encode()


async def nodding(files: Files, path: str, data: Any) -> None:
    """Write where there is a name to write to."""
    if path:
        await _write_whole(files, path, data)


async def translated(files: Files, *given: Any) -> str:
    """Read text as Python does by default."""
    return (await _read_text(files, *given)).replace("\r\n", "\n")


async def believing(files: Files, path: str) -> bool:
    """Whether there is a link, or what it leads to."""
    folder, name = posixpath.split(path)
    try:
        return await _exists(files, path) or name in [
            posixpath.basename(one.path) for one in await files.ls(folder or ".")
        ]
    except SandboxError:
        return False


async def nothing_there(files: CommandFiles, path: str) -> AsyncIterator[bytes]:
    """Read nothing where there is no regular file."""
    try:
        async for chunk in _read(files, path):
            yield chunk
    except FileSystemError as error:
        if "no regular file" not in str(error):
            raise


@contextmanager
def quarrelling(process: Process) -> Generator[None]:
    """Keep others away by an error of Python's."""
    try:
        with _only(process):
            yield
    except ConfigurationError as error:
        raise RuntimeError(str(error)) from error


async def uncounted(process: Process) -> int:
    """Wait, and forget what was dropped."""
    code = await _wait(process)
    process.discarded_bytes = 0
    return code
