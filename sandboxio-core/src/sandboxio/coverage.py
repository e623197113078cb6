"""Judge a plan before anything exists: no receipt, no sandbox."""

import warnings

from sandboxio.errors import (
    CapabilityNotSupported,
    ConfigurationError,
    PolicyNotEnforced,
    UnverifiedIsolationWarning,
    WeakEnforcementWarning,
)
from sandboxio.isolation import IsolationTier
from sandboxio.planning import ITEMS, Absent, Enforcement, Plan
from sandboxio.policy import STRENGTHS
from sandboxio.spec import SandboxSpec

_NEVER_ABSENT = frozenset({"network.egress", "cpu", "memory", "memory.swap", "disk", "lifetime", "labels", "isolation"})


def check_plan(plan: Plan) -> None:
    """Refuse a plan that leaves a policy unanswered, weakens one or misses the required isolation.

    :raises PolicyNotEnforced: an item is missing, doubled, or answered with something else than was asked.
    :raises CapabilityNotSupported: a network policy is enforced at a weaker layer than asked.
    :raises ConfigurationError: the isolation is below ``require_isolation``.
    """
    _complete(plan)
    for policy, asked in _asked(plan.spec).items():
        item = plan[policy]
        if isinstance(item, Absent):
            raise PolicyNotEnforced(
                f"{plan.spec.backend} gave no receipt for {policy}, which was asked for: {item.reason}"
            )
        if asked is not None and item.requested != asked:
            raise PolicyNotEnforced(f"{plan.spec.backend} would set {policy} to {item.requested!r}, not to {asked!r}")
    _strong_enough(plan)
    check_isolation(plan.spec, plan.tier)


def check_isolation(spec: SandboxSpec, tier: IsolationTier) -> None:
    """Compare the backend's tier with what the caller requires."""
    if spec.require_isolation is not None and not tier.satisfies(spec.require_isolation):
        raise ConfigurationError(
            f"{spec.backend} gives isolation {tier.value}, {spec.require_isolation.value} is required",
            hint="choose a backend of that tier, or lower require_isolation if the code is trusted",
        )


def warn_about(plan: Plan) -> None:
    """Emit the warnings that a caller must see when a sandbox is made."""
    if plan.tier is IsolationTier.UNKNOWN and plan.spec.require_isolation is None:
        warnings.warn(
            f"the isolation of {plan.spec.backend} is unknown; pass require_isolation= to insist on a tier",
            UnverifiedIsolationWarning,
            stacklevel=2,
        )
    for item in plan.enforcements():
        if item.policy == "network.allow" and item.strength == "sni":
            _warn_weak(plan, item, "names are matched by TLS server name")
        if item.policy == "network.egress" and item.requested == "deny" and item.residuals:
            _warn_weak(plan, item, "; ".join(item.residuals))


def _warn_weak(plan: Plan, item: Enforcement, why: str) -> None:
    warnings.warn(
        f"{plan.spec.backend} enforces {item.policy} with a residual: {why}", WeakEnforcementWarning, stacklevel=3
    )


def _complete(plan: Plan) -> None:
    policies = [item.policy for item in plan.items]
    missing = [policy for policy in ITEMS if policy not in policies]
    extra = sorted({policy for policy in policies if policies.count(policy) > 1 or policy not in ITEMS})
    if missing or extra:
        raise PolicyNotEnforced(
            f"the plan of {plan.spec.backend} has no receipt for {', '.join(missing) or 'nothing'}"
            f" and wrong ones for {', '.join(extra) or 'nothing'}",
            hint="this is a defect of the adapter; report it to its maintainers",
        )
    absent = [item.policy for item in plan.items if isinstance(item, Absent) and item.policy in _NEVER_ABSENT]
    if absent:
        raise PolicyNotEnforced(f"{plan.spec.backend} can't leave {', '.join(absent)} without enforcement")


def _asked(spec: SandboxSpec) -> dict[str, object]:
    """Map what the spec asks for to the exact value that must be promised (``None``: any concrete one)."""
    resources, network = spec.resources, spec.network
    asked: dict[str, object] = {
        "network.egress": network.egress,
        "cpu": resources.cpu,
        "memory": resources.memory_mb,
        "memory.swap": 0 if resources.memory_mb else None,
        "disk": resources.disk_mb,
        "lifetime": None,
        "labels": dict(spec.metadata),
        "isolation": None,
    }
    if network.allow:
        asked["network.allow"] = network.allow
    if network.ingress_ports:
        asked["network.ingress"] = network.ingress_ports
    if resources.pids:
        asked["pids"] = resources.pids
    if resources.gpu:
        asked["gpu"] = resources.gpu
    if spec.secrets:
        asked["secrets"] = tuple(sorted(spec.secrets))
    return asked


def _strong_enough(plan: Plan) -> None:
    network = plan.spec.network
    if network.egress != "deny":
        return
    for policy in ("network.egress", "network.allow"):
        item = plan[policy]
        if isinstance(item, Absent):
            continue
        weakest = STRENGTHS.index(network.min_strength)
        if item.strength is None or STRENGTHS.index(item.strength) > weakest:
            raise CapabilityNotSupported(
                f"{plan.spec.backend} enforces {policy} at strength {item.strength or 'unknown'},"
                f" {network.min_strength} is required",
                hint="choose a backend that filters at that layer, or lower NetworkPolicy(min_strength=…)",
            )
