"""Files in a sandbox, for synchronous code."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Generic, TypeVar

from sandboxio.downloading import DEFAULT_MAX_BYTES
from sandboxio.files import DEFAULT_MAX_READ, FileReader, Files, FileWriter
from sandboxio.loop_thread import Hold
from sandboxio.port import FileInfo
from sandboxio.sync.waiting import Waiter

if TYPE_CHECKING:
    from types import TracebackType

T = TypeVar("T")
S = TypeVar("S")


class SyncFileReader:
    """A file's content, piece by piece: ``for chunk in reader``; see `sandboxio.files.FileReader`."""

    def __init__(self, waiter: Waiter, reader: FileReader) -> None:
        self._waiter = waiter
        self._reader = reader

    def __iter__(self) -> Iterator[bytes]:
        """Iterate over the content."""
        return self

    def __next__(self) -> bytes:
        """Return the next piece."""
        piece = self._waiter.call("async for chunk in reader", self._next)
        if not piece:
            raise StopIteration
        return piece

    async def _next(self) -> bytes:
        return await anext(self._reader, b"")


class SyncFileWriter:
    """A new content, piece by piece; see `sandboxio.files.FileWriter`."""

    def __init__(self, waiter: Waiter, writer: FileWriter) -> None:
        self._waiter = waiter
        self._writer = writer

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Add a piece; waits while the sandbox takes the pieces before."""
        self._waiter.call("await file.write(…)", lambda: self._writer.write(data))


class SyncFiles:
    """The files of one sandbox; every method as in `sandboxio.files.Files`, with the same errors."""

    def __init__(self, waiter: Waiter, files: Files) -> None:
        self._waiter = waiter
        self._files = files

    def read(self, path: str, *, max_bytes: int = DEFAULT_MAX_READ) -> bytes:
        """Return the content of a regular file."""
        return self._waiter.call("await files.read(…)", lambda: self._files.read(path, max_bytes=max_bytes))

    def read_text(self, path: str, encoding: str = "utf-8") -> str:
        """Return the content of a text file."""
        return self._waiter.call("await files.read_text(…)", lambda: self._files.read_text(path, encoding))

    def write(self, path: str, data: bytes | bytearray | memoryview | str) -> None:
        """Write a file whole or not at all, making missing parents; text is written as UTF-8."""
        self._waiter.call("await files.write(…)", lambda: self._files.write(path, data))

    def open_read(self, path: str) -> AbstractContextManager[SyncFileReader]:
        """Open a regular file as a stream: ``with files.open_read(path) as reader: for chunk in reader``."""
        return _Opened(self._waiter, "async with files.open_read(…)", self._files.open_read(path), SyncFileReader)

    def open_write(self, path: str) -> AbstractContextManager[SyncFileWriter]:
        """Open a file for a content in pieces: ``with files.open_write(path) as file: file.write(chunk)``."""
        return _Opened(self._waiter, "async with files.open_write(…)", self._files.open_write(path), SyncFileWriter)

    def upload(self, local: str | os.PathLike[str], remote: str) -> None:
        """Copy a file or a tree of this machine into the sandbox, as ``cp -r`` does, mode and time kept."""
        self._waiter.call("await files.upload(…)", lambda: self._files.upload(local, remote))

    def download(self, remote: str, local: str | os.PathLike[str], *, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        """Copy a file or a tree of the sandbox to this machine, mode and time kept, whole or not at all."""
        self._waiter.call("await files.download(…)", lambda: self._files.download(remote, local, max_bytes=max_bytes))

    def ls(self, path: str = ".") -> list[FileInfo]:
        """Return the entries of a directory, sorted by path."""
        return self._waiter.call("await files.ls(…)", lambda: self._files.ls(path))

    def mkdir(self, path: str, *, parents: bool = False) -> None:
        """Make a directory; with ``parents`` missing ones too, and an existing one is no error."""
        self._waiter.call("await files.mkdir(…)", lambda: self._files.mkdir(path, parents=parents))

    def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a link (never what it points to) or an empty directory; with ``recursive`` a tree."""
        self._waiter.call("await files.remove(…)", lambda: self._files.remove(path, recursive=recursive))

    def stat(self, path: str) -> FileInfo:
        """Return what is known about one path, links followed."""
        return self._waiter.call("await files.stat(…)", lambda: self._files.stat(path))

    def exists(self, path: str) -> bool:
        """Whether the path leads to something; false for a broken or looping link."""
        return self._waiter.call("await files.exists(…)", lambda: self._files.exists(path))


class _Opened(Generic[T, S]):
    """An asynchronous context that is entered and left in the loop."""

    def __init__(
        self, waiter: Waiter, form: str, opened: AbstractAsyncContextManager[T], wrap: Callable[[Waiter, T], S]
    ) -> None:
        self._waiter = waiter
        self._form = form
        self._opened = opened
        self._wrap = wrap
        self._hold: Hold | None = None

    def __enter__(self) -> S:
        entered: list[T] = []

        async def enter() -> None:
            entered.append(await self._opened.__aenter__())

        hold = self._waiter.hold_for(self)
        try:
            self._waiter.call(self._form, enter)
            self._hold = hold
        except BaseException as error:
            if entered:  # a Ctrl-C came between the opening and its return
                self._hold = hold
                self.__exit__(type(error), error, error.__traceback__)
            hold.release()
            raise
        return self._wrap(self._waiter, entered[0])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> bool | None:
        async def leave() -> bool | None:
            return await self._opened.__aexit__(kind, error, trace)

        hold, self._hold = self._hold, None
        try:
            return self._waiter.call(self._form, leave, hold)
        finally:
            if hold is not None:
                hold.release()
