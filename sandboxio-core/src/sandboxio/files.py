"""Files in a sandbox."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

import anyio

from sandboxio.command_files import CommandFiles
from sandboxio.commands import input_bytes, resolve_path
from sandboxio.errors import (
    ConfigurationError,
    ConnectError,
    FileSystemError,
    NotADirectory,
    PathNotFound,
    SandboxGone,
)
from sandboxio.execution import Budget
from sandboxio.port import FileInfo, HasFiles
from sandboxio.result import Collected

if TYPE_CHECKING:
    from sandboxio.lease import Lease

__all__ = ["FileInfo", "Files"]

T = TypeVar("T")

WRITE_CHUNK = 1024 * 1024
_DISK_FULL = frozenset({28, 122})
"""ENOSPC and EDQUOT, as Linux numbers them; the host may be another system."""
_LOOP = 40
"""ELOOP."""


class Files:
    """The files of one sandbox. Relative paths resolve against `Sandbox.cwd`; contents are bytes, exactly.

    Every method may raise `PathNotFound`, `PermissionDenied`, another `FileSystemError`, `SandboxGone`, or
    `ExecutionTimeout` when the sandbox's own timeout passes.
    """

    def __init__(self, lease: "Lease", cwd: str) -> None:
        self._lease = lease
        self._cwd = cwd

    async def read(self, path: str) -> bytes:
        """Return the content of a regular file; links are followed. A FIFO or device is refused, never waited for."""
        target = self._path(path)

        async def collect() -> bytes:
            # Closed here and now, so that a cancelled read ends what it opened in the sandbox.
            async with aclosing(_generator(self._service.read(target))) as chunks:
                return b"".join([chunk async for chunk in chunks])

        return await self._call(collect)

    async def read_text(self, path: str, encoding: str = "utf-8") -> str:
        """Return the content of a text file. :raises ConfigurationError: it is not valid in that encoding."""
        data = await self.read(path)
        try:
            return data.decode(encoding)
        except UnicodeDecodeError as error:
            raise ConfigurationError(f"{path!r} is not valid {encoding}", hint="use read() for bytes") from error
        except LookupError as error:
            raise ConfigurationError(f"no encoding is named {encoding!r}") from error

    async def write(self, path: str, data: bytes | bytearray | memoryview | str) -> None:
        """Write a file whole or not at all, making missing parents; text is written as UTF-8.

        :raises ResourceLimitExceeded: the disk is full; the old content, if any, is still there.
        """
        target = self._path(path)
        content = _content(data)
        await self._call(lambda: self._write(target, content))

    async def ls(self, path: str = ".") -> list[FileInfo]:
        """Return the entries of a directory, sorted by path."""
        target = self._path(path)
        entries = await self._call(lambda: self._service.list(target))
        return sorted(entries, key=lambda entry: entry.path)

    async def mkdir(self, path: str, *, parents: bool = False) -> None:
        """Make a directory; with ``parents`` missing ones too, and an existing one is no error."""
        target = self._path(path)
        await self._call(lambda: self._service.mkdir(target, parents=parents))

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a link (never what it points to) or an empty directory; with ``recursive`` a tree."""
        target = self._path(path)
        await self._call(lambda: self._service.remove(target, recursive=recursive))

    async def stat(self, path: str) -> FileInfo:
        """Return what is known about one path, links followed."""
        target = self._path(path)
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
        return session if isinstance(session, HasFiles) else CommandFiles(self._lease)

    async def _write(self, target: str, content: memoryview) -> None:
        try:
            await self._service.write(target, _chunks(content))
        except FileSystemError as error:
            if error.errno not in _DISK_FULL:
                raise
            raise self._lease.limit_exceeded("disk_mb") from error

    def _path(self, path: str) -> str:
        return resolve_path(path, self._cwd)

    async def _call(self, operation: Callable[[], Awaitable[T]]) -> T:
        lease = self._lease
        lease.check_alive()
        budget = Budget.of(lease, None)
        with anyio.move_on_after(budget.left()):
            try:
                with lease.mapped():
                    return await operation()
            except (SandboxGone, ConnectError) as error:
                raise await lease.refine_gone(error) from error.__cause__
        raise budget.expired(lease, Collected(1))


def _content(data: bytes | bytearray | memoryview | str) -> memoryview:
    if not isinstance(data, str):
        # A copy where the caller may change it while it is sent.
        return memoryview(data if isinstance(data, bytes) else input_bytes(data, "a file's content"))
    try:
        return memoryview(data.encode("utf-8"))
    except UnicodeEncodeError:
        raise ConfigurationError("the text holds a lone surrogate", hint="pass bytes or valid Unicode text") from None


async def _chunks(content: memoryview) -> AsyncIterator[bytes]:
    for start in range(0, len(content), WRITE_CHUNK):
        yield bytes(content[start : start + WRITE_CHUNK])


async def _generator(items: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    try:
        async for item in items:
            yield item
    finally:
        if isinstance(items, AsyncGenerator):
            await items.aclose()
