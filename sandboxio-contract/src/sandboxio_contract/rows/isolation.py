"""Rows about tiers and hardening."""

import itertools
import warnings
from typing import Any

import sandboxio
from sandboxio import (
    CapabilityNotSupported,
    ConfigurationError,
    Enforcement,
    IsolationTier,
    NetworkPolicy,
    Resources,
    UnverifiedIsolationWarning,
)

from sandboxio_contract.rows import row
from sandboxio_contract.rows.promises import is_dated
from sandboxio_contract.rows.refusing import recorded
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, Inconclusive, Part, Status, proven, require, summed

_ASKED = "import ctypes; print(ctypes.CDLL(None).prctl(39, 0, 0, 0, 0))"
"""Asks the kernel for no-new-privileges where its status has no such line (gVisor's)."""
_JUDGED: dict[bool | None, Status] = {True: "proven", False: "violated", None: "not-provable"}
_LIMITS = {"Memory": "memory", "MemorySwap": "memory with swap", "PidsLimit": "processes", "NanoCpus": "CPU"}


@row("ISO-01")
async def a_higher_tier_is_refused_before_anything(target: Target) -> Finding:
    """Every tier above the backend's is refused without a single call; its own is accepted."""
    tier = await target.tier()
    await target.need_sandbox()
    parts: list[Part] = []
    async with recorded(target) as asking:
        for wanted in IsolationTier:
            if wanted is not IsolationTier.UNKNOWN and not tier.satisfies(wanted):
                parts.append(
                    await asking.refuses(wanted.value, ConfigurationError, no_call=True, require_isolation=wanted)
                )
    if tier is not IsolationTier.UNKNOWN:
        async with target.sandbox(require_isolation=tier) as sb:
            require(sb.isolation.satisfies(tier), f"the sandbox says {sb.isolation.value}, {tier.value} was required")
        parts.append(Part(f"{tier.value} itself", "proven", "accepted"))
    return summed(parts)


@row("ISO-02")
async def a_tier_speaks_of_escape_resistance_only(target: Target) -> Finding:
    """The rank is the documented one, and no network policy or cap makes a sandbox's tier another."""
    order = [IsolationTier.UNKNOWN, IsolationTier.CONTAINER, IsolationTier.GVISOR, IsolationTier.MICROVM]
    require(sorted(IsolationTier, key=lambda tier: tier.rank) == order, "the tiers are ranked in another order")
    for have, need in itertools.product(order, order):
        known = IsolationTier.UNKNOWN not in (have, need)
        right = known and order.index(have) >= order.index(need)
        require(have.satisfies(need) == right, f"{have.value} satisfies {need.value}: {not right}")
    tiers: dict[str, IsolationTier] = {}
    options: tuple[dict[str, Any], ...] = (
        {"network": NetworkPolicy()},
        {"network": NetworkPolicy(egress="allow")},
        {"resources": Resources(memory_mb=64, pids=32)},
        {"resources": Resources(memory_mb=600)},
    )
    for one in options:
        try:
            plan = await sandboxio.plan(target.dsn, **one)
        except (CapabilityNotSupported, ConfigurationError):
            continue
        tiers[str(one)] = plan.tier
    if not tiers:
        raise Inconclusive("every plan is refused")
    same = set(tiers.values()) == {await target.tier()}
    require(same, f"the tier depends on other policies: { {key: tier.value for key, tier in tiers.items()} }")
    return proven(f"the rank is the documented one; {len(tiers)} plans with other policies have one tier")


@row("ISO-03")
async def an_unknown_tier_is_warned_about(target: Target) -> Finding:
    """Making a sandbox of unknown isolation warns, and satisfies no requirement; one of a known tier does not warn."""
    unknown = await target.tier() is IsolationTier.UNKNOWN
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        async with target.sandbox() as sb:
            told = any(issubclass(one.category, UnverifiedIsolationWarning) for one in caught)
            require((sb.isolation is IsolationTier.UNKNOWN) == unknown, f"the sandbox claims {sb.isolation.value}")
    if not unknown:
        require(not told, "a backend of a known tier warns that it is unknown")
        return proven("the tier is known, so nothing is warned about")
    require(told, "a sandbox of unknown isolation was made without UnverifiedIsolationWarning")
    async with recorded(target) as asking:
        tier = IsolationTier.CONTAINER
        return summed([await asking.refuses("CONTAINER", ConfigurationError, require_isolation=tier)])


@row("ISO-05")
async def a_tier_has_a_dated_source(target: Target) -> Finding:
    """What is above a container names where the provider documents it, and when that was read; ours do so for any tier."""
    info = await target.info()
    if info.tier is IsolationTier.UNKNOWN:
        return Finding("not applicable", "the backend claims no tier")
    tier, item = await target.tier(), (await sandboxio.plan(target.dsn))["isolation"]
    require(isinstance(item, Enforcement) and item.requested == tier.value, f"the plan's receipt is {item!r}")
    source = item.source if isinstance(item, Enforcement) else ""
    undated = [text for text in (info.tier_evidence, source) if not is_dated(text)]
    if info.tier.satisfies(IsolationTier.GVISOR):
        require(not undated, f"{info.tier.value} is claimed without a dated source: {undated}")
    elif undated:
        return proven(f"{info.tier.value} needs no source")
    return proven(f"{info.tier.value}: {info.tier_evidence}")


@row("ISO-04")
async def requiring_unknown_is_refused(target: Target) -> Finding:
    """`require_isolation=UNKNOWN` means nothing, so it raises."""
    async with recorded(target) as asking:
        unknown = IsolationTier.UNKNOWN
        return summed([await asking.refuses("UNKNOWN", ConfigurationError, no_call=True, require_isolation=unknown)])


@row("ISO-06", backend="docker", world=True)
async def docker_is_hardened(target: Target) -> Finding:
    """Capabilities, privileges, caps, mounts and namespaces as the engine holds them, and as a command sees them (NET-06).

    In an image without ``cat`` the host's kernel is asked about the sandbox's first process.
    """
    async with target.sandbox() as sb:
        held = await target.look(target.ground.inspect, sb.id)
        seen = await sb.run(["cat", "/proc/self/status"])
        status = seen.stdout if seen.ok else await target.look(target.ground.status, sb.id)
        lines = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        privileges = lines.get("NoNewPrivs") or (await sb.run(["python3", "-c", _ASKED])).stdout.strip()
    security = str(held.get("SecurityOpt"))
    unset = [name for field, name in _LIMITS.items() if not _positive(held.get(field))]
    shared = [name for name in ("PidMode", "IpcMode", "UTSMode", "UsernsMode") if held.get(name) == "host"]
    facts: dict[str, bool | None] = {
        "capabilities dropped": held.get("CapDrop") == ["ALL"] and not held.get("CapAdd"),
        "no capability in force": set(lines["CapEff"] + lines["CapPrm"]) == {"0"},
        "no-new-privileges": _held("no-new-privileges" in security, privileges),
        "seccomp on": lines.get("Seccomp") == "2" and "unconfined" not in security,
        "not privileged": held.get("Privileged") is False,
        "no host mounts": not held.get("Binds") and not held.get("Mounts"),
        "no host namespace": not shared and held.get("NetworkMode") != "host",
        "caps set": not unset,
        "swap bounded with memory": held.get("Memory") == held.get("MemorySwap"),
        "no device": not held.get("Devices") and not held.get("DeviceRequests"),
    }
    return summed(
        Part(name, _JUDGED[holds], "held" if holds else "nothing inside says so" if holds is None else _shown(held))
        for name, holds in facts.items()
    )


def _held(by_engine: bool, told_inside: str) -> bool | None:
    """Whether both say so; ``None`` where only the engine does."""
    if not by_engine or told_inside not in ("", "1"):
        return False
    return True if told_inside else None


def _positive(value: object) -> bool:
    return isinstance(value, (int, float)) and value > 0


def _shown(held: object) -> str:
    return str(held)[:400]
