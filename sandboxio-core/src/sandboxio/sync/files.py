"""Files in a sandbox, for synchronous code."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager

from sandboxio.downloading import DEFAULT_MAX_BYTES
from sandboxio.files import DEFAULT_MAX_READ, FileReader, Files, FileWriter
from sandboxio.port import FileInfo
from sandboxio.sync.block import Block
from sandboxio.sync.waiting import Waiter


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
        return Block(self._waiter, "async with files.open_read(…)", self._files.open_read(path), SyncFileReader)

    def open_write(self, path: str) -> AbstractContextManager[SyncFileWriter]:
        """Open a file for a content in pieces: ``with files.open_write(path) as file: file.write(chunk)``."""
        return Block(self._waiter, "async with files.open_write(…)", self._files.open_write(path), SyncFileWriter)

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
