"""The provider in memory."""

from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

from sandboxio.capabilities import Capability
from sandboxio.errors import ExecutionError, SandboxError, SandboxGone
from sandboxio.isolation import IsolationTier
from sandboxio.planning import Plan, Receipt
from sandboxio.port import PORT, BackendInfo, Command, Facts, Observation, Progress, Session
from sandboxio.spec import SandboxSpec
from sandboxio.target import BackendConfig
from sandboxio.testing import receipts
from sandboxio.testing.clock import Clock
from sandboxio.testing.gates import Gates, raising
from sandboxio.testing.programs import Answer, Answers, Match, Script, matching, matching_code
from sandboxio.testing.session import FakeDriver, FakeSession
from sandboxio.testing.tree import Tree

MIB = 1024 * 1024
SLACK = 2.0
"""Seconds that core adds to a command's budget for the provider's own backstop."""


class FakeConfig(BackendConfig):
    """``fake://[template]``; it has no parameters."""

    backend: ClassVar[str] = "fake"


@dataclass(frozen=True, slots=True)
class StartedCommand:
    """A command that a fake sandbox was asked for.

    :param policy: the receipts in force.
    """

    sandbox_id: str
    command: Command
    policy: tuple[Receipt, ...] = field(repr=False)


class FakeSandbox:
    """One sandbox.

    :ivar plan: what it was made by.
    :ivar tree: its files.
    :ivar drivers: its commands, in the order in which they were started.
    :ivar denials: attempts at egress that the provider says it blocked.
    """

    def __init__(self, number: int, plan: Plan, clock: Clock) -> None:
        disk = plan["disk"]
        size = getattr(disk, "requested", receipts.DEFAULTS["disk"])
        self.sandbox_id = f"fake-{number:04d}"
        self.plan = plan
        self.created_at = clock.now
        self.expires_at = clock.now + plan.spec.timeout
        self.tree = Tree(size * MIB, clock)
        self.drivers: list[FakeDriver] = []
        self.denials = 0
        self.ended: str | None = None
        self._clock = clock

    def gone(self) -> SandboxGone | None:
        """Return the error for a sandbox that ended, ``None`` while it lives."""
        if self.ended is None and self._clock.now >= self.expires_at:
            self.ended = "lifetime"
        return None if self.ended is None else SandboxGone("the fake sandbox ended", reason=self.ended)

    def check_alive(self) -> None:
        """:raises SandboxGone: it ended."""
        if gone := self.gone():
            raise gone

    def end(self, reason: str) -> None:
        """End it, as the provider would by itself.

        :param reason: ``"lifetime"``, ``"killed"``, or a field of `Resources` for a cap that ended it.
        """
        self.ended = self.ended or reason

    def seen(self) -> Observation:
        """Return what the provider says of it."""
        spec = self.plan.spec
        return Observation(
            self.sandbox_id,
            self.plan.create_id,
            "running",
            dict(spec.metadata),
            self.created_at,
            self.expires_at,
            receipts.applied(self.plan),
        )


class FakeBackend:
    """A provider in memory: deterministic, with a clock of its own. Nothing runs; commands get scripted answers.

    :param tier: the isolation that it claims; it is simulated as everything else.
    :ivar target: names this fake where it is the current one, as in a test with the fixture ``sbx_fake``.
    :ivar gates: each call on the wire, and a place to stand at each of its moments: ``probe``, ``prepare``,
        ``provision``, ``find``, ``observe``, ``open``, ``list``, ``destroy``, ``start``, ``receive``, ``send``,
        ``close_stdin``, ``wait``, ``kill``, ``aclose``, ``files.read``, ``files.write`` and so on.
    :ivar sandboxes: every sandbox that was made, ended or not.
    :ivar commands: every command that was started, with the policy in force.
    """

    target = "fake://"

    def __init__(self, *, tier: IsolationTier = IsolationTier.CONTAINER) -> None:
        self.info = fake_info(tier)
        self.clock = Clock()
        self.gates = Gates()
        self.sandboxes: list[FakeSandbox] = []
        self.commands: list[StartedCommand] = []
        self._script = Script()

    def on(self, command: "str | Sequence[str] | Match", *answers: Answers) -> None:
        """Script what a command does: each answer once, in order, then the last one for ever.

        :param command: a string or an argv exactly as it is passed to ``run`` or ``stream``, or a function of the
            `sandboxio.port.Command`. What was scripted last goes first.
        :param answers: an `Answer`, an error to raise in its place, or a function of the command.
        """
        self._script.add(matching(command), answers)

    def on_code(self, code: str, *answers: Answers) -> None:
        """Script what a piece of code does; see `on`."""
        self._script.add(matching_code(code), answers)

    def fail(self, call: str, *errors: BaseException) -> None:
        """Let the next calls of one name fail on the wire, before anything is done; then they succeed again."""
        self.gates.at(call, "before", raising(*errors))

    @property
    def alive(self) -> list[FakeSandbox]:
        """The sandboxes that have not ended."""
        return [sandbox for sandbox in self.sandboxes if sandbox.gone() is None]

    async def probe(self, spec: SandboxSpec) -> Facts:
        """Find nothing out."""
        return await self.gates.wire("probe", Facts)

    def plan(self, spec: SandboxSpec, facts: Facts) -> Plan:
        """Answer every policy item as asked."""
        return receipts.plan(spec, facts, self.info.tier)

    async def prepare(self, plan: Plan, progress: Progress) -> bool:
        """Have every template."""
        await self.gates.wire("prepare", lambda: None)
        return False

    async def provision(self, plan: Plan) -> str:
        """Make a sandbox."""

        def make() -> str:
            sandbox = FakeSandbox(len(self.sandboxes) + 1, plan, self.clock)
            self.sandboxes.append(sandbox)
            return sandbox.sandbox_id

        return await self.gates.wire("provision", make)

    async def find(self, create_id: str) -> str | None:
        """Return the id of the living sandbox of that name."""

        def look() -> str | None:
            return next((box.sandbox_id for box in self.alive if box.plan.create_id == create_id), None)

        return await self.gates.wire("find", look)

    async def observe(self, sandbox_id: str) -> Observation | None:
        """Return what is known about a living sandbox."""

        def look() -> Observation | None:
            return next((box.seen() for box in self.alive if box.sandbox_id == sandbox_id), None)

        return await self.gates.wire("observe", look)

    async def open(self, sandbox_id: str, plan: Plan | None = None) -> Session:
        """Open a session."""

        def make() -> Session:
            sandbox = self._living(sandbox_id)
            return FakeSession(self.gates, sandbox, lambda command: self._begin(sandbox, command))

        return await self.gates.wire("open", make)

    async def list(self, labels: Mapping[str, str]) -> AsyncIterator[Observation]:
        """Iterate over the living sandboxes that carry all of ``labels``."""
        for sandbox in await self.gates.wire("list", lambda: self.alive):
            if labels.items() <= sandbox.plan.spec.metadata.items():
                yield sandbox.seen()

    async def destroy(self, sandbox_id: str) -> None:
        """End a sandbox."""

        def end() -> None:
            for sandbox in self.sandboxes:
                if sandbox.sandbox_id == sandbox_id:
                    sandbox.end("killed")

        await self.gates.wire("destroy", end)

    def map_error(self, error: BaseException) -> SandboxError | None:
        """Translate an error that a test injected and that is none of sandboxio's."""
        if not isinstance(error, FakeError):
            return None
        return ExecutionError(f"the fake provider failed: {error}", hint="this is a failure that the test asked for")

    async def aclose(self) -> None:
        """Have nothing to close."""

    def _living(self, sandbox_id: str) -> FakeSandbox:
        for sandbox in self.sandboxes:
            if sandbox.sandbox_id == sandbox_id:
                sandbox.check_alive()
                return sandbox
        raise SandboxGone("the fake has no such sandbox", reason="unknown")

    def _begin(self, sandbox: FakeSandbox, command: Command) -> Answer:
        self.commands.append(StartedCommand(sandbox.sandbox_id, command, sandbox.plan.items))
        answer = self._script.answer(command)
        if answer.takes > 0 and command.timeout is not None and answer.takes >= command.timeout - SLACK:
            return Answer(answer.stdout, answer.stderr, hangs=True)
        self.clock.advance(answer.takes)
        sandbox.check_alive()
        return answer


class FakeError(Exception):
    """A native error of the fake provider, to be injected with `FakeBackend.fail`."""


def fake_info(tier: IsolationTier) -> BackendInfo:
    """Return what the fake declares."""
    return BackendInfo(
        name="fake",
        distribution="sandboxio-core",
        port=PORT,
        config=FakeConfig,
        features=Capability.RUN_COMMAND
        | Capability.RUN_CODE
        | Capability.STREAMING
        | Capability.FILESYSTEM
        | Capability.UPLOAD_DOWNLOAD
        | Capability.NETWORK_POLICY
        | Capability.GPU
        | Capability.TUNNELS,
        tier=tier,
        tier_evidence="simulated: nothing runs (sandboxio's own documentation, 2026-11)",
        baseline=Facts(assumed=True),
        observable=receipts.OBSERVABLE,
        simulated=True,
    )


_current = FakeBackend()


def current() -> FakeBackend:
    """Return the fake that ``fake://`` names."""
    return _current


@contextmanager
def use(fake: FakeBackend) -> Generator[FakeBackend]:
    """Let ``fake://`` name ``fake`` while the block runs, in the whole process."""
    global _current
    before, _current = _current, fake
    try:
        yield fake
    finally:
        _current = before
