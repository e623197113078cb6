"""Files in a sandbox."""

import errno
import os
import posixpath
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TYPE_CHECKING, TypeVar

from sandboxio.audit import EventName
from sandboxio.border import masked
from sandboxio.command_files import CommandFiles
from sandboxio.commands import input_bytes, resolve_path
from sandboxio.content_files import ContentFiles
from sandboxio.downloading import DEFAULT_MAX_BYTES, download
from sandboxio.errors import ConfigurationError, FileSystemError, NotADirectory, PathNotFound
from sandboxio.file_calls import FileCalls, as_generator, disk_cap
from sandboxio.file_streams import FileReader, FileWriter, reading, writing
from sandboxio.port import FileInfo, HasContents, HasFiles
from sandboxio.records import Record
from sandboxio.redaction import raise_from, shown_name, shown_number
from sandboxio.result import check_max_output
from sandboxio.uploading import upload

if TYPE_CHECKING:
    from sandboxio.lease import Lease

__all__ = ["FileInfo", "FileReader", "FileWriter", "Files"]

T = TypeVar("T")

WRITE_CHUNK = 1024 * 1024
DEFAULT_MAX_READ = 256 * 1024 * 1024
"""Bytes of a file that `Files.read` holds in memory at the most."""
_LOOP = 40
"""ELOOP."""


@masked(lambda files: files._lease.redactor)
class Files:
    """The files of one sandbox. Relative paths resolve against `Sandbox.cwd`; contents are bytes, exactly.

    Every method may raise `PathNotFound`, `PermissionDenied`, another `FileSystemError`, `SandboxGone`, or
    `ExecutionTimeout` when the sandbox's own timeout passes.
    """

    def __init__(self, lease: "Lease", cwd: str) -> None:
        self._lease = lease
        self._cwd = cwd

    async def read(self, path: str, *, max_bytes: int = DEFAULT_MAX_READ) -> bytes:
        """Return the content of a regular file; links are followed. A FIFO or device is refused, never waited for.

        :param max_bytes: what is held in memory at the most; the sandbox decides how large its files are.
        :raises FileSystemError: the file is larger (``errno`` is EFBIG).
        """
        target = self._path(path)
        most = check_max_output(max_bytes, "max_bytes")

        async def collect() -> bytes:
            # Closed here and now, so that a cancelled read ends what it opened in the sandbox.
            async with aclosing(as_generator(self._service.read(target))) as chunks:
                content = bytearray()
                async for chunk in chunks:
                    content += chunk
                    if len(content) > most:
                        raise FileSystemError(
                            f"{path!r} has more than {most} bytes",
                            errno=errno.EFBIG,
                            hint="use open_read() or download(), or raise max_bytes=",
                        )
                return bytes(content)

        record = self._record("file_read", target)
        async with self._recorded(record):
            content = await self._call(collect)
            record.came_out(len(content))
            return content

    async def read_text(self, path: str, encoding: str = "utf-8") -> str:
        """Return the content of a text file. :raises ConfigurationError: it is not valid in that encoding."""
        data = await self.read(path)
        try:
            return data.decode(encoding)
        except UnicodeDecodeError as error:
            raise ConfigurationError(f"{path!r} is not valid {encoding}", hint="use read() for bytes") from error
        except (LookupError, TypeError, ValueError):
            raise_from(_no_encoding(encoding), None)

    async def write(self, path: str, data: bytes | bytearray | memoryview | str) -> None:
        """Write a file whole or not at all, making missing parents; text is written as UTF-8.

        :raises ResourceLimitExceeded: the disk is full; the old content, if any, is still there.
        """
        target = self._path(path)
        content = _content(data)
        record = self._record("file_write", target, bytes_in=len(content))
        async with self._recorded(record):
            await self._call(lambda: self._write(target, content))

    def open_read(self, path: str) -> AbstractAsyncContextManager[FileReader]:
        """Open a regular file as a stream: ``async with files.open_read(path) as reader: async for chunk in reader``.

        One deadline, the sandbox's timeout, holds from entering to leaving.
        """
        target = self._path(path)
        return reading(lambda: FileCalls(self._lease), lambda: self._service, target)

    def open_write(self, path: str) -> AbstractAsyncContextManager[FileWriter]:
        """Open a file for a content in pieces: ``async with files.open_write(path) as file: await file.write(chunk)``.

        Whole or not at all: it has its name, and its missing parents, when the block is left; a block that is left by
        an exception or a cancellation changes nothing. The deadline is as for `open_read`.
        """
        target = self._path(path)
        return writing(lambda: FileCalls(self._lease), lambda: self._service, target)

    async def upload(self, local: str | os.PathLike[str], remote: str) -> None:
        """Copy a file or a tree of this machine into the sandbox, as ``cp -r`` does, mode and time kept.

        Where ``remote`` is an existing directory it goes into that, under its own name (its content, if ``local`` ends
        in ``.``); else it is ``remote``; missing parents are made. What exists is replaced file by file, directories are
        merged. A link at the top is followed, links in a tree stay links; FIFOs, sockets and devices are refused. Set-id
        and sticky bits are not kept, nor owners. Each file is whole or not there. A tree that fails, or is cancelled, is
        removed again, unless its directory was there before.

        :raises ResourceLimitExceeded: the sandbox's disk is full.
        :raises FileSystemError: here or there; the text says "on this machine" for here.
        """
        source, target = _local_path(local), self._path(remote)
        name = _own_name(source)

        async def send() -> None:
            with disk_cap(self._lease):
                await upload(self._lease, self._service, source, name, target, record.went_in)

        record = self._record("file_upload", target)
        async with self._recorded(record):
            await self._call(send)

    async def download(self, remote: str, local: str | os.PathLike[str], *, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        """Copy a file or a tree of the sandbox to this machine, mode and time kept, whole or not at all.

        Where ``local`` is an existing directory it goes into that, under its own name (its content, if ``remote`` ends
        in ``.``); else it is ``local``, whose parent must exist. A file replaces a file or a link of that name, and
        never writes through the link; a tree is never merged, only an empty directory is replaced.

        Nothing that the sandbox answers makes it write elsewhere. A link at the top is followed; links in a tree are
        kept if they are relative and lead to inside it, without ``..`` after a name. Anything else (other links, FIFOs,
        devices, what is no name, over 100 levels or a million entries) is refused by name, and nothing is left. Set-id
        and sticky bits are not kept, nor owners; a directory's owner may always use it.

        :param max_bytes: bytes of all files; a sandbox can hold sparse files of any size.
        :raises FileSystemError: here or there; the text says "on this machine" for here.
        """
        target, limit = _local_path(local), _check_max_bytes(max_bytes)
        source = self._path(remote)
        record = self._record("file_download", source)
        async with self._recorded(record):
            await self._call(lambda: download(self._service, source, _own_name(source), target, limit, record.came_out))

    async def ls(self, path: str = ".") -> list[FileInfo]:
        """Return the entries of a directory, sorted by path."""
        target = self._path(path).removesuffix("/.") or "/"
        async with self._recorded(self._record("file_list", target)):
            entries = await self._call(lambda: self._service.list(target))
        return sorted(entries, key=lambda entry: entry.path)

    async def mkdir(self, path: str, *, parents: bool = False) -> None:
        """Make a directory; with ``parents`` missing ones too, and an existing one is no error."""
        target = self._path(path)
        async with self._recorded(self._record("file_mkdir", target)):
            await self._call(lambda: self._service.mkdir(target, parents=parents))

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a link (never what it points to) or an empty directory; with ``recursive`` a tree."""
        target = self._path(path)
        async with self._recorded(self._record("file_remove", target)):
            await self._call(lambda: self._service.remove(target, recursive=recursive))

    async def stat(self, path: str) -> FileInfo:
        """Return what is known about one path, links followed."""
        target = self._path(path)
        async with self._recorded(self._record("file_stat", target)):
            return await self._call(lambda: self._service.stat(target))

    async def exists(self, path: str) -> bool:
        """Whether the path leads to something; false for a broken or looping link."""
        try:
            await self.stat(path)
        except (PathNotFound, NotADirectory):
            return False
        except FileSystemError as error:
            if error.errno == _LOOP:
                return False
            raise
        return True

    @property
    def _service(self) -> HasFiles:
        session = self._lease.session
        if isinstance(session, HasFiles):
            return session
        return ContentFiles(self._lease, session) if isinstance(session, HasContents) else CommandFiles(self._lease)

    async def _write(self, target: str, content: memoryview) -> None:
        with disk_cap(self._lease):
            await self._service.write(target, _chunks(content))

    def _path(self, path: str) -> str:
        return resolve_path(path, self._cwd)

    def _record(self, event: EventName, path: str, *, bytes_in: int | None = None) -> Record:
        return Record(event, self._lease.subject, path=path, bytes_in=bytes_in)

    def _recorded(self, record: Record) -> AbstractAsyncContextManager[None]:
        return self._lease.recorder.operation(record)

    async def _call(self, operation: Callable[[], Awaitable[T]]) -> T:
        return await FileCalls(self._lease).run(operation)


def _content(data: bytes | bytearray | memoryview | str) -> memoryview:
    if not isinstance(data, str):
        # A copy where the caller may change it while it is sent.
        return memoryview(data if isinstance(data, bytes) else input_bytes(data, "a file's content"))
    try:
        return memoryview(data.encode("utf-8"))
    except UnicodeEncodeError:
        raise_from(ConfigurationError("the text holds a lone surrogate", hint="pass bytes or valid Unicode text"), None)


async def _chunks(content: memoryview) -> AsyncIterator[bytes]:
    for start in range(0, len(content), WRITE_CHUNK):
        yield bytes(content[start : start + WRITE_CHUNK])


def _local_path(local: str | os.PathLike[str]) -> str:
    path = os.fspath(local) if isinstance(local, os.PathLike) else local
    if not isinstance(path, str) or not path or "\0" in path:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError("that is no path of this machine", hint="pass a non-empty str or pathlib.Path")
    return path


def _no_encoding(encoding: object) -> ConfigurationError:
    return ConfigurationError(
        f"no encoding is named {shown_name(encoding)}", hint="pass one that Python knows, such as 'utf-8' or 'latin-1'"
    )


def _own_name(path: str) -> str | None:
    """Return the last component; ``None`` for one that stands for a directory's content, as ``cp -r`` takes it."""
    name = posixpath.basename(path.rstrip("/"))
    return None if name in ("", ".", "..") else name


def _check_max_bytes(value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"max_bytes={shown_number(value)} is no number of bytes",
            hint=f"pass 0 or more; {DEFAULT_MAX_BYTES} is usual",
        )
    return value
