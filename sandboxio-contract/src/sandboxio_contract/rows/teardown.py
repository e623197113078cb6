"""Rows about the end of a sandbox: whatever leaves its context, it is gone, in time, and says so if it is not."""

import secrets
import time
import warnings
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Literal, TypeVar

import anyio
import anyio.to_thread
from sandboxio import ConfigurationError, OrphanedSandboxWarning, Sandbox

from sandboxio_contract.interruption import Way, at, interrupt, ways
from sandboxio_contract.rows import LOOPS, Loop, row
from sandboxio_contract.rows.inside import GRACE, SLACK, gone, grace, left_over, raises
from sandboxio_contract.target import Target, first_line
from sandboxio_contract.verdict import Finding, Part, proven, require, summed

T = TypeVar("T")

SHORT_GRACE = 2.0
NAP = 0.2
"""Seconds that the command takes whose call is cancelled at each of its points."""


class _Left(Exception):
    """The row's own way out of a block."""


@row("TRD-01", within=120)
async def leaving_the_block_kills(target: Target) -> Finding:
    """The end of the block, an exception and each kind of cancellation end the sandbox."""
    parts: list[Part] = []
    async with target.sandbox() as sb:
        pass
    parts.append(await _gone_part(target, "end of the block", sb))
    try:
        async with target.sandbox() as sb:
            raise _Left
    except _Left:
        parts.append(await _gone_part(target, "exception", sb))
    for way in ways():
        parts += [await _interrupted(target, way, "body"), await _interrupted(target, way, "teardown")]
    return summed(parts)


@row("TRD-03")
async def an_overdue_teardown_says_so(target: Target) -> Finding:
    """While the provider hangs, the block is left within the grace, with a warning that names what may be left."""
    await target.need_sandbox()
    mark = {"row": f"overdue-{secrets.token_hex(3)}"}
    with target.ground.spied() as spied, grace(SHORT_GRACE), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        sb = await target.create(dsn=spied.dsn, metadata=mark)
        gate = spied.wire.gate(spied.destroys, "before send")
        started = time.monotonic()
        try:
            async with sb:
                raise _Left
        except _Left:
            gate.open()
        took = time.monotonic() - started
        require(gate.reached.is_set(), "the provider was never asked to end the sandbox")
        require(took <= SHORT_GRACE + 1, f"the block was left after {took:.1f} s, the grace is {SHORT_GRACE:g}")
        orphans = [str(one.message) for one in seen if issubclass(one.category, OrphanedSandboxWarning)]
        require(len(orphans) == 1, f"{len(orphans)} OrphanedSandboxWarnings were emitted, not 1")
        missing = [word for word in (sb.id, sb.backend, mark["row"]) if word not in orphans[0]]
        require(not missing, f"the warning does not name {', '.join(missing)}: {orphans[0]}")
        left = await left_over(target, mark, within=GRACE + SLACK)
        require(not left, f"the sandbox lives on after the provider answered again: {', '.join(map(str, left))}")
    return proven(f"left after {took:.1f} s with one warning that names id, backend and labels; own exception kept")


@row("TRD-04")
async def kill_is_idempotent(target: Target) -> Finding:
    """Killing twice, five times at once, and after the provider lost the sandbox raises and warns nothing (KIL-01)."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        async with target.sandbox() as sb:
            await sb.kill()
            await sb.kill()
        async with target.sandbox() as sb, anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(sb.kill)
        at_once = await gone(target, sb.id)
        require(at_once, "five kills at once left the sandbox alive")
        async with target.sandbox() as sb:
            await target.look(target.ground.lose, sb.id)
            await sb.kill()
    orphans = [str(one.message) for one in seen if issubclass(one.category, OrphanedSandboxWarning)]
    require(not orphans, f"a warning was emitted although nothing was left: {orphans[:1]}")
    return proven("twice, five at once, and after the provider lost it: no error, no warning")


@row("TRD-08")
async def cancellation_stays_cancellation(target: Target) -> Finding:
    """A cancelled call raises the cancellation itself, not an error of ours, and the sandbox works on."""
    parts: list[Part] = []
    for way in ways():
        async with target.sandbox() as sb:
            point, fired = 0, True
            wrong: list[str] = []
            while fired and point < 40:
                point += 1
                outcome = await interrupt(way, at(point), partial(_sleep, sb))
                fired = outcome.fired
                if outcome.error is not None:
                    wrong.append(f"point {point}: {first_line(outcome.error)}")
                elif fired and not outcome.interrupted and way != "scope":
                    wrong.append(f"point {point}: swallowed")
                if sb.info().get("kill") != "tree":
                    break
            parts.append(
                Part(way, "violated" if wrong else "proven", "; ".join(wrong[:3]) or f"{point} points of run()")
            )
    return summed(parts)


@row("LOOP-01")
async def any_task_of_the_loop_may_use_it(target: Target) -> Finding:
    """Entered in one task, run in a second, killed in a third; used again in another loop of either kind."""
    await target.need_sandbox()
    sb = await _in_a_task(lambda: _enter(target))
    require((await _in_a_task(lambda: sb.run(["true"]))).ok, "run() in a second task failed")
    await _in_a_task(sb.kill)
    require(await gone(target, sb.id), "kill() in a third task did not end it")
    for backend in LOOPS:
        await target.look(_run_once, target, backend)
    async with target.sandbox() as sb:

        async def elsewhere(sb: Sandbox = sb) -> None:
            await raises(ConfigurationError, sb.run(["true"]), "run() in another event loop")

        await anyio.to_thread.run_sync(lambda: anyio.run(elsewhere, backend="asyncio"))
    return proven("three tasks; a loop of each kind afterwards; another loop's sandbox is refused")


async def _enter(target: Target) -> Sandbox:
    sb = await target.create()
    target.made.add(sb.id)
    return await sb.__aenter__()


def _run_once(target: Target, loop: Loop) -> None:
    anyio.run(_once, target, backend=loop)


async def _once(target: Target) -> None:
    async with target.sandbox() as sb:
        require((await sb.run(["true"])).ok, "run() in another loop failed")


async def _sleep(sb: Sandbox) -> object:
    return await sb.run(["sleep", f"{NAP:g}"])


async def _interrupted(target: Target, way: Way, where: Literal["body", "teardown"]) -> Part:
    made: list[Sandbox] = []
    leaving: list[bool] = []

    async def body() -> None:
        async with target.sandbox() as sb:
            made.append(sb)
            if where == "body":
                await anyio.sleep(60)
            leaving.append(True)

    reached = made if where == "body" else leaving
    outcome = await interrupt(way, lambda _: bool(reached), body)
    name = f"{way} in the {where}"
    # A scope that was cancelled during the teardown hits whatever is awaited next, and here that is nothing.
    late = way == "scope" and where == "teardown"
    if outcome.error is not None or not (outcome.interrupted or late):
        return Part(name, "violated", f"the interruption was lost: {outcome.error!r}")
    return await _gone_part(target, name, made[0])


async def _in_a_task(work: Callable[[], Awaitable[T]]) -> T:
    results: list[T] = []

    async def body() -> None:
        results.append(await work())

    async with anyio.create_task_group() as group:
        group.start_soon(body)
    return results[0]


async def _gone_part(target: Target, name: str, sb: Sandbox) -> Part:
    away = await gone(target, sb.id)
    return Part(name, "proven" if away else "violated", "gone" if away else f"{sb.id[:12]} lives on")
