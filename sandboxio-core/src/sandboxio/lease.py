"""Core's hold on one open sandbox: how long it lives, whether it is gone and why, and how it ends."""

import os
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import anyio
import anyio.lowlevel

from sandboxio.calls import LOOK_BOUND, PortCalls
from sandboxio.creation import Opened
from sandboxio.destruction import Doomed, close, close_backend, warn_orphan
from sandboxio.errors import (
    CapabilityNotSupported,
    ConfigurationError,
    ConnectError,
    ExecutionError,
    ResourceLimitExceeded,
    SandboxError,
    SandboxGone,
)
from sandboxio.policy import Resources
from sandboxio.port import Command, Detaches, Exit, ProcessDriver
from sandboxio.records import Recorder, Subject
from sandboxio.redacted_output import RedactedDriver
from sandboxio.redaction import Redactor
from sandboxio.result import ExecResult
from sandboxio.teardown import OwnTask, finish, teardown_grace

KILL_PART = 0.4
"""Part of the grace that a process tree gets to end; the rest is for ending the sandbox in its place."""
LOOK = 2.0
"""Seconds for the question whether a sandbox lives, while its caller waits for an error."""
ROUNDING = 0.5
"""Seconds before the end of the lifetime within which a sandbox that is gone was ended by it."""

KILLED = 137
"""The exit code of a command that somebody killed."""
WITH_SANDBOX = "a command's processes could only be ended with the sandbox"


@dataclass(slots=True)
class _Life:
    """Whether the sandbox lives, as far as its owner knows; a sandbox that is gone stays gone."""

    gone: str | None = None
    limit: str | None = None
    asked: bool = False
    closed: bool = False
    detached: bool = False


class Lease:
    """What every operation on a sandbox shares."""

    def __init__(self, calls: PortCalls, opened: Opened, recorder: Recorder) -> None:
        spec, seen = opened.plan.spec, opened.seen
        self._calls = calls
        self._life = _Life()
        self._doomed = Doomed(calls, seen.sandbox_id, spec.metadata)
        self._ending: OwnTask[None] | None = None
        self._loop = anyio.lowlevel.current_token()
        self._pid = os.getpid()
        self.recorder = recorder
        self.plan = opened.plan
        self.session = opened.session
        self.sandbox_id = seen.sandbox_id
        self.labels: Mapping[str, str] = spec.metadata
        self.subject = Subject(spec.backend, opened.plan.tier.value, spec.metadata, seen.sandbox_id)
        self.timeout = spec.timeout
        self.created_at = seen.created_at
        self.expires_at, self._expires = opened.expires_at, opened.expires()

    @property
    def leaked(self) -> bool:
        """Whether this process still owns the sandbox and nobody even tried to end it or to give it up."""
        return not self._life.asked and self._pid == os.getpid()

    @property
    def closed(self) -> bool:
        """Whether it was seen to end, or a call goes on that sees to it: nothing is left to do but to wait."""
        return self._life.closed or (self._ending is not None and not (self._ending.done or self._ending.given_up))

    @property
    def ended_with_command(self) -> bool:
        """Whether the sandbox had to go because a command's processes could not be ended alone."""
        return self._life.gone == WITH_SANDBOX

    @property
    def detached(self) -> bool:
        """Whether this process gave the sandbox up."""
        return self._life.detached

    def mapped(self) -> AbstractContextManager[None]:
        """Translate what the adapter raises."""
        return self._calls.mapped(ExecutionError)

    @property
    def redactor(self) -> Redactor:
        """What masks the secrets of this sandbox and of its provider."""
        return self._calls.redactor

    def as_shown(self, driver: ProcessDriver) -> ProcessDriver:
        """Return a command whose output is as the caller wants it: as it is, or without secrets."""
        return RedactedDriver(driver, self._calls.redactor) if self.plan.spec.redact_output else driver

    def lifetime_left(self) -> float:
        """Seconds until the provider ends the sandbox, negative afterwards."""
        return self._expires - time.monotonic()

    def lifetime_over(self, stdout: bytes = b"", stderr: bytes = b"") -> SandboxGone:
        """Return the error for a lifetime that ended, and note it."""
        self._life.gone = "lifetime"
        return self._gone_error("lifetime", stdout, stderr)

    def limit_exceeded(self, limit: str, result: ExecResult | None = None) -> ResourceLimitExceeded:
        """Return the error for a cap that was hit, naming its value."""
        value = self.plan.cap(limit)
        shown = "its value" if value is None else f"{value:g}"
        return ResourceLimitExceeded(
            f"the sandbox hit its cap {limit} = {shown}", limit=limit, value=value, result=result
        )

    def check_alive(self) -> None:
        """:raises SandboxGone: it is known to be gone. :raises ConfigurationError: another loop or process."""
        self.check_owner()
        if self._life.detached:
            raise self._given_up()
        if self._life.gone is None and self.lifetime_left() <= 0:
            self._life.gone = "lifetime"
        if self._life.limit is not None:
            raise self.limit_exceeded(self._life.limit)
        if self._life.gone is not None:
            raise self._gone_error(self._life.gone)

    async def start(self, command: Command, backstop: float) -> ProcessDriver:
        """Start a command over the session; if the caller is cancelled meanwhile, what was started is ended.

        :param backstop: seconds after which the provider's side ends it by itself.
        """
        task = OwnTask(lambda: self._start(replace(command, timeout=backstop)))
        try:
            return await task.wait()
        except BaseException:
            if not task.failed:
                await finish(lambda: self._end_start(task), teardown_grace(), self._tree_left)
            raise

    async def _start(self, command: Command) -> ProcessDriver:
        try:
            with self.mapped():
                return await self.session.start(command)
        except (SandboxGone, ConnectError) as error:
            raise await self.refine_gone(error) from error.__cause__

    async def _end_start(self, task: OwnTask[ProcessDriver]) -> None:
        driver: ProcessDriver | None = None
        with anyio.move_on_after(teardown_grace() * KILL_PART):
            try:
                driver = await task.wait()
            except SandboxError:
                return
        if driver is not None:
            await self._kill_tree(driver)
            return
        task.cancel()
        await self._end_with_sandbox()

    async def end_tree(self, driver: ProcessDriver) -> None:
        """End a command's whole process tree, immune to cancellation; the sandbox goes if the tree can't be ended."""
        await finish(lambda: self._kill_tree(driver), teardown_grace(), self._tree_left)

    def believe(self, ended: Exit) -> Exit:
        """Return how a command ended, unless it was killed along with the sandbox: that is no exit of its own.

        :raises SandboxGone: the sandbox was being ended meanwhile.
        """
        if ended.code == KILLED and ended.limit is None and self._life.gone is not None:
            raise self._gone_error(self._life.gone)
        return ended

    async def _kill_tree(self, driver: ProcessDriver) -> None:
        if self._life.detached:
            return  # what ran when the sandbox was given up lives on
        expected = self._life.gone is None and self.session.info().get("kill") == "sandbox"
        if expected:
            # Known before it happens, so that other commands' ends are not taken for their own.
            self._life.gone = WITH_SANDBOX
        ended: str | None = None
        with anyio.move_on_after(teardown_grace() * KILL_PART):
            try:
                with self.mapped():
                    ended = await driver.kill()
            except SandboxGone:
                ended = "tree"
                self._life.gone = self._life.gone or "unknown"
            except SandboxError:
                ended = None
        if ended != "tree":
            await self._end_with_sandbox()
        elif expected and self._life.gone == WITH_SANDBOX:
            self._life.gone = None  # the tree could be ended alone after all

    async def _end_with_sandbox(self) -> None:
        """End the sandbox: a tree, or a part of it, may live on, and no other promise holds."""
        self._life.gone = self._life.gone or WITH_SANDBOX
        await Doomed(self._calls, self.sandbox_id, self.labels).until_gone()

    def _tree_left(self) -> None:
        self._life.gone = self._life.gone or "a command could not be ended"
        warn_orphan(self._calls, self.sandbox_id, self.labels, "a command could not be ended")

    async def refine_gone(
        self, error: SandboxGone | ConnectError, stdout: bytes = b"", stderr: bytes = b""
    ) -> SandboxError:
        """Return why a sandbox is really gone: its lifetime, a cap, or what the adapter said.

        A lost connection to a sandbox that lives stays a `ConnectError`.
        """
        if self._life.detached:
            return self._given_up()
        reason = self._life.gone or ("lifetime" if self.lifetime_left() <= ROUNDING else None)
        if reason is None and isinstance(error, ConnectError):
            if await self._lives():
                return error
            reason = "unknown"
        if reason is None:
            reason = error.reason if isinstance(error, SandboxGone) else "unknown"
        self._life.gone = reason
        if reason in Resources.model_fields:
            self._life.limit = reason
            exceeded = self.limit_exceeded(reason)
            exceeded.stdout_bytes, exceeded.stderr_bytes = stdout, stderr
            return exceeded
        return self._gone_error(reason, stdout, stderr, error.message)

    async def _lives(self) -> bool:
        """Whether the provider still knows the sandbox; yes while it does not answer."""
        try:
            return await self._calls.bounded(LOOK, lambda: self._calls.backend.observe(self.sandbox_id)) is not None
        except SandboxError:
            return True

    def _gone_error(self, reason: str, stdout: bytes = b"", stderr: bytes = b"", detail: str = "") -> SandboxGone:
        text = f"the sandbox {self.sandbox_id[:12]} is gone ({reason})" + (f": {detail}" if detail else "")
        hint = "create a new sandbox, of an image with a full python3: there a command ends alone"
        return SandboxGone(
            text, reason=reason, stdout=stdout, stderr=stderr, hint=hint if reason == WITH_SANDBOX else ""
        )

    def check_owner(self) -> None:
        """:raises ConfigurationError: another event loop or a forked child uses the sandbox."""
        if self._pid != os.getpid():
            raise ConfigurationError("this sandbox belongs to the process that forked", hint="create one in the child")
        if anyio.lowlevel.current_token() != self._loop:
            raise ConfigurationError(
                "this sandbox belongs to another event loop", hint="use it in the loop that created it"
            )

    def _given_up(self) -> ConfigurationError:
        text = f"the sandbox {self.sandbox_id[:12]} was given up by detach()"
        return ConfigurationError(text, hint="connect() to it by its full id, or end it with kill_managed()")

    async def detach(self) -> None:
        """Give the sandbox up: nothing that this process does or suffers ends it any more."""
        self.check_alive()
        session = self.session
        if not isinstance(session, Detaches):
            text = f"{self._calls.backend.info.name}'s sandboxes can't outlive their owner"
            raise CapabilityNotSupported(text, hint="keep it running")
        try:
            await self._calls.bounded(LOOK_BOUND, session.detach, ExecutionError)
        except (SandboxGone, ConnectError) as error:
            raise await self.refine_gone(error) from error.__cause__
        self._life.asked = self._life.detached = True
        await finish(self._close, teardown_grace(), lambda: None)

    async def end(self) -> None:
        """End the sandbox; repeating it does nothing, unless the last attempt failed."""
        self.check_owner()
        if self._life.detached:
            raise self._given_up()
        if self._life.closed:
            return
        self._life.gone = self._life.gone or "killed"
        self._life.asked = True
        if self._ending is None or self._ending.done or self._ending.given_up:
            self._ending = OwnTask(self._end)
        await self._ending.finish(teardown_grace(), self._doomed.warn)

    async def _end(self) -> None:
        await self._doomed.until_gone()
        self._life.closed = True
        await self._close()

    async def _close(self) -> None:
        await close(self._calls, self.session)
        await close_backend(self._calls)
