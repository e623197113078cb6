"""What is refused, and what holds by default: rows that need no network."""

import os
from collections.abc import Callable

import sandboxio
from sandboxio import CapabilityNotSupported, ConfigurationError, Enforcement, NetworkPolicy, PolicyNotEnforced

from sandboxio_contract.rows import row
from sandboxio_contract.rows.refusing import recorded
from sandboxio_contract.target import Target, first_line
from sandboxio_contract.verdict import Finding, Part, proven, refused, require, summed, violated

_UNENFORCEABLE = {
    "allow by host name": NetworkPolicy(allow=("allowed.test",)),
    "allow by wildcard": NetworkPolicy(allow=("*.allowed.test",)),
    "allow by address": NetworkPolicy(allow=("198.51.100.7",)),
    "allow by CIDR": NetworkPolicy(allow=("2001:db8::/64",)),
    "ingress with deny": NetworkPolicy(ingress_ports=(8000,)),
}


_JUDGED_BY_NET_04 = ("allow by host name", "allow by wildcard", "allow by address")


@row("NET-01")
async def deny_is_the_default(target: Target) -> Finding:
    """`create()` without arguments promises deny, and so does the value object."""
    require(NetworkPolicy().egress == "deny", f"NetworkPolicy() means {NetworkPolicy().egress!r}")
    await _same_as_deny(target)
    kept = os.environ.get("SANDBOXIO_BACKEND")
    os.environ["SANDBOXIO_BACKEND"] = target.dsn
    try:
        async with sandboxio.create() as sb:
            target.made.add(sb.id)
            receipts = {item.policy: item for item in sb.policy}
    except (CapabilityNotSupported, ConfigurationError, PolicyNotEnforced) as error:
        return refused(f"create() without arguments is refused: {first_line(error)}")
    finally:
        if kept is None:
            del os.environ["SANDBOXIO_BACKEND"]
        else:
            os.environ["SANDBOXIO_BACKEND"] = kept
    item = receipts["network.egress"]
    require(isinstance(item, Enforcement), "create() without arguments has no receipt for network.egress")
    assert isinstance(item, Enforcement)
    require(item.requested == "deny", f"create() without arguments promises egress {item.requested!r}")
    return proven(f"create() without arguments promises deny ({item.mechanism}); that it denies is NET-02's row")


async def _same_as_deny(target: Target) -> None:
    """Convict where a backend that denies refuses what nobody said anything about: that is no deny then."""
    try:
        await sandboxio.plan(target.dsn, network=NetworkPolicy(egress="deny"))
    except (CapabilityNotSupported, ConfigurationError):
        return
    try:
        plan = await sandboxio.plan(target.dsn)
    except CapabilityNotSupported as error:
        violated(f"deny is offered, and create() without a policy is refused: {first_line(error)}")
    egress = plan.spec.network.egress
    require(egress == "deny", f"create() without a policy is planned with egress {egress!r}")


@row("NET-05", world=True)
async def what_cannot_be_enforced_is_refused(target: Target) -> Finding:
    """Each policy that the backend can't enforce is refused before anything is made; what it accepts has rows of its own."""
    parts: list[Part] = []
    async with recorded(target) as asking:
        for name, policy in _UNENFORCEABLE.items():
            judged_by = "NET-04" if name in _JUDGED_BY_NET_04 else ""
            parts.append(
                await asking.refuses(name, CapabilityNotSupported, offered=True, judged_by=judged_by, network=policy)
            )
    return summed(parts)


@row("NET-06")
async def learning_is_refused(target: Target) -> Finding:
    """`egress="learn"` is never taken for deny."""
    async with recorded(target) as asking:
        learn = NetworkPolicy(egress="learn")
        return summed([await asking.refuses("learn", CapabilityNotSupported, no_call=True, network=learn)])


@row("NET-10", backend="docker", world=True)
async def docker_denies_by_network_mode_none(target: Target) -> Finding:
    """Deny is network mode ``none`` in the engine's own words, and an allowlist is refused."""
    async with target.sandbox() as sb:
        mode = (await target.look(target.ground.inspect, sb.id)).get("NetworkMode")
    require(mode == "none", f"the engine holds network mode {mode!r}")
    async with recorded(target) as asking:
        refusal = await asking.refuses(
            "allow", CapabilityNotSupported, network=NetworkPolicy(allow=("198.51.100.0/24",))
        )
    return summed([Part("mode", "proven", "the engine holds network mode none"), refusal])


@row("NET-14")
async def contradictions_raise(target: Target) -> Finding:  # noqa: ARG001 - values, not sandboxes
    """Policies that contradict themselves can't be written down."""
    wrong: dict[str, Callable[[], object]] = {
        "allow with a list": lambda: NetworkPolicy(egress="allow", allow=("allowed.test",)),
        "learn with a list": lambda: NetworkPolicy(egress="learn", allow=("allowed.test",)),
        "everything, IPv4": lambda: NetworkPolicy(allow=("0.0.0.0/0",)),
        "everything, IPv6": lambda: NetworkPolicy(allow=("::/0",)),
        "a URL": lambda: NetworkPolicy(allow=("https://allowed.test/",)),
        "a port": lambda: NetworkPolicy(allow=("allowed.test:443",)),
        "an empty entry": lambda: NetworkPolicy(allow=("",)),
        "a string": lambda: NetworkPolicy(allow="allowed.test"),  # type: ignore[arg-type]
        "an unknown egress": lambda: NetworkPolicy(egress="open"),  # type: ignore[arg-type]
    }
    for name, make in wrong.items():
        try:
            value = make()
        except ConfigurationError:
            continue
        violated(f"{name} was accepted: {value!r}")
    return refused(f"{len(wrong)} contradictions raise ConfigurationError")
