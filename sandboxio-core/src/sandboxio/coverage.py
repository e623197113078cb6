"""Judge a plan before anything exists: no receipt, no sandbox."""

import math

from pydantic import SecretStr

from sandboxio.errors import (
    CapabilityNotSupported,
    ConfigurationError,
    PolicyNotEnforced,
    UnverifiedIsolationWarning,
    WeakEnforcementWarning,
)
from sandboxio.isolation import IsolationTier
from sandboxio.notices import warn
from sandboxio.planning import ITEMS, Absent, Enforcement, Plan, Receipt
from sandboxio.policy import STRENGTHS, NetworkPolicy
from sandboxio.redaction import Redactor
from sandboxio.spec import SandboxSpec, refuse_credential, refuse_secret

_NEVER_ABSENT = frozenset({"network.egress", "cpu", "memory", "memory.swap", "disk", "lifetime", "labels", "isolation"})

_DEFECT = "this is a defect of the adapter; report it to its maintainers"

LIFETIME_UNIT = 60.0
"""Seconds by which a provider may round a lifetime up."""


def refuse_unbuilt(spec: SandboxSpec) -> None:
    """Refuse what no backend has in this version, whatever an adapter says.

    :raises CapabilityNotSupported: ``egress="learn"``; it never degrades to something else.
    """
    refuse_learning(spec.network)


def refuse_learning(network: NetworkPolicy) -> None:
    """:raises CapabilityNotSupported: ``egress="learn"``."""
    if network.egress == "learn":
        raise CapabilityNotSupported(
            'egress="learn" is not offered yet', hint='use egress="deny", with allow= if needed', why="not_yet"
        )


def check_plan(plan: Plan, spec: SandboxSpec) -> None:
    """Refuse a plan that leaves a policy unanswered, weakens one or misses the required isolation.

    :raises PolicyNotEnforced: it answers another spec; an item is missing, doubled, unbounded, or answered with
        something else than was asked.
    :raises CapabilityNotSupported: a network policy is enforced at a weaker layer than asked.
    :raises ConfigurationError: the isolation is below ``require_isolation``.
    """
    if plan.spec != spec:
        raise PolicyNotEnforced(
            f"the plan of {spec.backend} is made for another specification than was asked for",
            hint=_DEFECT,
        )
    _complete(plan)
    asked = _asked(plan)
    for item in plan.items:
        if item.policy in asked:
            _as_asked(plan, item, asked[item.policy])
        elif isinstance(item, Enforcement):
            _bounded(plan, item)
    _strong_enough(plan)
    check_isolation(plan.spec, plan.tier)


def check_isolation(spec: SandboxSpec, tier: IsolationTier) -> None:
    """Compare the backend's tier with what the caller requires."""
    if spec.require_isolation is not None and not tier.satisfies(spec.require_isolation):
        raise ConfigurationError(
            f"{spec.backend} gives isolation {tier.value}, {spec.require_isolation.value} is required",
            hint="choose a backend of that tier, or lower require_isolation if the code is trusted",
        )


def refuse_shown(spec: SandboxSpec, redactor: Redactor) -> None:
    """Refuse a secret in what is no secret: providers show it in clear, receipts and reprs do, too.

    :raises ConfigurationError: the template, the configuration, a policy, a label or a variable's name holds one.
    """
    shown: dict[str, object] = {
        "the template": spec.template,
        "the configuration": [value for value in vars(spec.config).values() if not isinstance(value, SecretStr)],
        "metadata": spec.metadata,
        "network": vars(spec.network),
        "resources": vars(spec.resources),
        "a name in env": list(spec.env),
        "a name in secrets": list(spec.secrets),
    }
    for what, value in shown.items():
        refuse_secret(what, value, spec.secrets)
        refuse_credential(what, value, redactor)


def refuse_secrets(plan: Plan, redactor: Redactor) -> None:
    """Refuse a plan that would show a secret to whoever reads it, or to whom the provider shows a sandbox.

    :raises PolicyNotEnforced: one stands in its parameters or receipts.
    """
    for what, value in (("parameters", plan.parameters), ("receipts", plan.items), ("directory", plan.cwd)):
        if redactor.holds_whole(value):
            raise PolicyNotEnforced(
                f"the {what} that {plan.spec.backend} planned hold the value of a secret",
                hint="this is a defect of the adapter, unless a secret is an ordinary word: choose a longer one then",
            )


def warn_about(plan: Plan) -> None:
    """Emit the warnings that a caller must see when a sandbox is made."""
    if plan.tier is IsolationTier.UNKNOWN and plan.spec.require_isolation is None:
        warn(
            f"the isolation of {plan.spec.backend} is unknown; pass require_isolation= to insist on a tier",
            UnverifiedIsolationWarning,
        )
    for item in plan.enforcements():
        if item.policy == "network.allow" and item.strength == "sni":
            _warn_weak(plan, item, "names are matched by TLS server name")
        if item.policy == "network.egress" and item.requested == "deny" and item.residuals:
            _warn_weak(plan, item, "; ".join(item.residuals))


def _warn_weak(plan: Plan, item: Enforcement, why: str) -> None:
    warn(f"{plan.spec.backend} enforces {item.policy} with a residual: {why}", WeakEnforcementWarning)


def _complete(plan: Plan) -> None:
    policies = [item.policy for item in plan.items]
    missing = [policy for policy in ITEMS if policy not in policies]
    extra = sorted({policy for policy in policies if policies.count(policy) > 1 or policy not in ITEMS})
    if missing or extra:
        raise PolicyNotEnforced(
            f"the plan of {plan.spec.backend} has no receipt for {', '.join(missing) or 'nothing'}"
            f" and wrong ones for {', '.join(extra) or 'nothing'}",
            hint=_DEFECT,
        )
    absent = [item.policy for item in plan.items if isinstance(item, Absent) and item.policy in _NEVER_ABSENT]
    if absent:
        raise PolicyNotEnforced(
            f"{plan.spec.backend} can't leave {', '.join(absent)} without enforcement", hint=_DEFECT
        )


def _asked(plan: Plan) -> dict[str, object]:
    """Map each item that has one right answer to it."""
    resources, network, spec = plan.spec.resources, plan.spec.network, plan.spec
    asked: dict[str, object] = {
        "network.egress": network.egress,
        "network.allow": network.allow,
        "network.ingress": network.ingress_ports,
        "cpu": resources.cpu,
        "memory": resources.memory_mb,
        "memory.swap": 0,
        "disk": resources.disk_mb,
        "pids": resources.pids,
        "gpu": resources.gpu,
        "labels": dict(spec.metadata),
        "secrets": tuple(sorted(spec.secrets)),
        "isolation": plan.tier.value,
    }
    return {policy: value for policy, value in asked.items() if value is not None or policy == "gpu"}


def _as_asked(plan: Plan, item: Receipt, asked: object) -> None:
    wanted = asked not in (None, ()) or item.policy in _NEVER_ABSENT
    if isinstance(item, Absent):
        if wanted:
            raise PolicyNotEnforced(
                f"{plan.spec.backend} gave no receipt for {item.policy}, which was asked for: {item.reason}",
                hint=f"leave {item.policy} out, or choose another backend",
            )
    elif item.requested != asked:
        raise PolicyNotEnforced(
            f"{plan.spec.backend} would set {item.policy} to {item.requested!r}, not to {asked!r}", hint=_DEFECT
        )


def _bounded(plan: Plan, item: Enforcement) -> None:
    """Refuse a default that is none: providers write "unlimited" as 0, -1, infinity or nothing."""
    value, spec = item.requested, plan.spec
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise PolicyNotEnforced(
            f"{spec.backend} would set {item.policy} to {value!r}, which bounds nothing", hint=_DEFECT
        )
    if item.policy == "lifetime" and not spec.timeout <= value <= spec.timeout + LIFETIME_UNIT:
        raise PolicyNotEnforced(
            f"{spec.backend} would set the lifetime to {value:g} s, not to {spec.timeout:g} s", hint=_DEFECT
        )


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
