"""Rows about using a sandbox that is there already: looked at first, refused untouched, ended by whoever leaves it."""

from typing import Any

import sandboxio
from sandboxio import ConfigurationError, ConnectError, IsolationTier, PolicyNotEnforced, Resources

from sandboxio_contract.rows import row
from sandboxio_contract.rows.inside import connected, gone, raises
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, proven, require

APART = 0.5
"""Seconds by which two readings of one instant may differ."""


@row("CON-01")
async def connecting_looks_before_it_touches(target: Target) -> Finding:
    """What is not as expected is refused and works on; what is accepted has no later end for it."""
    expectations: dict[str, tuple[Any, type[Exception]]] = {
        "another's metadata": ({"metadata": {"tenant_id": "another"}}, ConnectError),
        "another cap": ({"resources": Resources(pids=31)}, PolicyNotEnforced),
        "a higher tier": ({"require_isolation": IsolationTier.MICROVM}, PolicyNotEnforced),
    }
    async with target.sandbox(metadata={"tenant_id": "mine"}) as sb:
        for name, (options, error) in expectations.items():
            await raises(error, sandboxio.connect(target.dsn, sb.id, **options), f"connecting with {name}")
        for wrong in (sb.id[:8], sb.id[:-1], sb.id + "0"):
            await raises((ConnectError, ConfigurationError), sandboxio.connect(target.dsn, wrong), f"the id {wrong!r}")
        require((await sb.run(["true"])).ok, "a refused connect() harmed the sandbox")
        first = await connected(target, sb, metadata={"tenant_id": "mine"})
        second = await connected(target, sb)
        require((await first.run(["true"])).ok, "a command of a connected sandbox failed")
        for again in (first, second):
            later = again.expires_at - sb.expires_at
            require(later < APART, f"connecting moved the end of the sandbox by {later:.1f} s")
        await first.kill()
        await second.kill()
    return proven(f"{len(expectations)} expectations and 3 ids refused untouched; two connections moved no end")


@row("TRD-01")
async def leaving_a_connected_block_kills(target: Target) -> Finding:
    """The end of the block of a connected sandbox ends the sandbox, whoever made it."""
    async with target.sandbox() as sb:
        async with await connected(target, sb) as again:
            require((await again.run(["true"])).ok, "a command of a connected sandbox failed")
        require(await gone(target, sb.id), "the sandbox lives on after the block of a connection was left")
    return proven("gone when the block of a second connection was left")
