"""Files that are read and written in pieces."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from sandboxio.border import masked
from sandboxio.commands import input_bytes
from sandboxio.errors import ConfigurationError, FileSystemError, SandboxError
from sandboxio.file_calls import FileCalls, as_generator, disk_cap
from sandboxio.port import HasFiles
from sandboxio.records import Record
from sandboxio.teardown import OwnTask

Begin = Callable[[], FileCalls]
"""Starts the clock: what was only called, and never entered, has none."""
GIVE_UP = 2.0
"""Seconds that a service gets to end by itself, when the content that it writes is given up."""


@masked(lambda reader: reader._calls.lease.redactor)
class FileReader:
    """A file's content, piece by piece: ``async for chunk in reader``. The pieces are never empty.

    A read that was cancelled or failed may have lost a piece, so the next one says so instead of going on.
    """

    def __init__(self, calls: FileCalls, path: str, chunks: AsyncGenerator[bytes, None], record: Record) -> None:
        self._calls = calls
        self._record = record
        self._path = path
        self._chunks = chunks
        self._first: bytes | None = None
        self._whole = True

    async def open(self) -> None:
        """Read the first piece, so that a missing file shows at once."""
        self._first = await self._next()

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Iterate over the content."""
        return self

    async def __anext__(self) -> bytes:
        """Return the next piece."""
        if self._first is not None:
            first, self._first = self._first, None
        else:
            first = await self._next()
        if not first:
            raise StopAsyncIteration
        return first

    async def _next(self) -> bytes:
        if not self._whole:
            raise FileSystemError(f"{self._path!r}: an earlier read was cancelled or failed", hint="open it again")
        self._whole = False
        chunk = await self._calls.run(lambda: anext(self._chunks, b""))
        self._record.came_out(len(chunk))
        self._whole = True
        return chunk


@asynccontextmanager
async def reading(begin: Begin, service: Callable[[], HasFiles], path: str) -> AsyncGenerator[FileReader]:
    """Open a file for reading; leaving closes it."""
    calls = begin()
    record = Record("file_read", calls.lease.subject, path=path)
    async with calls.lease.recorder.operation(record, nests=False):
        async with aclosing(as_generator(service().read(path))) as chunks:
            reader = FileReader(calls, path, chunks, record)
            await reader.open()
            yield reader


@masked(lambda writer: writer._calls.lease.redactor)
class FileWriter:
    """A new content, piece by piece. It replaces the file when the block is left without an exception.

    A write that was cancelled or failed may have lost its piece: nothing is replaced then.
    """

    def __init__(self, calls: FileCalls, service: HasFiles, path: str, record: Record) -> None:
        self._calls = calls
        self._record = record
        self._path = path
        self._into, content = anyio.create_memory_object_stream[bytes](0)
        self._task = OwnTask(lambda: self._send(service, path, content))
        self._open = True
        self._whole = True
        self._complete = False

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Add a piece; waits while the sandbox takes the pieces before.

        :raises ResourceLimitExceeded: the disk is full; the old content, if any, is still there.
        """
        piece = input_bytes(data, "a file's content")
        if not self._open:
            raise ConfigurationError("this file was closed", hint="write inside the block of open_write()")
        whole, self._whole = self._whole, False
        if piece:
            await self._calls.run(lambda: self._give(piece))
            self._record.went_in(len(piece))
        self._whole = whole

    async def _give(self, piece: bytes) -> None:
        try:
            await self._into.send(piece)
        except anyio.BrokenResourceError:
            await self._task.wait()
            raise FileSystemError("the file was ended before its content was complete") from None

    async def _send(self, service: HasFiles, path: str, content: MemoryObjectReceiveStream[bytes]) -> None:
        with content, disk_cap(self._calls.lease):
            async with aclosing(self._pieces(content)) as chunks:
                await service.write(path, chunks)

    async def _pieces(self, content: MemoryObjectReceiveStream[bytes]) -> AsyncGenerator[bytes, None]:
        async for piece in content:
            yield piece
        if not self._complete:
            raise FileSystemError(f"{self._path!r}: the new content was given up; nothing was replaced")

    async def finish(self) -> None:
        """Say that this was all, and wait until it is in place."""
        self._open = False
        if not self._whole:
            raise FileSystemError(f"{self._path!r}: a write was cancelled or failed; nothing was replaced")
        self._complete = True
        self._into.close()
        await self._calls.run(self._task.wait)

    async def abandon(self) -> None:
        """Give the new content up, immune to cancellation; nothing of it stays.

        The service is told by an error in what it sends, and cancelled if that takes long: over commands a cancellation
        may cost the sandbox.
        """
        self._open = False
        self._into.close()
        with suppress(SandboxError), self._calls.lease.mapped():
            await self._task.finish(GIVE_UP, lambda: None)


@asynccontextmanager
async def writing(begin: Begin, service: Callable[[], HasFiles], path: str) -> AsyncGenerator[FileWriter]:
    """Open a file for writing, whole or not at all."""
    calls = begin()
    record = Record("file_write", calls.lease.subject, path=path)
    async with calls.lease.recorder.operation(record, nests=False):
        writer = FileWriter(calls, service(), path, record)
        try:
            yield writer
            await writer.finish()
        except BaseException:
            await writer.abandon()
            raise
