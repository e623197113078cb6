"""What the fake plans: every policy item as it was asked for, and said to be simulated."""

from sandboxio.isolation import IsolationTier
from sandboxio.planning import ITEMS, Absent, Enforcement, Plan, Receipt
from sandboxio.policy import Strength
from sandboxio.port import Facts
from sandboxio.spec import SandboxSpec

DEFAULTS = {"cpu": 1.0, "memory": 512, "disk": 1024, "pids": 256}
SOURCE = "simulated; sandboxio's own documentation of the fake, read 2026-11"
OBSERVABLE = frozenset({"network.egress", "cpu", "memory", "memory.swap", "pids", "disk", "labels", "isolation"})


def plan(spec: SandboxSpec, facts: Facts, tier: IsolationTier) -> Plan:
    """Answer every item as asked, with defaults of its own."""
    return Plan(spec, {}, receipts(spec, tier), tier, facts.assumed)


def receipts(spec: SandboxSpec, tier: IsolationTier) -> tuple[Receipt, ...]:
    """Return one receipt per policy item."""
    given, network = spec.resources, spec.network
    values: dict[str, object] = {
        "network.egress": network.egress,
        "network.allow": network.allow or None,
        "network.ingress": network.ingress_ports or None,
        "cpu": given.cpu or DEFAULTS["cpu"],
        "memory": given.memory_mb or DEFAULTS["memory"],
        "memory.swap": 0,
        "pids": given.pids or DEFAULTS["pids"],
        "disk": given.disk_mb or DEFAULTS["disk"],
        "gpu": given.gpu,
        "lifetime": spec.timeout,
        "labels": dict(spec.metadata),
        "secrets": tuple(sorted(spec.secrets)) or None,
        "isolation": tier.value,
    }
    return tuple(_receipt(policy, values[policy]) for policy in ITEMS)


def applied(plan: Plan) -> dict[str, object]:
    """Return what the provider says is in force."""
    return {item.policy: item.requested for item in plan.enforcements()}


def _receipt(policy: str, value: object) -> Receipt:
    if value is None:
        return Absent(policy, "not asked for")
    strength: Strength | None = "interface" if policy.startswith("network.") else None
    return Enforcement(policy, value, "simulated: nothing runs", "provider", "attested", strength, source=SOURCE)
