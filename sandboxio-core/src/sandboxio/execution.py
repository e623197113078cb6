"""A started command under its deadline, and the command that runs to its end."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from sandboxio.errors import ConnectError, ExecutionError, ExecutionTimeout, SandboxError, SandboxGone
from sandboxio.guards import review_exec
from sandboxio.port import Chunk, Command, Exit, ProcessDriver
from sandboxio.result import Collected, ExecResult
from sandboxio.teardown import OwnTask

if TYPE_CHECKING:
    from sandboxio.lease import Lease

BACKSTOP = 2.0
"""Seconds by which the provider's own timeout is later than core's clock."""
STOP = 1.0
"""Seconds that the feeding of stdin, given up, may take to end."""
SHOWN = 500
"""Characters of the end of stderr that an error message shows."""
MOST_SHOWN = 1024 * 1024
"""Bytes of the end of stderr that are looked at for it: more than the longest secret, in its longest form."""


class Running:
    """A started command under its deadline: what `execute` and `Process` share."""

    def __init__(self, lease: "Lease", driver: ProcessDriver, budget: "Budget") -> None:
        self.lease = lease
        self.driver = driver
        self.budget = budget
        self._ended = False

    @classmethod
    async def start(cls, lease: "Lease", command: Command, timeout: float | None) -> "Running":
        """Start a command; if the caller is cancelled meanwhile, what was started is ended."""
        lease.check_alive()
        budget = Budget.of(lease, timeout)
        with anyio.move_on_after(budget.left()):
            await review_exec(lease.sandbox_id, command, lease.plan.spec, lease.redactor)
            return cls(lease, lease.as_shown(await lease.start(command, budget.seconds + BACKSTOP)), budget)
        raise budget.expired(lease, Collected(1))

    async def end(self) -> None:
        """End the whole process tree, once, immune to cancellation."""
        if not self._ended:
            self._ended = True
            await self.lease.end_tree(self.driver)

    def finished(self) -> None:
        """Note that the command ended by itself; what it left running lives on."""
        self._ended = True


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a call may take: its own timeout, or what is left of the sandbox's life."""

    seconds: float
    by_lifetime: bool
    until: float

    @classmethod
    def of(cls, lease: "Lease", timeout: float | None) -> "Budget":
        """Take the smaller one; at a tie the lifetime decides."""
        own = lease.timeout if timeout is None else timeout
        life = max(0.0, lease.lifetime_left())
        seconds = min(own, life)
        return cls(seconds, life <= own, time.monotonic() + seconds)

    def left(self) -> float:
        """Seconds until the end, not below 0."""
        return max(0.0, self.until - time.monotonic())

    def expired(self, lease: "Lease", output: Collected) -> SandboxGone | ExecutionTimeout:
        """Return the error for a budget that is used up, with what was printed."""
        stdout, stderr = output.kept("stdout"), output.kept("stderr")
        if self.by_lifetime:
            return lease.lifetime_over(stdout, stderr)
        text = f"it did not end within {self.seconds:g} s"
        if lease.ended_with_command:
            text += ", and its processes could only be ended with the whole sandbox"
        return ExecutionTimeout(text, stdout=stdout, stderr=stderr)


async def execute(
    lease: "Lease", command: Command, *, stdin: bytes | None, timeout: float | None, max_output: int
) -> tuple[Exit, ExecResult]:
    """Run a command to its end."""
    started = time.monotonic()
    output = Collected(max_output)
    running = await Running.start(lease, command, timeout)
    with anyio.move_on_after(running.budget.left()):
        try:
            ended = await _drive(running, output, stdin)
        except SandboxGone as error:
            running.finished()
            raise await lease.refine_gone(error, output.kept("stdout"), output.kept("stderr")) from error.__cause__
        except ConnectError as error:
            await running.end()
            raise await lease.refine_gone(error, output.kept("stdout"), output.kept("stderr")) from error.__cause__
        except BaseException:
            await running.end()
            raise
        running.finished()
        return ended, _result(lease, ended, output, time.monotonic() - started)
    raise running.budget.expired(lease, output)


async def _drive(running: Running, output: Collected, stdin: bytes | None) -> Exit:
    """Read to the end while stdin is fed; what feeding raises ends the reading."""
    if stdin is None:
        return await _read(running, output)
    feeder = _Feeder(running, stdin)
    try:
        with feeder.reading:
            return await _read(running, output)
    finally:
        await feeder.task.stop(STOP)
    # Left by the feeder's failure alone: a cancelled caller's scope raises at the end of `with`.
    raise feeder.error or ExecutionError("stdin could not be fed", hint="write the input to a file with files.write()")


async def _read(running: Running, output: Collected) -> Exit:
    driver = running.driver
    with running.lease.mapped():
        # The turn of the loop is for a driver that always has something: it must not keep the deadline from firing.
        while (chunk := await _after_a_turn(driver.receive)) is not None:
            output.add(chunk)
        return running.lease.believe(await driver.wait())


async def _after_a_turn(receive: Callable[[], Awaitable[Chunk | None]]) -> Chunk | None:
    await anyio.lowlevel.checkpoint()
    return await receive()


class _Feeder:
    def __init__(self, running: Running, stdin: bytes) -> None:
        self.reading = anyio.CancelScope()
        self.error: SandboxError | None = None
        self._running = running
        self._stdin = stdin
        self.task = OwnTask(self._feed)

    async def _feed(self) -> None:
        driver = self._running.driver
        try:
            with self._running.lease.mapped():
                await driver.send(self._stdin)
                await driver.close_stdin()
        except SandboxError as error:
            self.error = error
            self.reading.cancel()


def _result(lease: "Lease", ended: Exit, output: Collected, duration: float) -> ExecResult:
    return ExecResult(
        exit_code=ended.code,
        stdout_bytes=output.kept("stdout"),
        stderr_bytes=output.kept("stderr"),
        duration=duration,
        stdout_truncated=output.truncated("stdout"),
        stderr_truncated=output.truncated("stderr"),
        limits_hit=ended.limits_hit,
        shown=_shown(lease, output),
    )


def _shown(lease: "Lease", output: Collected) -> str:
    """Return the end of stderr for messages: masked before it is cut, so that no half of a secret is left over."""
    text = output.kept("stderr")[-MOST_SHOWN:].decode("utf-8", "replace")
    return lease.redactor.end(text, SHOWN, cut_off=output.truncated("stderr"))
