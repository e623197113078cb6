"""An honest backend in memory: the ground on which stub liars lie, and the control that the suite acquits.

Its sandboxes are local processes in a temporary directory: nothing is isolated. It is for the suite's own rows, never for
code that somebody else wrote.
"""

import threading
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import Any, ClassVar

import anyio
import anyio.to_thread
from sandboxio.capabilities import Capability
from sandboxio.errors import CapabilityNotSupported, ConfigurationError, CreationError, SandboxError, SandboxGone
from sandboxio.isolation import IsolationTier
from sandboxio.planning import Absent, EnforcedBy, Enforcement, Plan
from sandboxio.port import BackendInfo, Facts, Observation, Progress
from sandboxio.spec import SandboxSpec
from sandboxio.target import BackendConfig

from sandboxio_contract.liars.local import StubProcess, StubSession
from sandboxio_contract.liars.world import Record, World, worlds

DEFAULTS = {"cpu": 1.0, "memory": 512, "disk": 1024, "pids": 256}
ABSENT = "absent"
"""The template that the stub's provider has not."""
SOURCE = "the stub's own code, read 2026-11"
MAXIMA = {"cpu": 64.0, "memory_mb": 65_536.0, "disk_mb": 65_536.0, "pids": 4096.0}


class StubConfig(BackendConfig):
    """Nothing can be configured."""

    backend: ClassVar[str] = "stub"


def info(name: str, *, simulated: bool = False) -> BackendInfo:
    """Return what a stub of that name declares."""
    return BackendInfo(
        name=name,
        distribution="sandboxio-contract",
        port=1,
        config=StubConfig,
        features=Capability.RUN_COMMAND | Capability.RUN_CODE | Capability.STREAMING | Capability.FILESYSTEM,
        tier=IsolationTier.CONTAINER,
        tier_evidence=f"none: a stub for the suite's own tests (sandboxio-contract {version('sandboxio-contract')})",
        baseline=Facts(maxima=MAXIMA, assumed=True),
        observable=frozenset({"network.egress", "labels"}),
        simulated=simulated,
    )


class StubBackend:
    """The honest stub; see `sandboxio.port.Backend`."""

    declares: ClassVar[Mapping[str, Any]] = {}
    """What it declares beside what `info` says."""
    capped_by: ClassVar[EnforcedBy] = "provider"
    maxima: ClassVar[Mapping[str, float]] = MAXIMA
    """What it gives at most."""
    drives: ClassVar[type[StubSession]] = StubSession
    """What its sandboxes are used by."""

    def __init__(self, name: str) -> None:
        self.info = replace(info(name), **self.declares)
        self.world = worlds.setdefault(name, World())

    async def probe(self, spec: SandboxSpec) -> Facts:
        """Return the same facts for everything."""
        return Facts(maxima=MAXIMA)

    def plan(self, spec: SandboxSpec, facts: Facts) -> Plan:
        """Promise what is asked for, where it is offered."""
        network = spec.network
        if network.egress != "deny" or network.allow or network.ingress_ports:
            raise CapabilityNotSupported("the stub only denies", hint="use the default policy")
        asked = spec.resources
        if asked.gpu is not None:
            raise CapabilityNotSupported("the stub has no GPU", hint="leave gpu unset")
        for name, most in self.maxima.items():
            value = getattr(asked, name)
            if value is not None and value > most:
                raise ConfigurationError(
                    f"{name}={value} is over the maximum of {most:g}", hint=f"ask for at most {most:g}"
                )
        values: dict[str, object] = {
            "network.egress": "deny",
            "cpu": asked.cpu or DEFAULTS["cpu"],
            "memory": asked.memory_mb or DEFAULTS["memory"],
            "memory.swap": 0,
            "disk": asked.disk_mb or DEFAULTS["disk"],
            "pids": asked.pids or DEFAULTS["pids"],
            "lifetime": spec.timeout,
            "labels": dict(spec.metadata),
            "isolation": self.tier(spec).value,
        }
        kept = [
            Enforcement(policy, value, "nothing: a stub", self.capped_by, "unverified", "interface", source=SOURCE)
            for policy, value in values.items()
        ]
        names = ("network.allow", "network.ingress", "gpu")
        absent = [Absent(policy, "not asked for") for policy in names]
        secrets = tuple(sorted(spec.secrets))
        last = Enforcement("secrets", secrets, "environment", "provider", "documented") if secrets else None
        rest = last or Absent("secrets", "none given")
        return Plan(spec, {}, (*kept, *absent, rest), self.tier(spec), facts.assumed, None)

    def tier(self, spec: SandboxSpec) -> IsolationTier:
        """Return the tier that a plan claims."""
        return self.info.tier

    async def prepare(self, plan: Plan, progress: Progress) -> bool:
        """Take a moment, as a pull would."""
        await anyio.sleep(0.01)
        if plan.spec.template == ABSENT:
            raise LookupError(ABSENT)
        return False

    async def provision(self, plan: Plan) -> str:
        """Make the sandbox."""
        try:
            return await anyio.to_thread.run_sync(
                self.world.make, plan.create_id, plan.spec.metadata, plan.spec.timeout, abandon_on_cancel=True
            )
        except anyio.get_cancelled_exc_class():
            threading.Thread(target=self._reap, args=(plan.create_id,), daemon=True).start()
            raise

    def _reap(self, create_id: str) -> None:
        """Destroy what comes of a creation that nobody waits for any more."""
        end = time.monotonic() + 10
        while time.monotonic() < end:
            for record in list(self.world.records.values()):
                if record.name == create_id:
                    self.world.drop(record.identity)
                    return
            time.sleep(0.05)

    async def find(self, create_id: str) -> str | None:
        """Return the sandbox of that name."""
        return next((one.identity for one in list(self.world.records.values()) if one.name == create_id), None)

    async def observe(self, sandbox_id: str) -> Observation | None:
        """Return what the world holds."""
        record = await anyio.to_thread.run_sync(self.world.look, sandbox_id, abandon_on_cancel=True)
        if record is None:
            return None
        applied = {"network.egress": "deny", "labels": dict(record.labels)}
        return Observation(sandbox_id, record.name, "running", record.labels, time.time(), record.expires_at, applied)

    async def open(self, sandbox_id: str, plan: Plan | None = None) -> StubSession:
        """Open a session."""
        record = await anyio.to_thread.run_sync(self.world.look, sandbox_id, abandon_on_cancel=True)
        if record is None:
            raise SandboxGone("it is gone")
        return self.session(record)

    def session(self, record: Record) -> StubSession:
        """Return a session to one sandbox."""
        return self.drives(self.world, record)

    async def list(self, labels: Mapping[str, str]) -> AsyncIterator[Observation]:
        """Iterate over all that carry the labels."""
        for record in list(self.world.records.values()):
            if labels.items() <= record.labels.items() and (seen := await self.observe(record.identity)):
                yield seen

    async def destroy(self, sandbox_id: str) -> None:
        """Remove a sandbox."""
        await anyio.to_thread.run_sync(self.world.remove, sandbox_id, abandon_on_cancel=True)

    def map_error(self, error: BaseException) -> SandboxError | None:
        """Translate what `prepare` raises."""
        if isinstance(error, LookupError):
            return CreationError(f"there is no template {error.args[0]}", hint="name one that exists")
        return None

    async def aclose(self) -> None:
        """Hold nothing."""


def running(process: type[StubProcess]) -> type[StubBackend]:
    """Return the stub whose commands are of another kind, and which is the same otherwise."""

    class Session(StubSession):
        drives = process

    class Backend(StubBackend):
        drives = Session

    return Backend
