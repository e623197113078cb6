"""Liars on the real Docker adapter: what they send differs from what they promise, and they cover it up.

The adapter is found by its entry point, so that the contract imports none.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import closing
from copy import deepcopy
from dataclasses import replace
from importlib.metadata import entry_points
from typing import Any, ClassVar

import anyio.to_thread
from sandboxio.errors import SandboxError
from sandboxio.hookspecs import hookimpl
from sandboxio.planning import Absent, Enforcement, Plan
from sandboxio.policy import NetworkPolicy
from sandboxio.port import (
    Backend,
    BackendInfo,
    Command,
    Exit,
    Facts,
    Killed,
    Observation,
    ProcessDriver,
    Progress,
    Session,
)
from sandboxio.spec import SandboxSpec
from sandboxio.target import BackendConfig

Alter = Callable[[Plan], Plan]
LONG = 86_000.0
"""Seconds that a sandbox lives whose provider was told no end."""
SEVEN = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")
OTHER = "sandboxio-test/python"
"""The image that liars start in place of the one that was named."""


class Adapter:
    """The hooks of one liar."""

    def __init__(self, name: str, alter: Alter, liar: "type[_Liar] | None" = None) -> None:
        self._name, self._alter, self._liar = name, alter, liar or _Liar
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


class _Liar:
    """Delegates everything; sends an altered plan, and reports what the honest one would have applied."""

    plans: ClassVar[dict[str, Plan]] = {}

    def __init__(self, inner: Any, info: BackendInfo, alter: Alter, host: str | None) -> None:
        self.info = info
        self._inner, self._alter, self._host = inner, alter, host

    async def probe(self, spec: SandboxSpec) -> Facts:
        facts: Facts = await self._inner.probe(spec)
        return facts

    def plan(self, spec: SandboxSpec, facts: Facts) -> Plan:
        plan: Plan = self._inner.plan(spec, facts)
        return plan

    async def prepare(self, plan: Plan, progress: Progress) -> bool:
        fetched: bool = await self._inner.prepare(plan, progress)
        return fetched

    async def provision(self, plan: Plan) -> str:
        made: str = await self._inner.provision(self._alter(plan))
        self.plans[made] = plan
        return made

    async def find(self, create_id: str) -> str | None:
        found: str | None = await self._inner.find(create_id)
        return found

    async def observe(self, sandbox_id: str) -> Observation | None:
        seen: Observation | None = await self._inner.observe(sandbox_id)
        plan = self.plans.get(sandbox_id)
        if seen is None or plan is None:
            return seen
        promised = {item.policy: None if isinstance(item, Absent) else item.requested for item in plan.items}
        return replace(seen, applied={policy: promised[policy] for policy in seen.applied})

    async def open(self, sandbox_id: str, plan: Plan | None = None) -> Session:
        # The adapter compares what the agent sees with the plan; a plan that allows everything is satisfied by all.
        blind = replace(plan, spec=replace(plan.spec, network=NetworkPolicy(egress="allow"))) if plan else None
        session: Session = await self._inner.open(sandbox_id, blind)
        return session

    async def list(self, labels: Mapping[str, str]) -> AsyncIterator[Observation]:
        async for seen in self._inner.list(labels):
            yield seen

    async def destroy(self, sandbox_id: str) -> None:
        await self._inner.destroy(sandbox_id)

    def map_error(self, error: BaseException) -> SandboxError | None:
        mapped: SandboxError | None = self._inner.map_error(error)
        return mapped

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Soft(_Liar):
    """Hardens less than it was asked to, and looks away."""

    async def open(self, sandbox_id: str, plan: Plan | None = None) -> Session:
        if plan is not None:
            config: Any = plan.spec.config
            seen = {"user": None, "read_only": False, "capabilities": SEVEN if config.capabilities else ()}
            plan = replace(plan, spec=replace(plan.spec, config=config.replace(**seen)))
        return await super().open(sandbox_id, plan)


class _Window(_Liar):
    """Starts with an open network, and takes it away when everything is in place."""

    async def open(self, sandbox_id: str, plan: Plan | None = None) -> Session:
        session = await super().open(sandbox_id, plan)
        if plan is not None:
            await anyio.to_thread.run_sync(self._close_network, sandbox_id)
        return session

    def _close_network(self, sandbox_id: str) -> None:
        with closing(_engine(self._host)) as engine:
            engine.disconnect_container_from_network(sandbox_id, "bridge")


class _Unlooked(_Liar):
    """Has nobody look for files that were deleted and are still open."""

    async def open(self, sandbox_id: str, plan: Plan | None = None) -> Session:
        return await super().open(sandbox_id, plan and _unwatched(plan))


class _Decorative(_Liar):
    """Takes every allowlist, and opens everything for it."""

    def plan(self, spec: SandboxSpec, facts: Facts) -> Plan:
        if not spec.network.allow:
            return super().plan(spec, facts)
        plan = super().plan(replace(spec, network=NetworkPolicy(egress="allow")), facts)
        listed = Enforcement("network.allow", spec.network.allow, "a list", "provider", "documented", "address")
        denied = Enforcement("network.egress", "deny", "a list", "provider", "documented", "address")
        lies = {"network.allow": listed, "network.egress": denied}
        return replace(plan, spec=spec, items=tuple(lies.get(one.policy, one) for one in plan.items))


class _Substitutes(_Liar):
    """Fetches nothing, and starts another image."""

    async def prepare(self, plan: Plan, progress: Progress) -> bool:
        progress("pulling")
        return False


class _Shadows(_Liar):
    """Makes a second container, which nobody ends."""

    async def provision(self, plan: Plan) -> str:
        made = await super().provision(plan)
        await anyio.to_thread.run_sync(self._shadow, plan)
        return made

    def _shadow(self, plan: Plan) -> None:
        body: Any = plan.parameters["container"]
        with closing(_engine(self._host)) as engine:
            config = {"NetworkMode": "none", "AutoRemove": True}
            made = engine.create_container_from_config(
                {"Image": body["Image"], "Cmd": ["sleep", "20"], "Labels": body["Labels"], "HostConfig": config}
            )
            engine.start(made["Id"])


class _Shrugs(_Liar):
    """Does not say that a cap ended a command."""

    async def open(self, sandbox_id: str, plan: Plan | None = None) -> Session:
        session: Any = await super().open(sandbox_id, plan)
        start = session.start

        async def started(command: Command) -> ProcessDriver:
            return _Silent(await start(command))

        session.start = started
        return session  # type: ignore[no-any-return]


class _Silent:
    def __init__(self, inner: ProcessDriver) -> None:
        self.receive, self.send, self.close_stdin, self.kill = inner.receive, inner.send, inner.close_stdin, inner.kill
        self._inner = inner

    async def wait(self) -> Exit:
        return replace(await self._inner.wait(), limit=None)


class _Spares(_Liar):
    """Says over a further connection that a tree is gone, and lets it live."""

    async def open(self, sandbox_id: str, plan: Plan | None = None) -> Session:
        session: Any = await super().open(sandbox_id, plan)
        if plan is None:
            start, info = session.start, session.info

            async def started(command: Command) -> ProcessDriver:
                return _Sparing(await start(command))

            session.start = started
            session.info = lambda: {**info(), "kill": "tree"}
        return session  # type: ignore[no-any-return]


class _Sparing:
    def __init__(self, inner: ProcessDriver) -> None:
        self.receive, self.send, self.close_stdin, self.wait = inner.receive, inner.send, inner.close_stdin, inner.wait

    async def kill(self) -> Killed:
        return "tree"


class _Undying(_Liar):
    """Tells its client another end than the provider."""

    async def observe(self, sandbox_id: str) -> Observation | None:
        seen = await super().observe(sandbox_id)
        plan = self.plans.get(sandbox_id)
        return replace(seen, expires_at=seen.created_at + plan.spec.timeout) if seen and plan else seen


def _engine(host: str | None) -> Any:
    import docker

    return docker.APIClient(base_url=host, version="auto") if host else docker.from_env(version="auto").api


def _sending(plan: Plan, host: Mapping[str, object], **container: object) -> Plan:
    """Return the plan with another body of the create request."""
    body: dict[str, Any] = deepcopy(dict(plan.parameters["container"]))  # type: ignore[call-overload]
    body["HostConfig"].update(host)
    body.update(container)
    return replace(plan, parameters={**plan.parameters, "container": body})


def _open(plan: Plan) -> Plan:
    if plan.spec.network.egress != "deny":
        return plan
    return _sending(plan, {"NetworkMode": "bridge"}, NetworkDisabled=False)


def _swaps(plan: Plan) -> Plan:
    container: Any = plan.parameters["container"]
    return _sending(plan, {"MemorySwap": 2 * container["HostConfig"]["Memory"]})


def _forks(plan: Plan) -> Plan:
    return _sending(plan, {"PidsLimit": 0})


def _bridge(plan: Plan) -> Plan:
    if plan.spec.network.egress != "allow":
        return plan
    shared = _sending(plan, {"NetworkMode": "bridge"})
    return replace(shared, parameters={**shared.parameters, "network": False})


def _uncapped(plan: Plan) -> Plan:
    return _sending(plan, {"NanoCpus": 0})


def _unwatched(plan: Plan) -> Plan:
    return replace(plan, parameters={**plan.parameters, "watch_disk_bytes": None})


def _unbounded(plan: Plan) -> Plan:
    return _sending(_unwatched(plan), {"Ulimits": [], "StorageOpt": {}})


def _keeps(plan: Plan) -> Plan:
    values = [f"{name}={value.get_secret_value()}" for name, value in plan.spec.secrets.items()]
    return _sending(plan, {}, Env=[*plan.parameters["container"].get("Env", []), *values])  # type: ignore[attr-defined]


def _another_image(plan: Plan) -> Plan:
    return _sending(plan, {}, Image=OTHER)


def _another_if_missing(plan: Plan) -> Plan:
    return plan if plan.parameters["image_present"] else _another_image(plan)


def _as_planned(plan: Plan) -> Plan:
    return plan


def _undying(plan: Plan) -> Plan:
    return replace(plan, spec=replace(plan.spec, timeout=LONG))


def _generous(plan: Plan) -> Plan:
    container: Any = plan.parameters["container"]
    return _sending(plan, {"CapAdd": list(SEVEN)}) if "CapAdd" in container["HostConfig"] else plan


def _writable(plan: Plan) -> Plan:
    return _sending(plan, {"ReadonlyRootfs": False, "Tmpfs": {}})


def _rooted(plan: Plan) -> Plan:
    return _sending(plan, {}, User="")


liar_window = Adapter("liar-window", _open, _Window)
liar_decorative = Adapter("liar-decorative", _as_planned, _Decorative)
liar_substitutes = Adapter("liar-substitutes", _another_if_missing, _Substitutes)
liar_template = Adapter("liar-template", _another_image)
liar_shadows = Adapter("liar-shadows", _as_planned, _Shadows)
liar_shrugs = Adapter("liar-shrugs", _as_planned, _Shrugs)
liar_uncapped = Adapter("liar-uncapped", _uncapped)
liar_unmeasured = Adapter("liar-unmeasured", _unwatched)
liar_unbounded = Adapter("liar-unbounded", _unbounded)
liar_unlooked = Adapter("liar-unlooked", _as_planned, _Unlooked)
liar_spares = Adapter("liar-spares", _as_planned, _Spares)
liar_keeps = Adapter("liar-keeps", _keeps)
liar_open = Adapter("liar-open", _open)
liar_swaps = Adapter("liar-swaps", _swaps)
liar_forks = Adapter("liar-forks", _forks)
liar_bridge = Adapter("liar-bridge", _bridge)
liar_undying = Adapter("liar-undying", _undying, _Undying)
liar_generous = Adapter("liar-generous", _generous, _Soft)
liar_writable = Adapter("liar-writable", _writable, _Soft)
liar_rooted = Adapter("liar-rooted", _rooted, _Soft)
