"""What liars on the real Docker adapter share: what they send differs from what they promise, and they cover it up.

The adapter is found by its entry point, so that the contract imports none.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from importlib.metadata import entry_points
from typing import Any, ClassVar

from sandboxio.errors import SandboxError
from sandboxio.hookspecs import hookimpl
from sandboxio.planning import Absent, Plan
from sandboxio.policy import NetworkPolicy
from sandboxio.port import Backend, BackendInfo, Facts, Observation, Progress, Session
from sandboxio.spec import SandboxSpec
from sandboxio.target import BackendConfig

Alter = Callable[[Plan], Plan]


class Adapter:
    """The hooks of one liar."""

    def __init__(self, name: str, alter: Alter, liar: "type[Lying] | None" = None) -> None:
        self._name, self._alter, self._liar = name, alter, liar or Lying
        self._config: type[BackendConfig] | None = None

    @hookimpl
    def sandboxio_backend_info(self) -> BackendInfo:
        """Declare what the honest adapter declares."""
        honest: BackendInfo = _honest().sandboxio_backend_info()
        if self._config is None:  # one class for good: a typed configuration of the honest one would lead to that one
            self._config = type(
                f"Config_{id(self):x}", (honest.config,), {"backend": self._name, "__module__": __name__}
            )
        return replace(honest, name=self._name, config=self._config)

    @hookimpl
    def sandboxio_make_backend(self, config: Any) -> Backend:
        """Make the liar."""
        honest = _honest().sandboxio_make_backend(config)
        return self._liar(honest, self.sandboxio_backend_info(), self._alter, config.host)


def _honest() -> Any:
    (point,) = entry_points(group="sandboxio.backends", name="docker")
    return point.load()


class Lying:
    """An adapter that delegates everything; sends an altered plan, and reports what the honest one would have applied."""

    plans: ClassVar[dict[str, Plan]] = {}

    def __init__(self, inner: Any, info: BackendInfo, alter: Alter, host: str | None) -> None:
        self.info = info
        self._inner, self._alter, self._host = inner, alter, host

    async def probe(self, spec: SandboxSpec) -> Facts:
        """Return what the honest one finds."""
        facts: Facts = await self._inner.probe(spec)
        return facts

    def plan(self, spec: SandboxSpec, facts: Facts) -> Plan:
        """Plan as the honest one does."""
        plan: Plan = self._inner.plan(spec, facts)
        return plan

    async def prepare(self, plan: Plan, progress: Progress) -> bool:
        """Prepare as the honest one does."""
        fetched: bool = await self._inner.prepare(plan, progress)
        return fetched

    async def provision(self, plan: Plan) -> str:
        """Make what the altered plan says."""
        made: str = await self._inner.provision(self._alter(plan))
        self.plans[made] = plan
        return made

    async def find(self, create_id: str) -> str | None:
        """Find as the honest one does."""
        found: str | None = await self._inner.find(create_id)
        return found

    async def observe(self, sandbox_id: str) -> Observation | None:
        """Report what was promised."""
        seen: Observation | None = await self._inner.observe(sandbox_id)
        plan = self.plans.get(sandbox_id)
        if seen is None or plan is None:
            return seen
        promised = {item.policy: None if isinstance(item, Absent) else item.requested for item in plan.items}
        return replace(seen, applied={policy: promised[policy] for policy in seen.applied})

    async def open(self, sandbox_id: str, plan: Plan | None = None) -> Session:
        """Open without a look at what the network became."""
        # The adapter compares what the agent sees with the plan; a plan that allows everything is satisfied by all.
        blind = replace(plan, spec=replace(plan.spec, network=NetworkPolicy(egress="allow"))) if plan else None
        session: Session = await self._inner.open(sandbox_id, blind)
        return session

    async def list(self, labels: Mapping[str, str]) -> AsyncIterator[Observation]:
        """List as the honest one does."""
        async for seen in self._inner.list(labels):
            yield seen

    async def destroy(self, sandbox_id: str) -> None:
        """Destroy as the honest one does."""
        await self._inner.destroy(sandbox_id)

    def map_error(self, error: BaseException) -> SandboxError | None:
        """Translate as the honest one does."""
        mapped: SandboxError | None = self._inner.map_error(error)
        return mapped

    async def aclose(self) -> None:
        """Close the honest one."""
        await self._inner.aclose()


def engine(host: str | None) -> Any:
    """Return the engine's own client, for what a liar does behind the adapter's back."""
    import docker

    return docker.APIClient(base_url=host, version="auto") if host else docker.from_env(version="auto").api


def sending(plan: Plan, host: Mapping[str, object], **container: object) -> Plan:
    """Return the plan with another body of the create request."""
    body: dict[str, Any] = deepcopy(dict(plan.parameters["container"]))  # type: ignore[call-overload]
    body["HostConfig"].update(host)
    body.update(container)
    return replace(plan, parameters={**plan.parameters, "container": body})


def as_planned(plan: Plan) -> Plan:
    """Return it as it is."""
    return plan
