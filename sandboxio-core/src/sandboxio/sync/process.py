"""A streamed command, for synchronous code."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sandboxio.process import OutputChunk, Process
from sandboxio.sync.block import Block
from sandboxio.sync.waiting import Waiter

if TYPE_CHECKING:
    from types import TracebackType


class SyncProcess:
    """A streamed command: ``with sandbox.stream(…) as proc: for chunk in proc``; see `sandboxio.Process`."""

    def __init__(self, waiter: Waiter, process: Process) -> None:
        self._waiter = waiter
        self._process = process
        self._block = Block(waiter, "async with sandbox.stream(…)", process, lambda _, entered: entered)

    @property
    def returncode(self) -> int | None:
        """The exit code, ``None`` while the command runs or nobody asked."""
        return self._process.returncode

    @property
    def discarded_bytes(self) -> int:
        """Bytes that `wait` dropped unread."""
        return self._process.discarded_bytes

    def __enter__(self) -> "SyncProcess":
        """Start the command."""
        self._block.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        """End the whole process tree if the command has not ended."""
        self._block.__exit__(kind, error, trace)

    def __iter__(self) -> Iterator[OutputChunk]:
        """Iterate over the output as it comes."""
        return self

    def __next__(self) -> OutputChunk:
        """Return the next chunk."""
        chunk = self._waiter.call("async for chunk in proc", self._next)
        if chunk is None:
            raise StopIteration
        return chunk

    def send(self, data: bytes | bytearray | memoryview) -> None:
        """Write to stdin; waits while the command does not read."""
        self._waiter.call("await proc.send(…)", lambda: self._process.send(data))

    def close_stdin(self) -> None:
        """End stdin."""
        self._waiter.call("await proc.close_stdin()", self._process.close_stdin)

    def wait(self) -> int:
        """Wait for the end, dropping (and counting) what is unread, and return the exit code."""
        return self._waiter.call("await proc.wait()", self._process.wait)

    def kill(self) -> None:
        """End the whole process tree now."""
        self._waiter.call("await proc.kill()", self._process.kill)

    async def _next(self) -> OutputChunk | None:
        # A StopAsyncIteration can't leave a task.
        return await anext(self._process, None)
