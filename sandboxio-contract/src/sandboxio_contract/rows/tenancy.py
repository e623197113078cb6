"""Rows about whose a sandbox is: labels that find it, and nothing shared between two."""

import itertools
import secrets
from typing import cast

import sandboxio
from sandboxio import ConfigurationError, Sandbox

from sandboxio_contract.ground import Spied
from sandboxio_contract.rows import row
from sandboxio_contract.rows.inside import gone, need_shell, output_of, raises
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, Part, proven, require, summed, violated

TRICKY = {
    "tenant_id": "a,b=c *",
    "session_id": "ü/ñ 日本 \U0001f389",
    "dots.and/slashes": "x" * 300,
    "empty": "",
    "lines": "one\ntwo",
}


@row("TEN-01")
async def metadata_reaches_the_providers_labels(target: Target) -> Finding:
    """Metadata comes back byte for byte from the provider, or is refused; listing goes by exact values."""
    await target.need_sandbox()
    parts: list[Part] = []
    for key, value in TRICKY.items():
        try:
            made = await target.create(metadata={key: value})
        except ConfigurationError as error:
            parts.append(Part(key, "refused", error.message))
            continue
        async with made:
            held = (await target.look(target.ground.inspect, made.id)).get("Metadata")
        kept = isinstance(held, dict) and cast("dict[str, str]", held).get(key) == value
        parts.append(Part(key, "proven" if kept else "violated", "kept" if kept else f"the provider holds {held!r}"))
    parts.append(await _listed_exactly(target))
    return summed(parts)


@row("TEN-02", world=True)
async def two_sandboxes_share_nothing(target: Target) -> Finding:
    """A file, a variable, a secret and a process of one are not in the other, nor in one that is made afterwards (TEN-01)."""
    word = f"canary{secrets.token_hex(8)}"
    script = 'for f in /tmp/x /work/x x /dev/shm/x; do echo "$WORD" > $f 2>/dev/null; done; sleep 100 & echo done'
    async with target.sandbox(env={"WORD": word}, secrets={"SECRET": f"s{word}"}) as one, target.sandbox() as two:
        await need_shell(one)
        require(one.id != two.id, "two sandboxes have the same id")
        await output_of(one, ["sh", "-c", script])
        own = await _traces(one, word)
        require(word in own, "the search does not even find the canary in its own sandbox")
        require(word not in await _traces(two, word), "a canary of one sandbox is in its neighbour")
    async with target.sandbox() as later:
        require(word not in await _traces(later, word), "a canary of a sandbox that ended is in the next one")
    return proven("files, variables, secrets and processes of one sandbox are in no other")


@row("TEN-04")
async def nothing_is_pooled(target: Target) -> Finding:
    """One `create()` makes one sandbox, of its own, and the next is another one; nothing waits to be used."""
    await target.need_sandbox()
    metadata = {"tenant_id": "a", "session_id": "the same"}
    with target.ground.spied() as spied:
        # The first creation may find out what kind of image it is; the ones that count are like the second.
        async with target.create(dsn=spied.dsn, metadata=metadata):
            pass
        ids: list[str] = []
        earlier = _creations(spied)
        for number in (1, 2):
            async with target.create(dsn=spied.dsn, metadata=metadata) as sb:
                ids.append(sb.id)
                made = _creations(spied) - earlier
                require(made == number, f"{number} times create() sent {made} requests that make a sandbox")
        made = _creations(spied) - earlier
        require(made == 2, f"ending a sandbox made another: {made} requests for two")
        async with (
            target.create(dsn=spied.dsn, metadata=metadata) as one,
            target.create(dsn=spied.dsn, metadata=metadata) as two,
        ):
            require(one.id != two.id, "a sandbox that lived was given to another of the same metadata")
    require(ids[0] != ids[1], "the same metadata gave the same sandbox")
    return proven("one request for each create(), another sandbox for the same metadata, none in advance")


@row("TEN-01")
async def only_full_ids_are_killed(target: Target) -> Finding:
    """`kill_managed` takes full ids only, and ends what it names (TEN-02)."""
    async with target.sandbox() as sb:
        for wrong in ("", sb.id[: min(12, len(sb.id) - 1)]):
            await raises(ConfigurationError, sandboxio.kill_managed(target.dsn, wrong), f"kill_managed({wrong!r})")
        require((await sb.run(["true"])).ok, "a refused kill_managed() ended the sandbox")
        await sandboxio.kill_managed(target.dsn, sb.id)
        require(await gone(target, sb.id), "kill_managed() left the sandbox alive")
        await sandboxio.kill_managed(target.dsn, sb.id)
    return proven("an empty id and a prefix are refused; the full id ends the sandbox, twice is fine")


@row("TEN-03", world=True)
async def storage_is_the_tenants_own(target: Target) -> Finding:
    """Where sandboxes reach storage that outlives them, two tenants reach different places, and neither the other's."""
    async with (
        target.sandbox(metadata={"tenant_id": "a"}) as one,
        target.sandbox(metadata={"tenant_id": "b"}) as two,
        target.sandbox() as nobodys,
    ):
        places = [await target.look(target.ground.storage, sb.id) for sb in (one, two, nobodys)]
    if places == [None, None, None]:
        return Finding("not applicable", "no sandbox reaches storage that outlives it")
    reached = [f"{place.rstrip('/')}/" for place in places if place is not None]
    for here, there in itertools.permutations(reached, 2):
        require(not here.startswith(there), f"what one tenant's sandbox reaches, {there}, is another's, too: {here}")
    return proven(f"each tenant has a place of its own: {', '.join(reached)}")


def _creations(spied: Spied) -> int:
    return sum(spied.creates(call) for call in spied.wire.calls)


async def _listed_exactly(target: Target) -> Part:
    key = f"k{secrets.token_hex(4)}"
    async with target.sandbox(metadata={key: "a"}) as sb, target.sandbox(metadata={key: "ab"}):
        found = [one.sandbox_id for one in await sandboxio.list_managed(target.dsn, labels={key: "a"})]
    if found != [sb.id]:
        violated(f"listing by {key}=a gave {len(found)} sandboxes instead of the one that has it")
    return Part("listing", "proven", "by exact value")


async def _traces(sb: Sandbox, word: str) -> str:
    """Return every place of a sandbox that shows the word."""
    script = 'cat /tmp/x /work/x x /dev/shm/x 2>/dev/null; env; cat /proc/[0-9]*/environ 2>/dev/null | tr "\\0" "\\n"'
    seen = (await sb.run(["sh", "-c", script])).stdout
    return word if word in seen else ""
