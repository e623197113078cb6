"""Judge a sandbox that runs, by what its provider says of it alone: is it ours, bounded, and what its user expects."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from sandboxio.coverage import LIFETIME_UNIT
from sandboxio.errors import ConnectError, PolicyNotEnforced
from sandboxio.isolation import IsolationTier
from sandboxio.planning import CAP_ITEMS, ITEMS, Absent, Enforcement, Plan, Receipt
from sandboxio.policy import STRENGTHS, NetworkPolicy, Resources
from sandboxio.port import BackendInfo, Observation
from sandboxio.spec import MAX_TIMEOUT, SandboxSpec
from sandboxio.target import BackendConfig

UNVERIFIED = "unverified"
"""The value of a receipt whose item can't be read back."""

_UNTOUCHED = "the sandbox was left as it was; kill it if nobody should use it, and create another"
_OURS = "pass the full id of a sandbox of ours that runs, as list_managed() gives it"


@dataclass(frozen=True, slots=True)
class Expected:
    """What a sandbox has to be for whoever connects to it; ``None``: anything that we make."""

    network: NetworkPolicy | None = None
    resources: Resources | None = None
    require_isolation: IsolationTier | None = None
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])


def recognised(
    info: BackendInfo, config: BackendConfig, sandbox_id: str, seen: Observation | None, expected: Expected
) -> Plan:
    """Return the plan that the sandbox looks made by: only what was read back, an item that wasn't is ``unverified``.

    :raises ConnectError: it is not ours, does not run, is over, or its metadata differs.
    :raises PolicyNotEnforced: it is weaker than anything that we make, or an expectation is not met or not readable.
    """
    timeout = _life_of(_ours(info, sandbox_id, seen, expected.metadata))
    assert seen is not None
    found = _Found(info.name, seen, timeout)
    found.check_bounds()
    tier = found.tier()
    if expected.network is not None:
        found.check_network(expected.network)
    if expected.resources is not None:
        found.check_resources(expected.resources)
    if expected.require_isolation is not None and not tier.satisfies(expected.require_isolation):
        found.refuse("isolation", expected.require_isolation.value)
    spec = SandboxSpec(
        backend=info.name,
        config=config,
        template=config.template,
        resources=expected.resources or Resources(),
        network=expected.network or NetworkPolicy(),
        env={},
        secrets={},
        timeout=timeout,
        metadata=dict(seen.labels),
        require_isolation=expected.require_isolation,
        create_id=seen.name,
    )
    return Plan(spec, {}, tuple(map(found.receipt, ITEMS)), tier, assumed=False)


def _ours(info: BackendInfo, sandbox_id: str, seen: Observation | None, metadata: Mapping[str, str]) -> Observation:
    # By the full id: what begins like it, or bears it as a name, may be another tenant's.
    if seen is None or seen.sandbox_id != sandbox_id:
        raise ConnectError(f"{info.name} has no sandbox of sandboxio with that id that lives", hint=_OURS)
    if seen.state != "running":
        raise ConnectError(f"the sandbox {sandbox_id[:12]} does not run: it is {seen.state}", hint=_OURS)
    # Keys only: the value that it has instead may be another tenant's business.
    differing = sorted(key for key, value in metadata.items() if seen.labels.get(key) != value)
    if differing:
        raise ConnectError(
            f"the sandbox {sandbox_id[:12]} has other metadata than was given: {', '.join(differing)}",
            hint="connect to one that list_managed(labels=…) gives for this metadata",
        )
    return seen


def _life_of(seen: Observation) -> float:
    """Return the seconds of the sandbox's whole life."""
    short = seen.sandbox_id[:12]
    if seen.expires_at is None or not math.isfinite(seen.expires_at):
        raise PolicyNotEnforced(f"the sandbox {short} names no end of its lifetime", hint=_UNTOUCHED)
    life = seen.expires_at - seen.created_at
    if life > MAX_TIMEOUT + LIFETIME_UNIT:
        raise PolicyNotEnforced(f"the sandbox {short} would live for {life:g} s, which we never allow", hint=_UNTOUCHED)
    if life <= 0 or seen.expires_at <= time.time():
        raise ConnectError(f"the lifetime of the sandbox {short} is over", hint="create a new sandbox")
    return life


@dataclass(frozen=True, slots=True)
class _Found:
    """What was read back of one sandbox that is ours and runs."""

    backend: str
    seen: Observation
    timeout: float

    def check_bounds(self) -> None:
        """Refuse what is weaker than anything that we make: then somebody else made it, or changed it since."""
        egress = self.value("network.egress")
        if egress not in ("deny", "allow", UNVERIFIED):
            self._weak("network.egress", egress)
        for policy in ("cpu", "memory", "disk", "pids"):
            value = self.value(policy)
            if value != UNVERIFIED and not _bounds(value):
                self._weak(policy, value)
        if self.value("memory.swap") not in (0, UNVERIFIED):
            self._weak("memory.swap", self.value("memory.swap"))

    def tier(self) -> IsolationTier:
        """Return the isolation as it was read back, `IsolationTier.UNKNOWN` where it was not."""
        value = self.value("isolation")
        if value == UNVERIFIED:
            return IsolationTier.UNKNOWN
        tier = {tier.value: tier for tier in IsolationTier}.get(str(value))
        if tier is None:
            self._weak("isolation", value)
        return tier

    def check_network(self, expected: NetworkPolicy) -> None:
        """Compare the network; an allowlist that can't be read back is no deny."""
        self._check("network.egress", expected.egress)
        self._check("network.ingress", expected.ingress_ports)
        if expected.egress != "deny":
            return
        self._check("network.allow", expected.allow)
        for policy in ("network.egress", "network.allow"):
            item = self.receipt(policy)
            if isinstance(item, Enforcement):
                strength = item.strength
                if strength is None or STRENGTHS.index(strength) > STRENGTHS.index(expected.min_strength):
                    self.refuse(f"strength of {policy}", expected.min_strength, strength or UNVERIFIED)

    def check_resources(self, expected: Resources) -> None:
        """Compare the caps that were given."""
        for name, policy in CAP_ITEMS.items():
            value = getattr(expected, name)
            if value is not None:
                self._check(policy, value)

    def value(self, policy: str) -> object:
        """Return the value of an item, ``None`` if it surely has none, `UNVERIFIED` if that can't be read back."""
        if policy in self.seen.applied:
            return self.seen.applied[policy]
        return None if isinstance(self.seen.receipts.get(policy), Absent) else UNVERIFIED

    def receipt(self, policy: str) -> Receipt:
        """Return what is known of one item."""
        known = {"lifetime": self.timeout, "labels": dict(self.seen.labels)}
        told = self.seen.receipts.get(policy)
        if told is not None:
            return told
        if policy == "secrets":
            return Absent(policy, "this connection passes none; what its maker passed can't be read back")
        value = known.get(policy, self.value(policy))
        if value is None:
            return Absent(policy, f"{self.backend} reports none")
        if value == UNVERIFIED:
            return Enforcement(policy, UNVERIFIED, "it can't be read back", "provider", "unverified")
        return Enforcement(policy, value, f"as {self.backend} reports it of this sandbox", "provider", "attested")

    def _check(self, policy: str, expected: object) -> None:
        value = self.value(policy)
        if value == UNVERIFIED or _comparable(value) != _comparable(expected):
            self.refuse(policy, expected, value)

    def refuse(self, what: str, expected: object, value: object = None) -> NoReturn:
        """:raises PolicyNotEnforced: always."""
        value = self.value(what) if value is None else value
        short = self.seen.sandbox_id[:12]
        if value == UNVERIFIED:
            text = f"what the sandbox {short} has for {what} can't be read back from {self.backend}; {expected!r} is expected"
        else:
            text = f"the sandbox {short} has {what} = {value!r}; {expected!r} is expected"
        raise PolicyNotEnforced(text, hint=_UNTOUCHED)

    def _weak(self, policy: str, value: object) -> NoReturn:
        raise PolicyNotEnforced(
            f"the sandbox {self.seen.sandbox_id[:12]} bears our labels, but has {policy} = {value!r}, as none of ours has:"
            " somebody else made it, or changed it since",
            hint=_UNTOUCHED,
        )


def _bounds(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf


def _comparable(value: object) -> object:
    """Return a value as it compares: the order of a list means nothing, and an empty one is none."""
    if isinstance(value, (tuple, list)):
        return frozenset(value) or None  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return value
