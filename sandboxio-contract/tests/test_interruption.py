"""Interruptions hit the point they were meant for, and each way is told apart from an operation that ends by itself."""

import anyio
import pytest
from sandboxio_contract.interruption import WAYS, Driven, Way, at, interrupt, ways

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def three_steps(seen: list[int]) -> str:
    for step in range(3):
        await anyio.sleep(0.001)
        seen.append(step)
    return "done"


async def test_a_driven_coroutine_returns_what_it_returns_and_counts() -> None:
    seen: list[int] = []
    driven = Driven(three_steps(seen), lambda _: None)
    assert await driven == "done"
    assert seen == [0, 1, 2]
    assert driven.suspensions >= 3


@pytest.mark.parametrize("way", WAYS)
async def test_each_way_stops_the_operation_at_its_point(way: Way) -> None:
    if way not in ways():
        return
    points = Driven(three_steps([]), lambda _: None)
    await points
    reached: list[int] = []
    for point in range(1, points.suspensions + 1):
        seen: list[int] = []
        outcome = await interrupt(way, at(point), lambda seen=seen: three_steps(seen))  # type: ignore[misc]
        assert outcome.fired
        assert outcome.interrupted
        assert outcome.value is None
        assert outcome.error is None
        reached.append(len(seen))
    assert reached == sorted(reached)
    assert reached[0] == 0
    assert reached[-1] < 3


@pytest.mark.parametrize("way", WAYS)
async def test_a_point_that_is_never_reached_leaves_the_operation_alone(way: Way) -> None:
    if way in ways():
        outcome = await interrupt(way, at(1000), lambda: three_steps([]))
        assert (outcome.fired, outcome.interrupted, outcome.value) == (False, False, "done")


@pytest.mark.parametrize("way", ["native", "native twice", "timeout", "interrupt"])
async def test_a_swallowed_interruption_is_seen(way: Way) -> None:
    async def deaf() -> str:
        try:
            await anyio.sleep(0.2)
        except (anyio.get_cancelled_exc_class(), KeyboardInterrupt):
            return "survived"
        return "not hit"

    if way in ways():
        outcome = await interrupt(way, at(1), deaf)
        assert (outcome.fired, outcome.interrupted, outcome.value) == (True, False, "survived")


async def test_an_error_in_the_interruptions_place_is_seen() -> None:
    async def wraps() -> None:
        try:
            await anyio.sleep(1)
        except anyio.get_cancelled_exc_class() as error:
            raise ValueError("wrapped") from error

    outcome = await interrupt("scope", at(1), wraps)
    assert isinstance(outcome.error, ValueError)
