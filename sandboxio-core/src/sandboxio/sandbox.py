"""The sandbox as its owner holds it."""

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sandboxio import commands
from sandboxio.border import masked
from sandboxio.calls import PortCalls
from sandboxio.capabilities import Capability
from sandboxio.creation import Opened
from sandboxio.errors import CapabilityNotSupported, ConfigurationError, OrphanedSandboxWarning
from sandboxio.execution import execute
from sandboxio.files import Files
from sandboxio.isolation import IsolationTier
from sandboxio.lease import Lease
from sandboxio.notices import yielding
from sandboxio.planning import Enforcement, Receipt
from sandboxio.port import Command, Exit
from sandboxio.process import Process
from sandboxio.records import Record, Recorder
from sandboxio.redaction import shown_name
from sandboxio.result import DEFAULT_MAX_OUTPUT, ExecResult, check_max_output
from sandboxio.spec import MAX_TIMEOUT, check_env, check_timeout

if TYPE_CHECKING:
    from types import TracebackType


@masked(lambda sandbox: sandbox._lease.redactor)
class Sandbox:
    """A running sandbox, from `create` or `connect`. Leaving its context kills it.

    It may be used and closed from any task of the loop it was made in.
    """

    def __init__(self, calls: PortCalls, opened: Opened, recorder: Recorder) -> None:
        plan, info = opened.plan, calls.backend.info
        self._lease = Lease(calls, opened, recorder)
        self.id = opened.seen.sandbox_id
        self.backend = info.name
        self.isolation: IsolationTier = plan.tier
        self.capabilities: Capability = info.features
        """What this sandbox can do."""
        self.policy: tuple[Receipt, ...] = plan.items
        """One receipt per policy item: how it is enforced, by whom, how that is known, what stays possible."""
        self.timeout = plan.spec.timeout
        """Seconds; the timeout that calls inherit."""
        self.metadata: Mapping[str, str] = plan.spec.metadata
        self.created_at = self._lease.created_at
        self.expires_at = self._lease.expires_at
        self.cwd = opened.cwd
        """Absolute path that commands start in and relative paths resolve against."""
        self.files = Files(self._lease, self.cwd)

    @property
    def native(self) -> object:
        """The provider's own object, outside any promise of stability."""
        return self._lease.session.native

    def info(self) -> Mapping[str, object]:
        """What is known about the connection: ``transport``, ``kill`` (what ending a command ends), what was seen at start.

        What a connected sandbox says was seen comes from inside, after other code may have run there.
        """
        with self._lease.mapped():
            return {name: self._lease.redactor.plain(value) for name, value in self._lease.session.info().items()}

    def __repr__(self) -> str:
        """Name backend, id, tier, egress and lifetime."""
        egress = self._lease.plan["network.egress"]
        wanted = egress.requested if isinstance(egress, Enforcement) else "?"
        text = f"<Sandbox {self.backend} {self.id[:12]} {self.isolation.value} {wanted} {self.timeout:g}s>"
        return self._lease.redactor.text(text)

    async def run(
        self,
        cmd: str | Sequence[str],
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: bytes | str | None = None,
        user: str | None = None,
        max_output: int = DEFAULT_MAX_OUTPUT,
    ) -> ExecResult:
        """Run a command and return when it ends; what it left running lives on.

        :param cmd: argv, through no shell; a string goes through ``sh -c``.
        :param timeout: seconds; ``None`` inherits the sandbox's.
        :param env: variables on top of the sandbox's.
        :param cwd: working directory, relative to `cwd`.
        :param stdin: what the command reads; without it stdin is at its end.
        :param max_output: bytes kept of each stream; the rest is dropped and the command goes on.
        :raises ExecutionTimeout: the deadline passed; the whole process tree is gone.
        :raises ResourceLimitExceeded: a cap ended the command.
        :raises SandboxGone: the sandbox ended.
        :raises ConfigurationError: a wrong argument, a missing working directory or shell.
        """
        limit = check_max_output(max_output)
        data = commands.stdin_bytes(stdin)
        command = self._command(cmd, env=env, cwd=cwd, user=user, stdin=data is not None)
        own = _own_timeout(timeout)
        record = Record("exec", self._lease.subject, command.argv, bytes_in=None if data is None else len(data))
        async with self._lease.recorder.operation(record):
            ended, result = await self._execute(record, command, data, own, limit)
            self._need_program(cmd, ended)
            return self._within_caps(ended, result)

    async def run_code(
        self,
        code: str,
        *,
        language: str = "python",
        context: object = None,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        max_output: int = DEFAULT_MAX_OUTPUT,
    ) -> ExecResult:
        """Run a piece of code with the interpreter of its language, each time in a fresh process.

        Errors of the code are a non-zero exit code with the traceback in stderr. Parameters and errors as for `run`.
        """
        if context is not None:
            raise CapabilityNotSupported(
                f"{self.backend} keeps no state between run_code calls",
                hint="leave context= out; keep state in files, or run one longer program",
                why="not_yet",
            )
        argv = commands.code_argv(language)
        command = Command(argv, self._env(env), self.cwd, code=commands.code_bytes(code))
        own, limit = _own_timeout(timeout), check_max_output(max_output)
        record = Record("run_code", self._lease.subject, command.argv, command.code)
        async with self._lease.recorder.operation(record):
            ended, result = await self._execute(record, command, None, own, limit)
            if not ended.started and ended.limit is None:
                raise ConfigurationError(
                    f"the sandbox has no interpreter {argv[0]!r} for {language}",
                    hint=f"use an image that has it; `run(['{argv[0]}', …])` needs it, too",
                )
            return self._within_caps(ended, result)

    def stream(
        self,
        cmd: str | Sequence[str],
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
    ) -> Process:
        """Return a command to be entered: ``async with sandbox.stream(…) as proc``. Its stdin is open.

        Parameters and errors as for `run`.
        """
        command = self._command(cmd, env=env, cwd=cwd, user=user, stdin=True)
        return Process(self._lease, command, _own_timeout(timeout), needs_shell=isinstance(cmd, str))

    async def kill(self) -> None:
        """End the sandbox; repeating it does nothing. It is immune to cancellation, which is raised afterwards.

        One that is called while another goes on waits for the same end, and leaves no record of its own.
        """
        if self._lease.closed:
            await self._lease.end()
            return
        record = Record("kill", self._lease.subject)
        async with self._lease.recorder.operation(record):
            await self._lease.end()
            if not self._lease.closed:
                record.outcome = OrphanedSandboxWarning.__name__

    async def detach(self) -> None:
        """Give the sandbox up: its lifetime alone ends it, not the end of this block or process.

        What runs in it lives on. This object is over then: `sandboxio.connect` makes another, `sandboxio.kill_managed`
        ends the sandbox.

        :raises CapabilityNotSupported: nothing would hold its lifetime without its owner; it is still owned.
        :raises SandboxGone: the sandbox ended.
        """
        async with self._lease.recorder.operation(Record("detach", self._lease.subject)):
            await self._lease.detach()

    async def __aenter__(self) -> "Sandbox":
        """Use the sandbox; leaving the block kills it, unless it was given up by `detach`."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        """Kill the sandbox, whatever left the block, unless it was given up.

        What left the block is replaced by no lost record, and by no warning that was turned into an error.
        """
        if not self._lease.detached:
            with yielding(error):
                await self.kill()

    def __del__(self) -> None:
        """Warn about a sandbox that nobody killed; its lifetime and its reaper still end it."""
        lease = getattr(self, "_lease", None)
        if lease is not None and lease.leaked:
            warnings.warn(f"{self!r} was never killed; use `async with`", ResourceWarning, stacklevel=2, source=self)

    async def _execute(
        self, record: Record, command: Command, stdin: bytes | None, timeout: float | None, max_output: int
    ) -> tuple[Exit, ExecResult]:
        self._lease.check_alive()
        ended, result = await execute(self._lease, command, stdin=stdin, timeout=timeout, max_output=max_output)
        record.returned(result)
        return ended, result

    def _command(
        self,
        cmd: str | Sequence[str],
        *,
        env: Mapping[str, str] | None,
        cwd: str | None,
        user: str | None,
        stdin: bool,
    ) -> Command:
        argv = commands.command_argv(cmd)
        if isinstance(cmd, str) and self.info().get("shell") is False:
            raise commands.no_shell()
        where = self.cwd if cwd is None else commands.resolve_path(cwd, self.cwd, "cwd")
        return Command(argv, self._env(env), where, stdin=stdin, user=commands.user_name(user))

    def _env(self, env: Mapping[str, str] | None) -> Mapping[str, str]:
        spec = self._lease.plan.spec
        secrets = {name: value.get_secret_value() for name, value in spec.secrets.items()}
        own = check_env(env, "env")
        clash = sorted(set(own) & set(secrets))
        if clash:
            raise ConfigurationError(f"env names the secret {shown_name(clash[0])}", hint="keep it in one of them")
        return {**spec.env, **own, **secrets}

    def _within_caps(self, ended: Exit, result: ExecResult) -> ExecResult:
        if ended.limit is not None:
            raise self._lease.limit_exceeded(ended.limit, result)
        return result

    def _need_program(self, cmd: str | Sequence[str], ended: Exit) -> None:
        if isinstance(cmd, str) and not ended.started and ended.limit is None:
            raise commands.no_shell()


def _own_timeout(timeout: float | None) -> float | None:
    return None if timeout is None else check_timeout(timeout, "timeout", MAX_TIMEOUT)
