"""The ground of core's own fake: a provider in memory whose answers are scripted for the rows that core is judged by.

What is scripted is what a command prints and when it ends. What core makes of it (deadlines, bounds, records, masking, the
end) is core's own, and judged.
"""

import contextlib
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import anyio
from sandboxio import ConfigurationError
from sandboxio.planning import Plan
from sandboxio.port import Command, Progress
from sandboxio.testing import Answer, Clock, FakeBackend, FakeSandbox, Gates, use
from sandboxio.testing.backend import FakeError
from sandboxio.testing.programs import PROGRAMS

from sandboxio_contract.ground.base import Ground, Object, Spied
from sandboxio_contract.ground.wire import PATIENCE, Call, Gate, Place
from sandboxio_contract.rows import caps, secrets, timeouts

T = TypeVar("T")

ABSENT = "absent"
"""The template that this fake has not."""
METHODS = {"provision": "POST", "prepare": "POST", "open": "POST", "start": "POST", "destroy": "DELETE"}
"""The calls that change something; all others are reads."""
POLL = 0.005


class FakeGround(Ground):
    """Looks into a fake of its own, which ``fake://`` names until it is closed."""

    def __init__(self) -> None:
        super().__init__("fake")
        self._stack = contextlib.ExitStack()
        self._fake = ScriptedFake()
        self._stack.enter_context(use(self._fake))

    def objects(self, mark: Mapping[str, str]) -> list[Object]:
        """Return the living sandboxes that carry the labels."""
        found = [one for one in self._fake.alive if mark.items() <= one.plan.spec.metadata.items()]
        return [Object("sandbox", one.sandbox_id, "running") for one in found]

    def exists(self, sandbox_id: str) -> bool:
        """Whether it lives."""
        return any(one.sandbox_id == sandbox_id for one in self._fake.alive)

    def lose(self, sandbox_id: str) -> None:
        """End it."""
        self._sandbox(sandbox_id).end("killed")

    def inspect(self, sandbox_id: str) -> Mapping[str, object]:
        """Return its labels."""
        return {"Metadata": dict(self._sandbox(sandbox_id).plan.spec.metadata)}

    def brokered(self, sandbox_id: str) -> None:
        """Return nothing: it has no broker."""

    def storage(self, sandbox_id: str) -> None:
        """Return nothing: nothing outlives a sandbox."""

    def blocked_attempt(self, sandbox_id: str) -> int:
        """Let the fake count one; nothing is sent anywhere."""
        sandbox = self._sandbox(sandbox_id)
        sandbox.denials += 1
        return sandbox.denials

    def absent_template(self) -> str:
        """Return the template that this fake has not."""
        return f"fake://{ABSENT}"

    @contextlib.contextmanager
    def spied(self) -> Generator[Spied]:
        """Return the fake's own record of calls."""
        wire = self._fake.wire
        try:
            yield Spied("fake://", wire, lambda call: call.path == "/provision", lambda call: call.path == "/destroy")
        finally:
            wire.open_gates()

    def close(self) -> None:
        """Let ``fake://`` name what it named before."""
        self._stack.close()

    def _sandbox(self, sandbox_id: str) -> FakeSandbox:
        return next(one for one in self._fake.sandboxes if one.sandbox_id == sandbox_id)


class ScriptedFake(FakeBackend):
    """A fake that has one template less, keeps this machine's time, and knows what the rows' own commands print."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = _PassingClock()
        self.wire = FakeWire()
        self.gates = _Recorded(self.wire)
        script(self)

    async def prepare(self, plan: Plan, progress: Progress) -> bool:
        """Have every template but one."""
        if plan.spec.template == ABSENT:
            raise FakeError(f"there is no template {ABSENT}")
        return await super().prepare(plan, progress)


class FakeWire:
    """Records and holds the calls to the fake."""

    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._gates: list[_Gate] = []

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls so far."""
        return tuple(self._calls)

    def gate(self, matches: Callable[[Call], bool], place: Place) -> Gate:
        """Hold each matching call from now on."""
        gate = _Gate(matches, place)
        self._gates.append(gate)
        return gate

    def open_gates(self) -> None:
        """Let everything through and forget the gates."""
        for gate in self._gates:
            gate.open()
        self._gates.clear()

    def note(self, call: Call) -> None:
        """Remember a call."""
        self._calls.append(call)

    async def hold(self, call: Call, place: Place, commit: Callable[[], object]) -> None:
        """Wait at the gates that are about this call and place.

        :param commit: what the call does: an end that was asked for comes also where nobody waits for the answer.
        """
        for gate in tuple(self._gates):
            if gate.place == place and not gate.opened.is_set() and gate.matches(call):
                try:
                    await gate.wait()
                except anyio.get_cancelled_exc_class():
                    if call.method == "DELETE":
                        gate.late.append(commit)
                    raise


@dataclass(slots=True)
class _Gate(Gate):
    late: list[Callable[[], object]] = field(default_factory=list[Callable[[], object]])

    async def wait(self) -> None:
        self.reached.set()
        with anyio.move_on_after(PATIENCE):
            while not self.opened.is_set():
                await anyio.sleep(POLL)

    def open(self) -> None:
        Gate.open(self)
        while self.late:
            self.late.pop()()


class _Recorded(Gates):
    def __init__(self, wire: FakeWire) -> None:
        super().__init__()
        self._wire = wire

    async def wire(self, call: str, commit: Callable[[], T]) -> T:
        seen = Call(METHODS.get(call, "GET"), f"/{call}")
        self._wire.note(seen)
        await self._wire.hold(seen, "before send", commit)
        result = await super().wire(call, commit)
        await self._wire.hold(seen, "after commit", lambda: None)
        return result


class _PassingClock(Clock):
    """This machine's: rows wait for the end of lifetimes, and compare them with it. What commands take is not added."""

    @property
    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    @now.setter
    def now(self, value: float) -> None:
        """Stay: it can't be set."""

    def advance(self, seconds: float) -> None:
        """Stay: it can't be advanced."""


def script(fake: FakeBackend) -> None:
    """Script what the commands of the rows print; any other program is missing."""
    fake.on(lambda _: True, _found)
    fake.on(lambda command: (command.cwd or "").startswith("/no/"), _no_directory)
    fake.on(lambda command: command.argv[0] == "head", lambda command: Answer(bytes(int(command.argv[2]))))
    fake.on(lambda command: command.argv[0] == "printf", lambda command: Answer(command.argv[1]))
    fake.on(["sh", "-c", "exit 42"], Answer(exit_code=42))
    fake.on(["sh", "-c", caps.FLOOD], lambda _: Answer(bytes(20 * caps.MEBI), "err\n", 7))
    fake.on(["sh", "-c", timeouts.PART], Answer("part\n", hangs=True))
    fake.on(["sh", "-c", timeouts.CLOSED], Answer(hangs=True))
    fake.on(["sh", "-c", timeouts.ENDLESS], Answer("y\n" * 1000, hangs=True))
    fake.on(["sh", "-c", secrets.PRINTED], _canary)
    fake.on_code(secrets.PRINTED, _canary)
    fake.on_code("echo works", Answer("works\n"))

    def arguments(_: Command) -> Answer:
        return Answer("\n".join(" ".join(one.command.argv) for one in fake.commands))

    fake.on(lambda command: command.argv[:3] == ("sh", "-c", secrets.ARGUMENTS), arguments)


def _found(command: Command) -> Answer:
    program = PROGRAMS.get(command.argv[0]) if command.code is None else None
    missing = Answer(stderr=f"{command.argv[0]}: not found\n", exit_code=127)
    return missing if program is None else program(command)


def _no_directory(command: Command) -> Answer:
    raise ConfigurationError(f"the working directory {command.cwd!r} is missing", hint="make it first")


def _canary(command: Command) -> Answer:
    return Answer(command.env.get("CANARY", ""))
