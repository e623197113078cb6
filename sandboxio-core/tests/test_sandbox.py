"""The sandbox as its owner holds it: whose it is, how it ends, what it says when it was forgotten."""

import asyncio
import gc
import os
import threading
import time
import warnings
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import anyio.to_thread
import pytest
import sandboxio
import trio
from sandboxio import ConfigurationError, OrphanedSandboxWarning, Sandbox, SandboxGone

from .interruptions import WAYS, interrupt
from .stub import Hold, StubBackend, raising, registered, stalling

T = TypeVar("T")
Runner = Callable[[Callable[[], Awaitable[object]]], object]


def on_asyncio(main: Callable[[], Awaitable[object]]) -> object:
    async def run() -> object:
        return await main()

    return asyncio.run(run())


def on_trio(main: Callable[[], Awaitable[object]]) -> object:
    return trio.run(main)


both_loops = pytest.mark.parametrize("run", [on_asyncio, on_trio], ids=["asyncio", "trio"])


@pytest.mark.anyio
async def test_enter_in_one_task_run_in_a_second_kill_in_a_third(stub: StubBackend, target: str) -> None:
    """LOOP-01."""
    made: list[Sandbox] = []

    async def enter() -> None:
        made.append(await sandboxio.create(target).__aenter__())

    async def use() -> None:
        assert (await made[0].run(["true"])).ok

    async def kill() -> None:
        await made[0].kill()

    for step in (enter, use, kill):
        async with anyio.create_task_group() as group:
            group.start_soon(step)
    assert stub.sandboxes == {}


@both_loops
def test_two_loops_one_after_the_other_share_one_backend(run: Runner) -> None:
    """LOOP-01, CON-06."""
    stub = registered()

    async def once() -> None:
        async with sandboxio.create(f"{stub.info.name}://") as sandbox:
            assert (await sandbox.run(["true"])).ok

    run(once)
    run(once)
    assert len(stub.made) == 2
    assert stub.sandboxes == {}


def test_loops_of_two_kinds_in_two_threads_share_one_backend() -> None:
    stub = registered()
    problems: list[BaseException] = []

    async def many() -> None:
        for _ in range(10):
            async with sandboxio.create(f"{stub.info.name}://") as sandbox:
                assert (await sandbox.run(["true"])).ok

    def guarded(run: Runner) -> None:
        try:
            run(many)
        except BaseException as error:  # noqa: BLE001 - it is judged by the test
            problems.append(error)

    threads = [threading.Thread(target=guarded, args=(run,)) for run in (on_asyncio, on_trio)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert problems == []
    assert len(stub.made) == 20
    assert stub.sandboxes == {}


@both_loops
def test_another_loop_may_not_use_a_sandbox(run: Runner) -> None:
    stub = registered()
    kept: list[Sandbox] = []

    async def make() -> None:
        kept.append(await sandboxio.create(f"{stub.info.name}://"))

    async def misuse() -> None:
        (sandbox,) = kept
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: sandbox.run(["true"]),
            lambda: sandbox.run_code("1"),
            lambda: sandbox.files.ls(),
            lambda: sandbox.stream(["true"]).__aenter__(),
            sandbox.kill,
        ]
        for call in calls:
            with pytest.raises(ConfigurationError, match="another event loop"):
                await call()

    run(make)
    run(misuse)
    assert stub.session.drivers == []
    assert len(stub.sandboxes) == 1
    with pytest.warns(ResourceWarning, match="never killed"):
        _forget(kept)


def _forget(kept: list[Sandbox]) -> None:
    kept.clear()
    gc.collect()


@pytest.mark.anyio
async def test_a_forked_child_may_not_use_a_sandbox_and_does_not_warn_of_it(stub: StubBackend, target: str) -> None:
    async with sandboxio.create(target) as sandbox:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:  # pragma: no cover - in the child
            os._exit(await _in_the_child(sandbox))
        _, status = await anyio.to_thread.run_sync(os.waitpid, child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert (await sandbox.run(["true"])).ok


async def _in_the_child(sandbox: Sandbox) -> int:
    refused = 0
    for call in (lambda: sandbox.run(["true"]), lambda: sandbox.files.ls(), sandbox.kill):
        try:
            await call()
        except ConfigurationError as error:
            refused += "forked" in str(error)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sandbox.__del__()
    return 0 if refused == 3 and not caught else 1


@both_loops
def test_a_sandbox_that_was_forgotten_alive_is_warned_of_once(run: Runner) -> None:
    stub = registered()

    async def make() -> None:
        await sandboxio.create(f"{stub.info.name}://")

    def forget() -> None:
        run(make)
        gc.collect()

    with pytest.warns(ResourceWarning, match="never killed") as caught:
        forget()
    assert len([one for one in caught if one.category is ResourceWarning]) == 1


@pytest.mark.anyio
async def test_a_sandbox_that_could_not_be_killed_is_warned_of_once(
    stub: StubBackend, target: str, short_grace: float
) -> None:
    stub.gates.at("destroy", "before", stalling)
    sandbox = await sandboxio.create(target)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        await sandbox.kill()
        del sandbox
        gc.collect()
    assert [one.category for one in caught] == [OrphanedSandboxWarning]


@pytest.mark.anyio
async def test_kill_is_idempotent(stub: StubBackend, target: str) -> None:
    sandbox = await sandboxio.create(target)
    for _ in range(3):
        await sandbox.kill()
    assert stub.calls.count("destroy") == 1
    assert stub.session.closed == 1


@pytest.mark.anyio
async def test_five_kills_at_once_are_one(stub: StubBackend, target: str) -> None:
    """KIL-01."""
    sandbox = await sandboxio.create(target)
    hold = Hold()
    stub.gates.at("destroy", "before", hold)
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(sandbox.kill)
        await hold.reached.wait()
        hold.release.set()
    assert stub.calls.count("destroy") == 1
    assert stub.session.closed == 1


@pytest.mark.anyio
async def test_five_kills_that_expire_warn_once_and_a_later_one_tries_again(
    stub: StubBackend, target: str, short_grace: float
) -> None:
    """KIL-03, TRD-03, TRD-04."""
    sandbox = await sandboxio.create(target, metadata={"tenant_id": "t1"})
    stub.gates.at("destroy", "before", stalling)
    started = time.monotonic()

    async def kill_five_times() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(sandbox.kill)

    with pytest.warns(OrphanedSandboxWarning) as caught:
        await kill_five_times()
    assert time.monotonic() - started < short_grace + 1
    assert len(caught) == 1
    assert all(part in str(caught[0].message) for part in (sandbox.id, stub.info.name, "tenant_id"))
    stub.gates.clear()
    await sandbox.kill()
    assert stub.sandboxes == {}


@pytest.mark.anyio
async def test_a_sandbox_that_the_provider_lost_is_killed_without_a_word(stub: StubBackend, target: str) -> None:
    sandbox = await sandboxio.create(target)
    stub.sandboxes.clear()
    await sandbox.kill()


@pytest.mark.anyio
async def test_a_removal_in_progress_is_waited_for(stub: StubBackend, target: str) -> None:
    sandbox = await sandboxio.create(target)
    stub.removal_looks = 1
    await sandbox.kill()
    assert stub.sandboxes == {}


@pytest.mark.anyio
async def test_a_session_that_does_not_close_holds_nobody_up_and_is_no_orphan(
    stub: StubBackend, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandboxio.destruction.CLOSE_BOUND", 0.1)
    sandbox = await sandboxio.create(target)
    stub.gates.at("aclose", "before", stalling)
    with anyio.fail_after(20):  # the session itself never closes
        await sandbox.kill()


@pytest.mark.anyio
async def test_a_grace_that_ends_while_a_session_closes_is_no_orphan(
    stub: StubBackend, target: str, short_grace: float
) -> None:
    sandbox = await sandboxio.create(target)
    stub.gates.at("aclose", "before", stalling)
    await sandbox.kill()
    assert stub.sandboxes == {}


@pytest.mark.anyio
async def test_a_session_that_fails_to_close_is_nobodys_error(stub: StubBackend, target: str) -> None:
    sandbox = await sandboxio.create(target)
    stub.gates.at("aclose", "before", raising(OSError("broken pipe")))
    await sandbox.kill()


@pytest.mark.anyio
@pytest.mark.parametrize("turned", [False, True])
async def test_the_bodys_exception_is_not_replaced_when_the_grace_ends(
    stub: StubBackend, target: str, short_grace: float, turned: bool
) -> None:
    """KIL-03 case 2; `turned`: also where a filter turns the warning into an error."""

    async def body() -> None:
        async with sandboxio.create(target):
            stub.gates.at("destroy", "before", stalling)
            raise ValueError("mine")

    with warnings.catch_warnings():
        warnings.simplefilter("error" if turned else "ignore", OrphanedSandboxWarning)
        with pytest.raises(ValueError, match="mine"):
            await body()


@pytest.mark.parametrize("way", WAYS)
def test_a_second_interruption_while_the_kill_waits_changes_nothing(way: str) -> None:
    """CAN-02, TRD-01: the block is left by an interruption, and the kill still ends the sandbox."""
    for at in range(1, 12):
        stub = registered()

        async def body(stub: StubBackend = stub) -> None:
            sandbox = await _made_with_care(stub)
            async with sandbox:
                pass

        outcome = interrupt(way, body, at)
        assert outcome.error is None
        assert outcome.surfaced == outcome.delivered
        assert stub.sandboxes == {}, f"left when interrupted at {at}"
        if not outcome.delivered:
            return


async def _made_with_care(stub: StubBackend) -> Sandbox:
    with anyio.CancelScope(shield=True):
        return await sandboxio.create(f"{stub.info.name}://")
    raise AssertionError("a shield swallows nothing")


@pytest.mark.anyio
async def test_a_run_in_flight_is_told_that_the_sandbox_was_killed(stub: StubBackend, target: str) -> None:
    sandbox = await sandboxio.create(target)
    hold = Hold()
    stub.gates.at("receive", "committed", hold)
    reasons: list[str] = []

    async def run() -> None:
        try:
            await sandbox.run(["hang"])
        except SandboxGone as error:
            reasons.append(error.reason)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await hold.reached.wait()
        await sandbox.kill()
        stub.gates.at("wait", "before", raising(SandboxGone("connection closed")))
        hold.release.set()
    assert reasons == ["killed"]


@pytest.mark.anyio
@pytest.mark.parametrize("skew", [-3600, 0, 3600])
async def test_the_providers_clock_may_be_wrong(stub: StubBackend, target: str, skew: float) -> None:
    """The lifetime began between the request and now, whatever the provider's clock says."""
    stub.clock_offset = skew
    async with sandboxio.create(target, timeout=100) as sandbox:
        assert 90 < sandbox._lease.lifetime_left() <= 100
        assert (await sandbox.run(["true"])).ok


@both_loops
def test_a_thousand_sandboxes_leave_no_task_and_no_thread(run: Runner) -> None:
    stub = registered()
    before = threading.active_count()
    tasks: list[int] = []

    async def cycle() -> None:
        for _ in range(1000):
            async with sandboxio.create(f"{stub.info.name}://"):
                pass
        tasks.append(_living_tasks(run is on_trio))

    run(cycle)
    assert stub.sandboxes == {}
    assert tasks[0] <= 1
    # Idle workers stay for some seconds, and how many worked at the same time is up to the machine.
    assert threading.active_count() < before + 100, "fewer than one thread for ten sandboxes"


def _living_tasks(on_trio_loop: bool) -> int:
    from sandboxio import teardown

    if on_trio_loop:
        system = trio.lowlevel.current_root_task()
        assert system is not None
        return sum(len(nursery.child_tasks) for nursery in system.child_nurseries) - 1
    return len(asyncio.all_tasks()) - 1 + len(teardown._alive)


@pytest.mark.anyio
async def test_a_sandbox_shows_itself_without_output_or_secret(target: str) -> None:
    async with sandboxio.create(target, timeout=300, secrets={"K": "s3cr3t-value"}) as sandbox:
        assert repr(sandbox) == f"<Sandbox {sandbox.backend} {sandbox.id[:12]} container deny 300s>"
        assert {item.policy for item in sandbox.policy} >= {"network.egress", "memory"}
        assert sandbox.cwd == "/"
        assert sandbox.expires_at > sandbox.created_at
