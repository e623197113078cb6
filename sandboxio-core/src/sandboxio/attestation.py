"""Compare what the provider says it applied with the plan, before anything runs; it fails closed."""

from collections.abc import Mapping

from sandboxio.errors import CreationError, PolicyNotEnforced
from sandboxio.planning import ITEMS, Absent, Plan
from sandboxio.port import BackendInfo, Observation

_DEFECT = "this is a defect of the adapter; report it to its maintainers"
_ALTERED = (
    "see what changes sandboxes between this process and the provider (a proxy, a plugin, an administrator's default)"
)


def check_observation(plan: Plan, info: BackendInfo, sandbox_id: str, seen: Observation | None) -> Observation:
    """Return ``seen`` if it confirms the plan for the sandbox ``sandbox_id``.

    :raises CreationError: the sandbox vanished, or an item that the backend declares observable was not returned.
    :raises PolicyNotEnforced: an item is not as planned.
    """
    if seen is None:
        raise CreationError(
            f"{info.name} made the sandbox {plan.create_id}, but it is gone",
            hint="see the provider's log for what ended it, and create() again",
        )
    if seen.name != plan.create_id or seen.sandbox_id != sandbox_id:
        raise PolicyNotEnforced(f"{info.name} answered for another sandbox than {plan.create_id}", hint=_DEFECT)
    for policy in sorted(info.observable):
        _check_item(plan, info, policy, seen.applied)
    if "labels" in info.observable and dict(seen.labels) != dict(plan.spec.metadata):
        raise PolicyNotEnforced(f"{info.name} carries other labels than the metadata that was given", hint=_ALTERED)
    if seen.expires_at is None:
        raise CreationError(f"{info.name} names no end of the sandbox's lifetime", hint=_DEFECT)
    return seen


def _check_item(plan: Plan, info: BackendInfo, policy: str, applied: Mapping[str, object]) -> None:
    if policy not in ITEMS:
        raise CreationError(f"{info.name} calls {policy!r} observable, which is no policy item", hint=_DEFECT)
    planned = plan[policy]
    if policy not in applied:
        raise CreationError(f"{info.name} did not say what it applied for {policy}", hint=_ALTERED)
    value = applied[policy]
    if isinstance(planned, Absent):
        if value is not None:
            raise PolicyNotEnforced(f"{info.name} applied {policy}={value!r}, which was not asked for", hint=_ALTERED)
    elif value != planned.requested:
        raise PolicyNotEnforced(
            f"{info.name} applied {policy}={value!r} instead of {planned.requested!r}", hint=_ALTERED
        )
