"""The sandbox as synchronous code holds it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sandboxio.capabilities import Capability
from sandboxio.errors import SandboxGone
from sandboxio.isolation import IsolationTier
from sandboxio.notices import yielding
from sandboxio.planning import Receipt
from sandboxio.result import DEFAULT_MAX_OUTPUT, ExecResult
from sandboxio.sandbox import Sandbox
from sandboxio.sync.files import SyncFiles
from sandboxio.sync.process import SyncProcess
from sandboxio.sync.waiting import Waiter

if TYPE_CHECKING:
    from types import TracebackType


class SyncSandbox:
    """A running sandbox, from `create_sync` or `connect_sync`. Leaving its context kills it. Any thread may use it.

    Parameters, results and errors are those of `sandboxio.Sandbox`.
    """

    def __init__(self, waiter: Waiter, sandbox: Sandbox) -> None:
        self._waiter = waiter
        self._sandbox = sandbox
        self._given_up = False
        waiter.sandbox = sandbox
        self.id = sandbox.id
        self.backend = sandbox.backend
        self.isolation: IsolationTier = sandbox.isolation
        self.capabilities: Capability = sandbox.capabilities
        self.policy: tuple[Receipt, ...] = sandbox.policy
        self.timeout = sandbox.timeout
        self.metadata: Mapping[str, str] = sandbox.metadata
        self.created_at = sandbox.created_at
        self.expires_at = sandbox.expires_at
        self.cwd = sandbox.cwd
        self.files = SyncFiles(waiter, sandbox.files)

    @property
    def native(self) -> object:
        """The provider's own object, outside any promise of stability."""
        return self._sandbox.native

    def info(self) -> Mapping[str, object]:
        """What is known about the connection: transport, what a kill ends, what was seen at start."""
        return self._sandbox.info()

    def __repr__(self) -> str:
        """Name backend, id, tier, egress and lifetime."""
        return repr(self._sandbox)

    def run(
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
        """Run a command and return when it ends; what it left running lives on."""
        return self._waiter.call(
            "await sandbox.run(…)",
            lambda: self._sandbox.run(
                cmd, timeout=timeout, env=env, cwd=cwd, stdin=stdin, user=user, max_output=max_output
            ),
        )

    def run_code(
        self,
        code: str,
        *,
        language: str = "python",
        context: object = None,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        max_output: int = DEFAULT_MAX_OUTPUT,
    ) -> ExecResult:
        """Run a piece of code with the interpreter of its language, each time in a fresh process."""
        return self._waiter.call(
            "await sandbox.run_code(…)",
            lambda: self._sandbox.run_code(
                code, language=language, context=context, timeout=timeout, env=env, max_output=max_output
            ),
        )

    def stream(
        self,
        cmd: str | Sequence[str],
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
    ) -> SyncProcess:
        """Return a command to be entered: ``with sandbox.stream(…) as proc``. Its stdin is open."""
        return SyncProcess(self._waiter, self._sandbox.stream(cmd, timeout=timeout, env=env, cwd=cwd, user=user))

    def kill(self) -> None:
        """End the sandbox; repeating it does nothing. Ctrl-C does not stop it, and is raised afterwards."""
        if self._waiter.hold.released:
            return
        try:
            self._waiter.call("await sandbox.kill()", self._sandbox.kill)
        except SandboxGone:
            if not self._waiter.hold.released:  # else another thread's kill was seen to its end, and ended the loop
                raise
        self._waiter.hold.release()

    def detach(self) -> None:
        """Give the sandbox up: its lifetime alone ends it, not the end of this block or process."""
        self._waiter.call("await sandbox.detach()", self._sandbox.detach)
        self._given_up = True

    def __enter__(self) -> "SyncSandbox":
        """Use the sandbox; leaving the block kills it, unless it was given up by `detach`."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        """Kill the sandbox, whatever left the block; no lost record or warning replaces what left it."""
        if self._given_up:
            return
        with yielding(error):
            self.kill()
