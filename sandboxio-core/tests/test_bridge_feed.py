"""What goes from a caller's loop into the SDK's, and what goes on there when nobody waits any more."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator

import anyio
import anyio.lowlevel
import pytest
from sandboxio.bridge import Bridge

pytestmark = pytest.mark.anyio


@pytest.fixture
async def bridge() -> AsyncIterator[Bridge]:
    made = Bridge()
    yield made
    await made.aclose()


async def numbers(count: int, given: list[int] | None = None) -> AsyncIterator[int]:
    for number in range(count):
        await anyio.lowlevel.checkpoint()
        if given is not None:
            given.append(number)
        yield number


async def test_items_arrive_in_order_and_the_result_comes_back(bridge: Bridge) -> None:
    async def take(items: AsyncIterator[int]) -> tuple[str, list[int]]:
        return threading.current_thread().name, [item async for item in items]

    name, taken = await bridge.feed(numbers(200), take)
    assert (name, taken) == ("sandboxio-bridge", list(range(200)))


async def test_nothing_at_all_is_an_end(bridge: Bridge) -> None:
    async def take(items: AsyncIterator[int]) -> int:
        return sum([item async for item in items])

    assert await bridge.feed(numbers(0), take) == 0


async def test_no_more_is_taken_than_is_asked_for(bridge: Bridge) -> None:
    given: list[int] = []

    async def take(items: AsyncIterator[int]) -> None:
        async for item in items:
            if item == 3:
                return

    await bridge.feed(numbers(1000, given), take)
    assert len(given) <= 5


async def test_work_that_fails_raises_here(bridge: Bridge) -> None:
    async def take(items: AsyncIterator[int]) -> None:
        await anext(items)
        raise ValueError("of the SDK")

    with pytest.raises(ValueError, match="of the SDK"):
        await bridge.feed(numbers(10), take)


async def test_items_that_fail_never_pass_for_whole(bridge: Bridge) -> None:
    ended: list[object] = []

    async def take(items: AsyncIterator[int]) -> None:
        try:
            ended.append([item async for item in items])
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def failing() -> AsyncIterator[int]:
        yield 1
        raise OSError("the caller's own")

    with pytest.raises(OSError, match="the caller's own"):
        await bridge.feed(failing(), take)
    assert ended == ["cancelled"]


async def test_a_cancelled_caller_goes_on_when_the_work_has_ended(bridge: Bridge) -> None:
    ended: list[bool] = []

    async def take(items: AsyncIterator[int]) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            ended.append(True)

    with anyio.move_on_after(0.05) as scope:
        await bridge.feed(numbers(3), take)
    assert scope.cancelled_caught
    assert ended == [True]


async def test_what_is_left_goes_on_without_the_bridge() -> None:
    done = threading.Event()

    async def work() -> None:
        await asyncio.sleep(0.2)
        done.set()

    bridge = Bridge()
    bridge.leave(work)
    await bridge.aclose()
    assert not done.is_set()
    assert await anyio.to_thread.run_sync(done.wait, 5)


PROGRAM = """
import asyncio
from sandboxio.bridge import Bridge
async def work():
    await asyncio.sleep({seconds})
    print("done", flush=True)
Bridge().leave(work)
"""


@pytest.mark.parametrize(("seconds", "said"), [(0.3, b"done\n"), (60, b"")])
def test_a_process_waits_for_what_is_left_at_its_end_but_not_for_ever(seconds: float, said: bytes) -> None:
    program = [sys.executable, "-c", PROGRAM.format(seconds=seconds)]
    done = subprocess.run(program, capture_output=True, check=True, timeout=30, env={"SBX_TEARDOWN_GRACE": "2"})
    assert done.stdout == said
