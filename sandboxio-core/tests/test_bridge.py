"""The bridge to SDKs that know asyncio only: every caller's loop, cancellation, back-pressure, one task per stream."""

import asyncio
import contextvars
import gc
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import anyio
import anyio.lowlevel
import pytest
import trio
from sandboxio.bridge import Bridge
from sandboxio.errors import BackendUnavailable

pytestmark = pytest.mark.anyio


@pytest.fixture
async def bridge() -> AsyncIterator[Bridge]:
    made = Bridge()
    yield made
    await made.aclose()
    assert bridge_threads() == []


def bridge_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "sandboxio-bridge"]


class Sdk:
    """A client of the kind that only asyncio can run."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.taken = 0
        self.ended: list[str] = []
        self.tasks: set[asyncio.Task[object] | None] = set()

    async def answer(self) -> str:
        assert asyncio.get_running_loop() is self.loop
        await asyncio.sleep(0.001)
        return threading.current_thread().name

    async def hang(self, cleaning: float = 0.0) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(cleaning)
            self.ended.append("hang")

    async def items(self, number: int = 1000) -> AsyncGenerator[int]:
        try:
            for item in range(number):
                async with asyncio.timeout(5):  # fails where another task resumes it
                    self.tasks.add(asyncio.current_task())
                    await asyncio.sleep(0)
                    self.taken += 1
                    yield item
        finally:
            self.ended.append("items")


async def made(bridge: Bridge) -> Sdk:
    async def make() -> Sdk:
        return Sdk()

    return await bridge.call(make)


async def test_calls_run_in_one_asyncio_loop_in_a_thread_of_its_own(bridge: Bridge) -> None:
    sdk = await made(bridge)
    assert {await bridge.call(sdk.answer) for _ in range(3)} == {"sandboxio-bridge"}


def test_a_client_outlives_its_callers_loops() -> None:
    """LOOP-01."""
    bridge = Bridge()
    sdk = anyio.run(made, bridge)
    for backend in ("trio", "asyncio", "trio"):
        assert anyio.run(bridge.call, sdk.answer, backend=backend) == "sandboxio-bridge"
    anyio.run(bridge.aclose)
    assert bridge_threads() == []


async def test_errors_are_raised_as_they_are(bridge: Bridge) -> None:
    error = ValueError("of the SDK")

    async def fail() -> None:
        raise error

    with pytest.raises(ValueError, match="of the SDK") as caught:
        await bridge.call(fail)
    assert caught.value is error


async def test_a_call_that_the_sdk_cancels_is_no_cancellation_of_the_caller(bridge: Bridge) -> None:
    async def give_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(BackendUnavailable):
        await bridge.call(give_up)


async def test_cancelling_carries_over_and_waits_for_the_end(bridge: Bridge) -> None:
    sdk = await made(bridge)
    with anyio.move_on_after(0.05) as scope:
        await bridge.call(lambda: sdk.hang(cleaning=0.1))
    assert scope.cancelled_caught
    assert sdk.ended == ["hang"]


def test_native_cancellation_carries_over() -> None:
    """TRD-08."""

    async def main() -> None:
        bridge = Bridge()
        sdk = await made(bridge)
        task = asyncio.create_task(bridge.call(lambda: sdk.hang(cleaning=0.1)))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sdk.ended == ["hang"]
        await bridge.aclose()

    asyncio.run(main())


async def test_a_stream_is_read_no_faster_than_it_is_taken(bridge: Bridge) -> None:
    sdk = await made(bridge)
    async with aclosing(bridge.iterate(sdk.items)) as stream:
        assert [await anext(stream) for _ in range(3)] == [0, 1, 2]
        await anyio.sleep(0.05)
        assert sdk.taken == 3
    assert sdk.ended == ["items"]


async def test_a_stream_runs_in_one_task_and_ends(bridge: Bridge) -> None:
    sdk = await made(bridge)
    async with aclosing(bridge.iterate(lambda: sdk.items(50))) as stream:
        assert [item async for item in stream] == list(range(50))
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
    assert len(sdk.tasks) == 1


async def test_a_cancelled_read_loses_nothing(bridge: Bridge) -> None:
    async def slow() -> AsyncGenerator[int]:
        for item in range(5):
            await asyncio.sleep(0.04)
            yield item

    seen: list[int] = []
    deadline = time.monotonic() + 10
    async with aclosing(bridge.iterate(slow)) as stream:
        while len(seen) < 5 and time.monotonic() < deadline:
            with anyio.move_on_after(0.01):
                seen.append(await anext(stream))
    assert seen == [0, 1, 2, 3, 4]


async def test_a_streams_error_comes_after_its_items(bridge: Bridge) -> None:
    async def failing() -> AsyncGenerator[int]:
        yield 1
        raise ValueError("of the SDK")

    async with aclosing(bridge.iterate(failing)) as stream:
        assert await anext(stream) == 1
        with pytest.raises(ValueError, match="of the SDK"):
            await anext(stream)


async def test_an_error_that_no_read_saw_is_raised_when_the_stream_is_closed(bridge: Bridge) -> None:
    async def ending_badly() -> AsyncGenerator[int]:
        try:
            yield 1
            yield 2
        finally:
            raise ValueError("of the SDK")

    stream = bridge.iterate(ending_badly)
    assert await anext(stream) == 1
    with pytest.raises(ValueError, match="of the SDK"):
        await stream.aclose()


async def test_closing_ends_a_stream_that_waits_for_an_item(bridge: Bridge) -> None:
    ended: list[bool] = []

    async def silent() -> AsyncGenerator[int]:
        try:
            await asyncio.sleep(60)
            yield 1
        finally:
            ended.append(True)

    stream = bridge.iterate(silent)
    with anyio.move_on_after(0.02):
        await anext(stream)
    await stream.aclose()
    assert ended == [True]


async def test_work_runs_in_the_callers_context(bridge: Bridge) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("trace")
    variable.set("mine")

    async def look() -> str:
        await anyio.lowlevel.checkpoint()  # knows that it runs on asyncio, also where the caller runs on trio
        return variable.get()

    assert await bridge.call(look) == "mine"


async def test_a_forgotten_bridge_gives_its_thread_up() -> None:
    bridge = Bridge()
    await made(bridge)
    del bridge
    gc.collect()
    deadline = time.monotonic() + 5
    while bridge_threads() and time.monotonic() < deadline:
        await anyio.sleep(0.01)
    assert bridge_threads() == []


def test_many_callers_at_once() -> None:
    async def main() -> None:
        bridge = Bridge()
        sdk = await made(bridge)
        async with anyio.create_task_group() as group:
            for _ in range(200):
                group.start_soon(bridge.call, sdk.answer)
        await bridge.aclose()

    trio.run(main)
