"""A provider in memory."""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from sandboxio.capabilities import Capability
from sandboxio.errors import SandboxError
from sandboxio.isolation import IsolationTier
from sandboxio.planning import Plan
from sandboxio.port import PORT, BackendInfo, Command, Exit, Facts, Observation, Progress, Session
from sandboxio.spec import SandboxSpec
from sandboxio.target import BackendConfig
from sandboxio.testing.gates import Gates
from sandboxio.testing.receipts import OBSERVABLE, applied, receipts

from .session import Program, StubSession


class StubConfig(BackendConfig):
    backend: ClassVar[str] = "stub"
    count: int = 0
    flag: bool = False
    names: tuple[str, ...] = ()


@dataclass
class StubSandbox:
    sandbox_id: str
    plan: Plan
    created_at: float
    expires_at: float | None
    applied: dict[str, object]

    def seen(self) -> Observation:
        return Observation(
            self.sandbox_id,
            self.plan.create_id,
            "running",
            dict(self.plan.spec.metadata),
            self.created_at,
            self.expires_at,
            self.applied,
            {item.policy: item for item in self.plan.items},
        )


class StubBackend:
    """One provider; tests set its attributes to make it lie, fail or wait."""

    def __init__(
        self, name: str, *, tier: IsolationTier = IsolationTier.CONTAINER, caps: bool = True, port: int = PORT
    ) -> None:
        self.info = BackendInfo(
            name=name,
            distribution=f"sandboxio-{name}",
            port=port,
            config=StubConfig,
            features=Capability.RUN_COMMAND | Capability.STREAMING | Capability.FILESYSTEM,
            tier=tier,
            tier_evidence="it is a stub",
            baseline=Facts(assumed=True),
            observable=OBSERVABLE,
            credentials=("STUB_API_KEY",),
            resource_caps_supported=caps,
            simulated=True,
        )
        self.gates = Gates()
        self.sandboxes: dict[str, StubSandbox] = {}
        self.made: list[StubSandbox] = []
        self.programs: dict[str, Callable[[Command], Program]] = {
            "true": lambda command: Program(),
            "false": lambda command: Program(exit=Exit(1)),
            "hang": lambda command: Program(hangs=True),
        }
        self.sessions: list[StubSession] = []
        self.errors: dict[type[BaseException], Callable[[BaseException], SandboxError]] = {}
        self.change_plan: Callable[[Plan], Plan] = lambda plan: plan
        self.change_seen: Callable[[Observation], Observation | None] = lambda seen: seen
        self.make_session: Callable[[], Session] = self._stub_session
        self.fetches = False
        self.removal_looks = 0
        self.clock_offset = 0.0
        self.closed = 0

    @property
    def calls(self) -> list[str]:
        return self.gates.calls

    @property
    def session(self) -> StubSession:
        return self.sessions[-1]

    async def probe(self, spec: SandboxSpec) -> Facts:
        return await self.gates.wire("probe", Facts)

    def plan(self, spec: SandboxSpec, facts: Facts) -> Plan:
        return self.change_plan(Plan(spec, {}, receipts(spec, self.info.tier), self.info.tier, facts.assumed))

    async def prepare(self, plan: Plan, progress: Progress) -> bool:
        progress(f"preparing {plan.spec.template}")
        await self.gates.wire("prepare", lambda: None)
        return self.fetches

    async def provision(self, plan: Plan) -> str:
        def make() -> str:
            now = time.time() + self.clock_offset
            sandbox = StubSandbox(f"id-{plan.create_id}", plan, now, now + plan.spec.timeout, applied(plan))
            self.sandboxes[sandbox.sandbox_id] = sandbox
            self.made.append(sandbox)
            return sandbox.sandbox_id

        return await self.gates.wire("provision", make)

    async def find(self, create_id: str) -> str | None:
        def find() -> str | None:
            names = {box.plan.create_id: ident for ident, box in self.sandboxes.items()}
            return names.get(create_id)

        return await self.gates.wire("find", find)

    async def observe(self, sandbox_id: str) -> Observation | None:
        def look() -> Observation | None:
            box = self.sandboxes.get(sandbox_id)
            return self.change_seen(box.seen()) if box else None

        return await self.gates.wire("observe", look)

    async def open(self, sandbox_id: str, plan: Plan | None = None) -> Session:
        return await self.gates.wire("open", self.make_session)

    def _stub_session(self) -> Session:
        session = StubSession(self.gates, self.programs)
        self.sessions.append(session)
        return session

    async def list(self, labels: Mapping[str, str]) -> AsyncIterator[Observation]:
        for box in await self.gates.wire("list", lambda: list(self.sandboxes.values())):
            if labels.items() <= box.plan.spec.metadata.items():
                yield box.seen()

    async def destroy(self, sandbox_id: str) -> None:
        def destroy() -> None:
            if self.removal_looks > 0:
                self.removal_looks -= 1
            else:
                self.sandboxes.pop(sandbox_id, None)
            for session in self.sessions:
                for driver in session.drivers:
                    driver.end()

        await self.gates.wire("destroy", destroy)

    def map_error(self, error: BaseException) -> SandboxError | None:
        make = self.errors.get(type(error))
        return make(error) if make else None

    async def aclose(self) -> None:
        self.closed += 1
