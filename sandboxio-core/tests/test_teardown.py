"""Work that no cancellation may interrupt."""

import asyncio
import contextvars
import gc
import time
import weakref

import anyio
import anyio.lowlevel
import pytest
from sandboxio.errors import BackendUnavailable, ConfigurationError
from sandboxio.teardown import OwnTask, check_grace, finish, teardown_grace

from .interruptions import WAYS, interrupt

variable = contextvars.ContextVar("variable", default="unset")


class Recorder:
    """Counts how often a grace expired."""

    def __init__(self) -> None:
        self.expired = 0

    def __call__(self) -> None:
        self.expired += 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("at", [1, 2])
def test_finish_ends_its_work_and_then_lets_the_interruption_out(way: str, at: int) -> None:
    """TRD-02, CAN-02."""
    ended: list[float] = []
    expired = Recorder()
    started = time.monotonic()

    async def work() -> None:
        await anyio.sleep(0.15)
        ended.append(time.monotonic() - started)

    async def body() -> None:
        await anyio.lowlevel.checkpoint()
        await finish(work, 5, expired)

    outcome = interrupt(way, body, at)
    assert outcome.delivered
    assert outcome.surfaced
    assert outcome.error is None
    assert len(ended) == at - 1, "the first suspension is before the work began"
    assert not expired.expired


@pytest.mark.parametrize("way", WAYS)
def test_an_interrupted_finish_lasts_no_longer_than_its_grace(way: str) -> None:
    expired = Recorder()

    async def body() -> None:
        await finish(anyio.sleep_forever, 0.3, expired)

    started = time.monotonic()
    outcome = interrupt(way, body, 1)
    assert outcome.surfaced
    assert 0.25 < time.monotonic() - started < 3
    assert expired.expired == 1


@pytest.mark.parametrize("way", WAYS)
def test_waiting_for_the_end_does_not_spin(way: str) -> None:
    busy = 1.0

    async def body() -> None:
        nonlocal busy
        before = time.process_time()
        try:
            await finish(lambda: anyio.sleep(0.5), 5, Recorder())
        finally:
            busy = time.process_time() - before

    assert interrupt(way, body, 1).surfaced
    assert busy < 0.25, "the processor was busy while there was only waiting to do"


@pytest.mark.anyio
async def test_finish_returns_what_the_work_returned() -> None:
    async def work() -> int:
        return 7

    assert await finish(work, 1, Recorder()) == 7


@pytest.mark.anyio
async def test_an_error_of_the_work_is_raised() -> None:
    async def work() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await finish(work, 1, Recorder())


@pytest.mark.anyio
async def test_an_exit_in_the_work_reaches_the_caller_and_not_the_loop() -> None:
    async def work() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        await finish(work, 1, Recorder())
    await anyio.lowlevel.checkpoint()


@pytest.mark.anyio
async def test_expiry_gives_the_work_up_and_tells_once() -> None:
    cancelled = anyio.Event()
    expired = Recorder()

    async def work() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    await finish(work, 0.05, expired)
    assert expired.expired == 1
    with anyio.fail_after(30):
        await cancelled.wait()


@pytest.mark.anyio
async def test_several_who_wait_for_one_work_are_told_once() -> None:
    expired = Recorder()
    task = OwnTask(anyio.sleep_forever)
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(task.finish, 0.05, expired)
    assert expired.expired == 1


@pytest.mark.anyio
async def test_a_cancelled_wait_leaves_the_work_running() -> None:
    release = anyio.Event()

    async def work() -> str:
        await release.wait()
        return "done"

    task = OwnTask(work)
    with anyio.move_on_after(0.01):
        await task.wait()
    assert not task.done
    release.set()
    assert await task.wait() == "done"


def test_work_that_was_cancelled_from_within_cancels_nobody_else() -> None:
    """TRD-08 the other way round: a cancellation that nobody asked for is an error, not a cancellation."""

    async def work() -> None:
        raise asyncio.CancelledError

    async def main() -> None:
        with pytest.raises(BackendUnavailable):
            await OwnTask(work).wait()

    asyncio.run(main())


@pytest.mark.anyio
async def test_the_work_sees_the_context_variables_of_its_caller() -> None:
    async def work() -> str:
        return variable.get()

    token = variable.set("set")
    try:
        assert await finish(work, 1, Recorder()) == "set"
    finally:
        variable.reset(token)


def test_the_end_of_the_loop_does_not_cancel_work_that_somebody_waits_for() -> None:
    """`asyncio.run` cancels every task that it finds when the main one ends."""
    ended: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0.1)
        ended.append("work")

    async def waiter() -> None:
        await finish(work, 5, Recorder())

    async def main() -> None:
        task = asyncio.create_task(waiter())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not task.done()

    asyncio.run(main())
    assert ended == ["work"]


def test_work_that_was_given_up_is_ended_by_the_end_of_the_loop() -> None:
    seen: list[str] = []

    async def stubborn() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            seen.append("cleaned up")

    async def main() -> None:
        await finish(stubborn, 0.01, Recorder())

    asyncio.run(main())
    assert seen == ["cleaned up"]


def test_work_is_kept_alive_by_the_module() -> None:
    async def main() -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        reference = weakref.ref(future)

        async def work(future: "asyncio.Future[None]" = future) -> None:
            await future

        task = OwnTask(work)
        del future, work, task
        await asyncio.sleep(0)
        gc.collect()
        alive = reference()
        assert alive is not None
        alive.set_result(None)

    asyncio.run(main())


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "301", "soon"])
def test_a_wrong_grace_is_refused_before_anything_exists_and_never_prevents_a_teardown(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBX_TEARDOWN_GRACE", text)
    with pytest.raises(ConfigurationError, match="SBX_TEARDOWN_GRACE"):
        check_grace()
    assert teardown_grace() == 5


@pytest.mark.parametrize(("text", "seconds"), [("", 5), ("0.5", 0.5), ("300", 300)])
def test_the_grace_is_read_from_its_variable(text: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBX_TEARDOWN_GRACE", text)
    check_grace()
    assert teardown_grace() == seconds


@pytest.mark.anyio
async def test_a_callers_own_exception_is_not_replaced_by_the_end_of_the_grace() -> None:
    async def body() -> None:
        try:
            raise ValueError("mine")
        finally:
            await finish(anyio.sleep_forever, 0.01, Recorder())

    with pytest.raises(ValueError, match="mine"):
        await body()


@pytest.mark.anyio
async def test_a_warning_turned_into_an_error_does_not_hide_a_cancellation() -> None:
    def expiry() -> None:
        raise UserWarning("turned into an error")

    with anyio.CancelScope() as scope:
        scope.cancel()
        with pytest.raises(UserWarning):
            await finish(anyio.sleep_forever, 0.01, expiry)
        await anyio.lowlevel.checkpoint()
    assert scope.cancelled_caught
