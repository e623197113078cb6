"""Rows that interrupt an operation at every point where it waits."""

import random
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import anyio
from sandboxio import Sandbox

from sandboxio_contract.ground.wire import Call, Place
from sandboxio_contract.interruption import Outcome, Way, at, interrupt, on_trio, ways
from sandboxio_contract.rows import row
from sandboxio_contract.rows.inside import GRACE, SLACK, gone, grace, left_over
from sandboxio_contract.target import Target, first_line
from sandboxio_contract.verdict import Finding, Part, summed

AT_ONCE = 6
"""Operations that run side by side, which keeps a sweep of some hundred creations short."""
MOST_POINTS = 400
DELAYS = 30
GIVEN_UP = 1.0
HELD = 0.2
"""Seconds for which a request of a cancelled creation is held on."""
ASKED = 30.0
"""Seconds within which a creation asks the provider for something, also on a busy machine."""
LATE = 15.0
"""Seconds within which what was made late has to be gone."""
PLACES: tuple[Place, ...] = ("before send", "after commit")


@row("TRD-05", within=300)
async def an_interrupted_creation_leaves_nothing(target: Target) -> Finding:
    """`create()` is interrupted at every suspension in every way, and at random moments; nothing is left (CAN-01)."""
    await target.need_sandbox()
    parts = [await _sweep_creation(target, way) for way in ways()]
    parts.append(await _random_moments(target))
    parts.append(await _at_the_wire(target))
    parts.append(await _given_up(target))
    return summed(parts)


@row("TRD-02", within=120)
async def an_interrupted_kill_kills(target: Target) -> Finding:
    """`kill()` is interrupted at every suspension in every way; the sandbox is gone, the interruption is raised."""
    return summed([await _sweep_kill(target, way) for way in ways()])


async def _sweep_creation(target: Target, way: Way) -> Part:
    mark = {"row": f"create-{way.replace(' ', '-')}-{'trio' if on_trio() else 'asyncio'}"}

    async def create() -> Sandbox:
        return await target.create(metadata=mark)

    faults: list[str] = []

    async def settle(point: int, outcome: "Outcome[Sandbox]") -> None:
        if outcome.value is not None:
            await outcome.value.kill()
        _judge(faults, way, point, outcome)

    points = await _every_point(way, create, settle)
    left = await left_over(target, mark, within=GRACE + SLACK)
    faults += [f"left behind: {item}" for item in left]
    return _part(way, faults, f"{points} points, nothing left")


async def _sweep_kill(target: Target, way: Way) -> Part:
    faults: list[str] = []
    point, fired = 0, True
    while fired and point < MOST_POINTS and not faults:
        point += 1
        async with target.sandbox() as sb:
            outcome = await interrupt(way, at(point), partial(_killed, sb))
            fired = outcome.fired
            if fired:
                _judge(faults, way, point, outcome)
            if not await gone(target, sb.id):
                faults.append(f"at point {point} the sandbox lived on")
    return _part(way, faults, f"{point - 1} points, killed each time")


async def _killed(sb: Sandbox) -> bool:
    await sb.kill()
    return True


async def _every_point(
    way: Way,
    work: Callable[[], Coroutine[Any, Any, Sandbox]],
    settle: "Callable[[int, Outcome[Sandbox]], Coroutine[Any, Any, None]]",
) -> int:
    """Interrupt at each point until an operation ends before its point; return how many points there are."""
    ended_before: list[int] = []

    async def one(point: int) -> None:
        outcome = await interrupt(way, at(point), work)
        if not outcome.fired:
            ended_before.append(point)
        await settle(point, outcome)

    start = 1
    while not ended_before and start < MOST_POINTS:
        async with anyio.create_task_group() as group:
            for point in range(start, start + AT_ONCE):
                group.start_soon(one, point)
        start += AT_ONCE
    return min(ended_before, default=start) - 1


async def _at_the_wire(target: Target) -> Part:
    """Cancel while the provider holds each request of a creation, before it sees it and after it carried it out."""
    mark = {"row": f"create-held-{'trio' if on_trio() else 'asyncio'}"}
    faults: list[str] = []
    with target.ground.spied() as spied:
        # The first creation may find out what kind of image it is; the ones that count are like the second.
        await _created_and_killed(target, spied.dsn, mark)
        before = len(spied.wire.calls)
        async with target.create(dsn=spied.dsn, metadata=mark) as sb:
            kinds = list(dict.fromkeys(_kind(call) for call in spied.wire.calls[before:] if call.changes))
        for kind in kinds:
            for place in PLACES:
                gate = spied.wire.gate(lambda call, kind=kind: _kind(call) == kind, place)  # type: ignore[misc]
                async with anyio.create_task_group() as group:
                    group.start_soon(_created_and_killed, target, spied.dsn, mark)
                    await target.look(gate.reached.wait, ASKED)
                    group.cancel_scope.cancel()
                    with anyio.CancelScope(shield=True):
                        await anyio.sleep(HELD)
                        gate.open()
                if not gate.reached.is_set():
                    faults.append(f"{kind} was never sent")
        left = await left_over(target, mark, within=GRACE + SLACK)
    faults += [f"left behind: {item}" for item in left]
    return _part("held requests", faults, f"{len(kinds)} requests, each held before and after ({sb.backend})")


async def _given_up(target: Target) -> Part:
    """Hold a creation longer than the grace, so that core gives it up; what it makes late has to go all the same."""
    mark = {"row": f"create-given-up-{'trio' if on_trio() else 'asyncio'}"}
    faults: list[str] = []
    with target.ground.spied() as spied, grace(GIVEN_UP):
        for place in PLACES:
            gate = spied.wire.gate(spied.creates, place)
            async with anyio.create_task_group() as group:
                group.start_soon(_created_and_killed, target, spied.dsn, mark)
                await target.look(gate.reached.wait, ASKED)
                group.cancel_scope.cancel()
            gate.open()
            if not gate.reached.is_set():
                faults.append("no creation was asked for")
        left = await left_over(target, mark, within=LATE)
    faults += [f"left behind: {item}" for item in left]
    return _part("given up", faults, f"held longer than a grace of {GIVEN_UP:g} s; what came late is gone")


def _kind(call: Call) -> str:
    """Name a request without what differs from one sandbox to the next."""
    return f"{call.method} {'/'.join(word for word in call.path.split('/') if len(word) < 20)}"


async def _created_and_killed(target: Target, dsn: str, mark: dict[str, str]) -> None:
    async with target.create(dsn=dsn, metadata=mark):
        pass


async def _random_moments(target: Target) -> Part:
    mark = {"row": f"create-delayed-{'trio' if on_trio() else 'asyncio'}"}
    pick = random.Random(target.token)
    faults: list[str] = []

    async def one(delay: float) -> None:
        with anyio.move_on_after(delay):
            try:
                async with target.create(metadata=mark):
                    await anyio.sleep(1)
            except Exception as error:  # noqa: BLE001 - anything but the cancellation is a finding
                faults.append(f"after {delay:.3f} s: {first_line(error)}")

    delays = [pick.uniform(0.0, 0.6) for _ in range(DELAYS)]
    for start in range(0, DELAYS, AT_ONCE):
        async with anyio.create_task_group() as group:
            for delay in delays[start : start + AT_ONCE]:
                group.start_soon(one, delay)
    faults += [f"left behind: {item}" for item in await left_over(target, mark, within=GRACE + SLACK)]
    return _part("random moments", faults, f"{DELAYS} delays up to 0.6 s, nothing left")


def _judge(faults: list[str], way: Way, point: int, outcome: "Outcome[Any]") -> None:
    if outcome.error is not None:
        faults.append(f"at point {point} it raised {first_line(outcome.error)} instead of the interruption")
    elif outcome.fired and not outcome.interrupted and way != "scope":
        # A scope's cancellation comes again at the next await; the others are delivered once and must not be lost.
        faults.append(f"at point {point} the interruption was swallowed")


def _part(way: str, faults: list[str], good: str) -> Part:
    if faults:
        more = f" and {len(faults) - 3} more" if len(faults) > 3 else ""
        return Part(way, "violated", "; ".join(faults[:3]) + more)
    return Part(way, "proven", good)
