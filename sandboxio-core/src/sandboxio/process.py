"""A streamed command."""

from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.lowlevel

from sandboxio.border import masked
from sandboxio.commands import input_bytes, no_shell
from sandboxio.errors import ConfigurationError, ConnectError, SandboxError, SandboxGone
from sandboxio.execution import Running
from sandboxio.port import Chunk, Command, Exit, ProcessDriver
from sandboxio.records import Record
from sandboxio.result import Collected

if TYPE_CHECKING:
    from types import TracebackType

    from sandboxio.lease import Lease

T = TypeVar("T")

SETTLE = 0.5
"""Seconds for a command whose output ended to be seen ended too, when its block is left."""

OutputChunk = Chunk


@masked(lambda process: process._lease.redactor)
class Process:
    """A streamed command; use it as ``async with sandbox.stream(…) as proc: async for chunk in proc``.

    There is one consumer. A cancelled read loses nothing, ``break`` leaves the command running and the rest unread;
    leaving the block ends the whole process tree.
    """

    def __init__(self, lease: "Lease", command: Command, timeout: float | None, *, needs_shell: bool = False) -> None:
        self._lease = lease
        self._needs_shell = needs_shell
        self._command = command
        self._timeout = timeout
        self._record = Record("stream", lease.subject, command.argv)
        self._recording = lease.recorder.operation(self._record, nests=False)
        self._started: Running | None = None
        self._exit: Exit | None = None
        self._consumed = False
        self._at_end = False
        self._killed = False
        self._expired = False
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
        self._record.begin()
        await self._recording.__aenter__()
        try:
            self._started = await Running.start(self._lease, self._command, self._timeout)
        except BaseException as error:
            await self._recording.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        """End the whole process tree if the command has not ended."""
        try:
            await self._leave(self._running)
        except BaseException as failure:
            await self._recording.__aexit__(type(failure), failure, failure.__traceback__)
            raise
        self._record.exit_code = self.returncode
        await self._recording.__aexit__(kind, error, trace)

    async def _leave(self, running: Running) -> None:
        if self._exit is None and self._at_end and not self._killed:
            await self._settle(running)
        if self._exit is None and not self._killed:
            await running.end()

    def __aiter__(self) -> AsyncIterator[OutputChunk]:
        """Iterate over the output as it comes."""
        return self

    async def __anext__(self) -> OutputChunk:
        """Return the next chunk."""
        with self._only_consumer():
            chunk = await self._read()
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    async def send(self, data: bytes | bytearray | memoryview) -> None:
        """Write to stdin; waits while the command does not read."""
        checked = input_bytes(data, "what is sent")
        await self._within_budget(lambda driver: driver.send(checked))
        self._record.went_in(len(checked))

    async def close_stdin(self) -> None:
        """End stdin."""
        await self._within_budget(lambda driver: driver.close_stdin())

    async def wait(self) -> int:
        """Wait for the end, dropping (and counting) what is unread, and return the exit code.

        :raises ExecutionTimeout: the deadline passed. :raises ResourceLimitExceeded: a cap ended the command.
        :raises ConfigurationError: the command is a string, and the image has no shell.
        """
        with self._only_consumer():
            while self._exit is None and (chunk := await self._read()) is not None:
                self.discarded_bytes += len(chunk.data)
            if self._exit is None:
                self._exit = await self._within_budget(self._wait_for)
                self._running.finished()
        if self._exit.limit is not None:
            raise self._lease.limit_exceeded(self._exit.limit)
        if self._needs_shell and not self._exit.started:
            raise no_shell()
        return self._exit.code

    async def _wait_for(self, driver: ProcessDriver) -> Exit:
        return self._lease.believe(await driver.wait())

    async def kill(self) -> None:
        """End the whole process tree now."""
        running = self._running
        self._killed = True
        await running.end()

    @property
    def _running(self) -> Running:
        if self._started is None:
            raise ConfigurationError("the stream was not entered", hint="use `async with sandbox.stream(…) as proc`")
        self._lease.check_owner()
        return self._started

    @contextmanager
    def _only_consumer(self) -> Generator[None]:
        if self._consumed:
            raise ConfigurationError(
                "a stream has one consumer", hint="read from one task, share the chunks from there"
            )
        self._consumed = True
        try:
            yield
        finally:
            self._consumed = False

    async def _read(self) -> Chunk | None:
        if self._expired:
            raise self._running.budget.expired(self._lease, Collected(1))
        if self._at_end or self._killed:
            return None
        chunk = await self._within_budget(_receive_after_a_turn)
        self._at_end = chunk is None
        if chunk is not None:
            self._record.came_out(len(chunk.data))
        return chunk

    async def _within_budget(self, act: Callable[[ProcessDriver], Awaitable[T]]) -> T:
        """Call the driver under the deadline; what passed it gets nothing any more, even if it would be quick."""
        running = self._running
        with anyio.move_on_after(running.budget.left()):
            try:
                with self._lease.mapped():
                    if running.budget.left() > 0:
                        return await act(running.driver)
            except SandboxGone as error:
                running.finished()
                raise await self._lease.refine_gone(error) from error.__cause__
            except ConnectError as error:
                raise await self._lease.refine_gone(error) from error.__cause__
        self._killed = self._expired = True
        await running.end()
        expired = running.budget.expired(self._lease, Collected(1))
        self._record.outcome = expired.code
        raise expired

    async def _settle(self, running: Running) -> None:
        """Find out whether a command whose output ended has ended too: then nothing is left to kill."""
        with suppress(SandboxError), self._lease.mapped(), anyio.move_on_after(min(SETTLE, running.budget.left())):
            self._exit = await running.driver.wait()
            running.finished()


async def _receive_after_a_turn(driver: ProcessDriver) -> Chunk | None:
    # The turn of the loop is for a driver that always has something: it must not keep the deadline from firing. It
    # comes first, since a cancellation after the receive would lose a chunk.
    await anyio.lowlevel.checkpoint()
    return await driver.receive()
