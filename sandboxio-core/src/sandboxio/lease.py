"""Core's hold on one open sandbox: how long it lives, whether it is gone and why, and how it ends."""

import os
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

import anyio
import anyio.lowlevel

from sandboxio.calls import LOOK_BOUND, PortCalls
from sandboxio.creation import Opened, destroy_for_sure, warn_orphan
from sandboxio.errors import ConfigurationError, ResourceLimitExceeded, SandboxError, SandboxGone
from sandboxio.planning import Enforcement
from sandboxio.policy import Resources
from sandboxio.port import Command, ProcessDriver
from sandboxio.result import ExecResult
from sandboxio.teardown import OwnTask, finish, teardown_grace

_CAP_ITEMS = {"cpu": "cpu", "memory_mb": "memory", "disk_mb": "disk", "pids": "pids", "gpu": "gpu"}
"""Field of `Resources` → policy item."""


@dataclass(slots=True)
class _Life:
    """Whether the sandbox lives, as far as its owner knows; a sandbox that is gone stays gone."""

    gone: str | None = None
    limit: str | None = None
    closed: bool = False


class Lease:
    """What every operation on a sandbox shares."""

    def __init__(self, calls: PortCalls, opened: Opened) -> None:
        spec, seen = opened.plan.spec, opened.seen
        self._calls = calls
        self._life = _Life()
        self._loop = anyio.lowlevel.current_token()
        self._pid = os.getpid()
        self.plan = opened.plan
        self.session = opened.session
        self.sandbox_id = seen.sandbox_id
        self.labels: Mapping[str, str] = spec.metadata
        self.timeout = spec.timeout
        self.created_at = seen.created_at
        self.expires_at = seen.expires_at or seen.created_at + spec.timeout
        # The provider's end in this machine's monotonic time: a clock jump must not shorten or stretch a call.
        self._expires = time.monotonic() + (self.expires_at - time.time())

    @property
    def leaked(self) -> bool:
        """Whether this process still owns the sandbox and nobody ended it."""
        return not self._life.closed and self._pid == os.getpid()

    def mapped(self) -> AbstractContextManager[None]:
        """Translate what the adapter raises."""
        return self._calls.mapped(SandboxGone)

    def lifetime_left(self) -> float:
        """Seconds until the provider ends the sandbox, negative afterwards."""
        return self._expires - time.monotonic()

    def lifetime_over(self, stdout: bytes = b"", stderr: bytes = b"") -> SandboxGone:
        """Return the error for a lifetime that ended, and note it."""
        self._life.gone = "lifetime"
        return self._gone_error("lifetime", stdout, stderr)

    def cap(self, limit: str) -> float | None:
        """Return the value of a cap by its field of `Resources`."""
        item = self.plan[_CAP_ITEMS[limit]] if limit in _CAP_ITEMS else None
        value = item.requested if isinstance(item, Enforcement) else None
        return value if isinstance(value, (int, float)) else None

    def limit_exceeded(self, limit: str, result: ExecResult | None = None) -> ResourceLimitExceeded:
        """Return the error for a cap that was hit, naming its value."""
        value = self.cap(limit)
        shown = "its value" if value is None else f"{value:g}"
        return ResourceLimitExceeded(
            f"the sandbox hit its cap {limit} = {shown}", limit=limit, value=value, result=result
        )

    def check_alive(self) -> None:
        """:raises SandboxGone: it is known to be gone. :raises ConfigurationError: another loop or process."""
        self.check_owner()
        if self._life.gone is None and self.lifetime_left() <= 0:
            self._life.gone = "lifetime"
        if self._life.limit is not None:
            raise self.limit_exceeded(self._life.limit)
        if self._life.gone is not None:
            raise self._gone_error(self._life.gone)

    async def session_start(self, command: Command, backstop: float) -> ProcessDriver:
        """Start a command over the session."""
        whole = Command(
            command.argv, command.env, command.cwd, command.stdin, command.user, command.code, timeout=backstop
        )
        try:
            with self.mapped():
                return await self.session.start(whole)
        except SandboxGone as error:
            raise await self.refine_gone(error) from error.__cause__

    async def end_start(self, task: "OwnTask[ProcessDriver]") -> None:
        """End what a start that nobody waits for any more has started or will start."""

        async def end() -> None:
            try:
                driver = await task.wait()
            except SandboxError:
                return
            await self._kill_tree(driver)

        if not (task.done and _failed(task)):
            await finish(end, teardown_grace(), lambda: self._condemn("a command could not be ended"))

    async def end_tree(self, driver: ProcessDriver) -> None:
        """End a command's whole process tree, immune to cancellation; the sandbox goes if the tree can't be ended."""
        await finish(
            lambda: self._kill_tree(driver), teardown_grace() * 2, lambda: self._condemn("a command could not be ended")
        )

    async def refine_gone(self, error: SandboxGone, stdout: bytes = b"", stderr: bytes = b"") -> SandboxError:
        """Return why a sandbox is really gone: its lifetime, a cap, or what the adapter said."""
        reason = error.reason
        if self._life.gone is not None:
            reason = self._life.gone
        elif self.lifetime_left() <= 0.5:
            reason = "lifetime"
        self._life.gone = reason
        if reason in Resources.model_fields:
            self._life.limit = reason
            exceeded = self.limit_exceeded(reason)
            exceeded.stdout_bytes, exceeded.stderr_bytes = stdout, stderr
            return exceeded
        return self._gone_error(reason, stdout, stderr, error.message)

    def _gone_error(self, reason: str, stdout: bytes = b"", stderr: bytes = b"", detail: str = "") -> SandboxGone:
        text = f"the sandbox {self.sandbox_id[:12]} is gone ({reason})" + (f": {detail}" if detail else "")
        return SandboxGone(text, reason=reason, stdout=stdout, stderr=stderr)

    def check_owner(self) -> None:
        """:raises ConfigurationError: another event loop or a forked child uses the sandbox."""
        if self._pid != os.getpid():
            raise ConfigurationError("this sandbox belongs to the process that forked", hint="create one in the child")
        if anyio.lowlevel.current_token() != self._loop:
            raise ConfigurationError(
                "this sandbox belongs to another event loop", hint="use it in the loop that created it"
            )

    async def end(self) -> None:
        """End the sandbox; repeating it does nothing, unless the last attempt failed."""
        self.check_owner()
        if self._life.closed:
            return
        self._life.gone = self._life.gone or "killed"
        await destroy_for_sure(self._calls, self.sandbox_id, self.labels, self._after_gone)

    async def _kill_tree(self, driver: ProcessDriver) -> None:
        ended: str | None = None
        with anyio.move_on_after(teardown_grace() / 2):
            try:
                ended = await driver.kill()
            except SandboxGone:
                ended = "tree"
                self._life.gone = self._life.gone or "unknown"
            except SandboxError:
                ended = None
        if ended == "tree":
            return
        # The tree, or a part of it, may live on: no promise holds but by ending the sandbox.
        self._life.gone = self._life.gone or "a command's processes could only be ended with the sandbox"
        await destroy_for_sure(self._calls, self.sandbox_id, self.labels)

    def _condemn(self, why: str) -> None:
        self._life.gone = self._life.gone or why
        warn_orphan(self._calls, self.sandbox_id, self.labels, why)

    async def _after_gone(self) -> None:
        self._life.closed = True
        try:
            await self._calls.bounded(LOOK_BOUND, self.session.aclose)
        except SandboxError:
            return  # the sandbox is gone, so its connection may well be broken


def _failed(task: "OwnTask[ProcessDriver]") -> bool:
    try:
        task.result()
    except SandboxError:
        return True
    return False
