"""Liars on the stub that break a promise made before a sandbox exists, and honest stubs of other kinds beside them."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import anyio.to_thread
from pydantic import field_validator
from sandboxio.capabilities import Capability
from sandboxio.errors import AuthError, BackendUnavailable, CreationError, SandboxError
from sandboxio.isolation import IsolationTier
from sandboxio.planning import Enforcement, Plan, Receipt
from sandboxio.policy import Resources
from sandboxio.port import Facts, Observation
from sandboxio.spec import SandboxSpec
from sandboxio.target import BackendConfig

from sandboxio_contract.liars.stub import StubBackend, info
from sandboxio_contract.liars.stubs import Adapter

KEY = "SANDBOXIO_STUB_KEY"


class _Fixed(StubBackend):
    declares: ClassVar[Mapping[str, Any]] = {"resource_caps_supported": False}
    capped_by = "template"


class _Keyed(StubBackend):
    declares: ClassVar[Mapping[str, Any]] = {"credentials": (KEY,)}

    async def probe(self, spec: SandboxSpec) -> Facts:
        if KEY not in os.environ:
            raise AuthError(f"{KEY} is not set", hint=f"export {KEY}=…")
        return await super().probe(spec)


class _Unknown(StubBackend):
    declares: ClassVar[Mapping[str, Any]] = {"tier": IsolationTier.UNKNOWN}


class _Leaky(StubBackend):
    """Denies, and says what stays open."""

    def plan(self, spec: SandboxSpec, facts: Facts) -> Plan:
        honest = super().plan(spec, facts)
        return replace(honest, items=tuple(_with_residual(one) for one in honest.items))


def _with_residual(item: Receipt) -> Receipt:
    if isinstance(item, Enforcement) and item.policy == "network.egress":
        return replace(item, residuals=("vsock sockets",))
    return item


class _Unsaid(StubBackend):
    declares: ClassVar[Mapping[str, Any]] = {"resource_caps_supported": False}


class _Anonymous(_Keyed):
    async def probe(self, spec: SandboxSpec) -> Facts:
        if KEY not in os.environ:
            raise BackendUnavailable("the service does not let us in")
        return await super().probe(spec)


class _Nameless(_Unknown):
    def tier(self, spec: SandboxSpec) -> IsolationTier:
        return IsolationTier.CONTAINER


class _Ranks(StubBackend):
    def tier(self, spec: SandboxSpec) -> IsolationTier:
        return IsolationTier.MICROVM if spec.resources.memory_mb else IsolationTier.CONTAINER


class _Climbs(StubBackend):
    """Has whatever tier is required."""

    def tier(self, spec: SandboxSpec) -> IsolationTier:
        return spec.require_isolation or IsolationTier.CONTAINER


class _Stateful(StubBackend):
    """Declares what core has not."""

    declares: ClassVar[Mapping[str, Any]] = {"features": info("stub").features | Capability.STATEFUL_CODE}


class _Unsourced(StubBackend):
    declares: ClassVar[Mapping[str, Any]] = {"tier": IsolationTier.MICROVM, "tier_evidence": "take our word for it"}


class _Undated(StubBackend):
    def plan(self, spec: SandboxSpec, facts: Facts) -> Plan:
        honest = super().plan(spec, facts)
        items = tuple(replace(one, source="") if isinstance(one, Enforcement) else one for one in honest.items)
        return replace(honest, items=items)


class _Shrinks(StubBackend):
    """Plans a core, and gives a quarter of one to whoever creates."""

    def plan(self, spec: SandboxSpec, facts: Facts) -> Plan:
        creating = spec.metadata and spec.resources.is_default
        given = replace(spec, resources=Resources(cpu=0.25)) if creating else spec
        return replace(super().plan(given, facts), spec=spec)


class _Gpu(StubBackend):
    def plan(self, spec: SandboxSpec, facts: Facts) -> Plan:
        gpu = spec.resources.gpu
        honest = replace(super().plan(replace(spec, resources=spec.resources.replace(gpu=None)), facts), spec=spec)
        if gpu is None:
            return honest
        item = Enforcement("gpu", gpu, "none", "provider", "documented")
        return replace(honest, items=tuple(item if one.policy == "gpu" else one for one in honest.items))


class _EchoConfig(BackendConfig):
    backend: ClassVar[str] = "liar-echo"
    zone: str | None = None

    @field_validator("zone")
    @classmethod
    def _known(cls, value: str | None) -> str | None:
        if value:
            raise ValueError(f"{value} is no zone")
        return value


class _Echo(StubBackend):
    declares: ClassVar[Mapping[str, Any]] = {"config": _EchoConfig}


class _Warm(StubBackend):
    async def provision(self, plan: Plan) -> str:
        made = await super().provision(plan)
        await anyio.to_thread.run_sync(self.world.make, "spare", dict[str, str](), 60.0)
        return made


class _Cuts(StubBackend):
    """Keeps 63 characters of a label's value, and says that it keeps all."""

    full: ClassVar[dict[str, Mapping[str, str]]] = {}

    async def provision(self, plan: Plan) -> str:
        metadata = plan.spec.metadata
        cut = replace(plan.spec, metadata={key: value[:63] for key, value in metadata.items()})
        made = await super().provision(replace(plan, spec=cut))
        self.full[made] = metadata
        return made

    async def observe(self, sandbox_id: str) -> Observation | None:
        seen = await super().observe(sandbox_id)
        if seen is None:
            return None
        full = dict(self.full.get(sandbox_id, seen.labels))
        return replace(seen, labels=full, applied={**seen.applied, "labels": full})


class _Mute(StubBackend):
    def map_error(self, error: BaseException) -> SandboxError | None:
        return CreationError("something went wrong") if isinstance(error, LookupError) else None


stub_fixed = Adapter("stub-fixed", _Fixed)
stub_keyed = Adapter("stub-keyed", _Keyed)
stub_leaky = Adapter("stub-leaky", _Leaky)
stub_unknown = Adapter("stub-unknown", _Unknown)
liar_unsaid = Adapter("liar-unsaid", _Unsaid)
liar_anonymous = Adapter("liar-anonymous", _Anonymous)
liar_nameless = Adapter("liar-nameless", _Nameless)
liar_ranks = Adapter("liar-ranks", _Ranks)
liar_climbs = Adapter("liar-climbs", _Climbs)
liar_stateful = Adapter("liar-stateful", _Stateful)
liar_unsourced = Adapter("liar-unsourced", _Unsourced)
liar_undated = Adapter("liar-undated", _Undated)
liar_shrinks = Adapter("liar-shrinks", _Shrinks)
liar_gpu = Adapter("liar-gpu", _Gpu)
liar_echo = Adapter("liar-echo", _Echo)
liar_warm = Adapter("liar-warm", _Warm)
liar_cuts = Adapter("liar-cuts", _Cuts)
liar_mute = Adapter("liar-mute", _Mute)
