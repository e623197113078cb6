"""A streamed command."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, NoReturn

import anyio

from sandboxio.errors import ConfigurationError, SandboxGone
from sandboxio.execution import Running
from sandboxio.port import Chunk, Command, Exit
from sandboxio.result import Collected

if TYPE_CHECKING:
    from types import TracebackType

    from sandboxio.lease import Lease

OutputChunk = Chunk


class Process:
    """A streamed command; use it as ``async with sandbox.stream(…) as proc: async for chunk in proc``.

    There is one consumer. A cancelled read loses nothing, ``break`` leaves the command running and the rest unread;
    leaving the block ends the whole process tree.
    """

    def __init__(self, lease: "Lease", command: Command, timeout: float | None) -> None:
        self._lease = lease
        self._command = command
        self._timeout = timeout
        self._started: Running | None = None
        self._exit: Exit | None = None
        self._reading = False
        self._at_end = False
        self._killed = False
        self._used = False
        self.discarded_bytes = 0
        """Bytes that `wait` dropped unread."""

    @property
    def returncode(self) -> int | None:
        """The exit code, ``None`` while the command runs or nobody asked."""
        return self._exit.code if self._exit else None

    async def __aenter__(self) -> "Process":
        """Start the command."""
        if self._used:
            raise ConfigurationError("a stream can be entered once", hint="call stream() again")
        self._used = True
        self._started = await Running.start(self._lease, self._command, self._timeout)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        """End the whole process tree if the command has not ended."""
        if self._exit is None and not self._killed:
            await self._running.end()

    def __aiter__(self) -> AsyncIterator[OutputChunk]:
        """Iterate over the output as it comes."""
        return self

    async def __anext__(self) -> OutputChunk:
        """Return the next chunk."""
        chunk = await self._read()
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    async def send(self, data: bytes) -> None:
        """Write to stdin; waits while the command does not read."""
        running = self._running
        with anyio.move_on_after(running.budget.left()):
            with self._lease.mapped():
                await running.driver.send(bytes(data))
            return
        await self._expire()

    async def close_stdin(self) -> None:
        """End stdin."""
        running = self._running
        with anyio.move_on_after(running.budget.left()):
            with self._lease.mapped():
                await running.driver.close_stdin()
            return
        await self._expire()

    async def wait(self) -> int:
        """Wait for the end, dropping (and counting) what is unread, and return the exit code.

        :raises ExecutionTimeout: the deadline passed. :raises ResourceLimitExceeded: a cap ended the command.
        """
        if self._exit is not None:
            return self._exit.code
        while (chunk := await self._read()) is not None:
            self.discarded_bytes += len(chunk.data)
        ended = await self._wait_exit()
        if ended.limit is not None:
            raise self._lease.limit_exceeded(ended.limit)
        return ended.code

    async def kill(self) -> None:
        """End the whole process tree now."""
        self._killed = True
        await self._running.end()

    @property
    def _running(self) -> Running:
        if self._started is None:
            raise ConfigurationError("the stream was not entered", hint="use `async with sandbox.stream(…) as proc`")
        return self._started

    async def _read(self) -> Chunk | None:
        running = self._running
        if self._reading:
            raise ConfigurationError(
                "a stream has one consumer", hint="read from one task, share the chunks from there"
            )
        if self._at_end or self._killed:
            return None
        self._reading = True
        try:
            with anyio.move_on_after(running.budget.left()):
                return await self._receive(running)
            await self._expire()
        finally:
            self._reading = False

    async def _receive(self, running: Running) -> Chunk | None:
        try:
            with self._lease.mapped():
                chunk = await running.driver.receive()
        except SandboxGone as error:
            running.finished()
            raise await self._lease.refine_gone(error) from error.__cause__
        self._at_end = chunk is None
        return chunk

    async def _wait_exit(self) -> Exit:
        running = self._running
        with anyio.move_on_after(running.budget.left()):
            try:
                with self._lease.mapped():
                    self._exit = await running.driver.wait()
            except SandboxGone as error:
                running.finished()
                raise await self._lease.refine_gone(error) from error.__cause__
            running.finished()
            return self._exit
        return await self._expire()

    async def _expire(self) -> NoReturn:
        self._killed = True
        await self._running.end()
        raise self._running.budget.expired(self._lease, Collected(1))
