"""Rows about tiers and hardening."""

from sandboxio import ConfigurationError, IsolationTier

from sandboxio_contract.rows import row
from sandboxio_contract.rows.refusing import recorded
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, Part, require, summed

_LIMITS = {"Memory": "memory", "MemorySwap": "memory with swap", "PidsLimit": "processes", "NanoCpus": "CPU"}


@row("ISO-01")
async def a_higher_tier_is_refused_before_anything(target: Target) -> Finding:
    """Every tier above the backend's is refused without a single call; its own is accepted."""
    tier = (await target.info()).tier
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


@row("ISO-04")
async def requiring_unknown_is_refused(target: Target) -> Finding:
    """`require_isolation=UNKNOWN` means nothing, so it raises."""
    async with recorded(target) as asking:
        unknown = IsolationTier.UNKNOWN
        return summed([await asking.refuses("UNKNOWN", ConfigurationError, no_call=True, require_isolation=unknown)])


@row("ISO-06", backend="docker", world=True)
async def docker_is_hardened(target: Target) -> Finding:
    """Capabilities, privileges, caps, mounts and namespaces as the engine holds them, and as a command sees them.

    In an image without ``cat`` the host's kernel is asked about the sandbox's first process.
    """
    async with target.sandbox() as sb:
        held = await target.look(target.ground.inspect, sb.id)
        seen = await sb.run(["cat", "/proc/self/status"])
        status = seen.stdout if seen.ok else await target.look(target.ground.status, sb.id)
    lines = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    security = str(held.get("SecurityOpt"))
    unset = [name for field, name in _LIMITS.items() if not _positive(held.get(field))]
    shared = [name for name in ("PidMode", "IpcMode", "UTSMode", "UsernsMode") if held.get(name) == "host"]
    facts = {
        "capabilities dropped": held.get("CapDrop") == ["ALL"] and not held.get("CapAdd"),
        "no capability in force": set(lines["CapEff"] + lines["CapPrm"]) == {"0"},
        "no-new-privileges": lines["NoNewPrivs"] == "1" and "no-new-privileges" in security,
        "seccomp on": lines.get("Seccomp") == "2" and "unconfined" not in security,
        "not privileged": held.get("Privileged") is False,
        "no host mounts": not held.get("Binds") and not held.get("Mounts"),
        "no host namespace": not shared and held.get("NetworkMode") != "host",
        "caps set": not unset,
        "swap bounded with memory": held.get("Memory") == held.get("MemorySwap"),
        "no device": not held.get("Devices") and not held.get("DeviceRequests"),
    }
    return summed(
        Part(name, "proven" if holds else "violated", "held" if holds else _shown(held))
        for name, holds in facts.items()
    )


def _positive(value: object) -> bool:
    return isinstance(value, (int, float)) and value > 0


def _shown(held: object) -> str:
    return str(held)[:400]
