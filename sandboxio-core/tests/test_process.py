"""Streams: one consumer, nothing lost, the tree gone when the block is left."""

from collections.abc import AsyncIterator

import anyio
import anyio.lowlevel
import pytest
import sandboxio
from sandboxio import (
    ConfigurationError,
    ExecutionTimeout,
    OutputChunk,
    Process,
    ResourceLimitExceeded,
    Sandbox,
    SandboxGone,
)
from sandboxio.port import Chunk, Exit

from .stub import Hold, Program, StubBackend, raising

pytestmark = pytest.mark.anyio

LETTERS = [Chunk("stdout", letter.encode()) for letter in "abcdef"]


@pytest.fixture
async def sandbox(stub: StubBackend, target: str) -> AsyncIterator[Sandbox]:
    stub.programs["letters"] = lambda command: Program(LETTERS)
    stub.programs["forever"] = lambda command: Program(LETTERS, hangs=True)
    made = await sandboxio.create(target)
    yield made
    stub.gates.clear()
    await made.kill()


def kills(stub: StubBackend) -> int:
    return sum(driver.kills for driver in stub.session.drivers)


async def test_chunks_come_in_order(sandbox: Sandbox) -> None:
    async with sandbox.stream(["letters"]) as proc:
        assert [chunk.data async for chunk in proc] == [b"a", b"b", b"c", b"d", b"e", b"f"]
        assert await proc.wait() == 0
        assert proc.returncode == 0
        assert proc.discarded_bytes == 0


async def test_the_first_chunk_comes_before_the_command_ends(sandbox: Sandbox, stub: StubBackend) -> None:
    """STR-01."""
    async with sandbox.stream(["forever"]) as proc:
        assert (await anext(proc)).data == b"a"
        assert stub.session.drivers[0].alive


@pytest.mark.parametrize("cmd", ["echo hi", ["sh", "-c", "echo hi"]])
async def test_a_string_without_a_shell_is_refused_and_a_list_is_an_exit_code(
    sandbox: Sandbox, stub: StubBackend, cmd: str | list[str]
) -> None:
    """EXE-07, as for `run`."""
    stub.programs["sh"] = lambda command: Program([Chunk("stderr", b"sh: not found\n")], Exit(127, started=False))
    async with sandbox.stream(cmd) as proc:
        if isinstance(cmd, list):
            assert await proc.wait() == 127
        else:
            with pytest.raises(ConfigurationError, match="no POSIX shell"):
                await proc.wait()


async def test_break_leaves_the_command_running_and_the_rest_unread(sandbox: Sandbox, stub: StubBackend) -> None:
    async with sandbox.stream(["forever"]) as proc:
        async for _ in proc:
            break
        assert stub.session.drivers[0].alive
        assert (await anext(proc)).data == b"b"
    assert kills(stub) == 1


@pytest.mark.parametrize("way", ["end", "exception", "cancellation"])
async def test_leaving_the_block_ends_the_tree(sandbox: Sandbox, stub: StubBackend, way: str) -> None:
    with anyio.CancelScope() as scope:
        try:
            async with sandbox.stream(["forever"]) as proc:
                await anext(proc)
                if way == "exception":
                    raise KeyError(way)
                if way == "cancellation":
                    scope.cancel()
                    await anyio.sleep_forever()
        except KeyError:
            assert way == "exception"
    assert scope.cancelled_caught == (way == "cancellation")
    assert kills(stub) == 1
    assert not stub.session.drivers[0].alive


async def test_a_command_that_ended_by_itself_is_not_killed(sandbox: Sandbox, stub: StubBackend) -> None:
    async with sandbox.stream(["letters"]) as proc:
        await proc.wait()
    async with sandbox.stream(["letters"]) as proc:
        assert len([chunk async for chunk in proc]) == 6
    assert kills(stub) == 0
    assert proc.returncode == 0


async def test_a_cancelled_read_loses_nothing(sandbox: Sandbox) -> None:
    seen: list[bytes] = []
    async with sandbox.stream(["forever"]) as proc:
        for _ in range(200):
            with anyio.CancelScope() as scope:
                scope.cancel()
                seen.append((await anext(proc)).data)
            with anyio.move_on_after(0.001):
                seen.append((await anext(proc)).data)
            if len(seen) == 6:
                break
    assert b"".join(seen) == b"abcdef"


async def test_a_second_concurrent_consumer_is_refused(sandbox: Sandbox, stub: StubBackend) -> None:
    hold = Hold()
    async with sandbox.stream(["forever"]) as proc:
        stub.gates.at("receive", "before", hold)
        async with anyio.create_task_group() as group:
            group.start_soon(anext, proc)
            await hold.reached.wait()
            for read in (lambda: anext(proc), proc.wait):
                with pytest.raises(ConfigurationError, match="one consumer"):
                    await read()
            hold.release.set()
        assert (await anext(proc)).data == b"b"


async def test_a_second_concurrent_wait_is_refused(sandbox: Sandbox, stub: StubBackend) -> None:
    hold = Hold()
    async with sandbox.stream(["letters"]) as proc:
        stub.gates.at("wait", "before", hold)
        async with anyio.create_task_group() as group:
            group.start_soon(proc.wait)
            await hold.reached.wait()
            with pytest.raises(ConfigurationError, match="one consumer"):
                await proc.wait()
            hold.release.set()


async def test_a_stream_is_entered_once(sandbox: Sandbox) -> None:
    proc = sandbox.stream(["letters"])
    async with proc:
        with pytest.raises(ConfigurationError, match="once"):
            await proc.__aenter__()
    with pytest.raises(ConfigurationError, match="once"):
        async with proc:
            pass


async def test_a_stream_that_was_not_entered_does_nothing(sandbox: Sandbox, stub: StubBackend) -> None:
    proc = sandbox.stream(["letters"])
    for call in (proc.wait, proc.kill, proc.close_stdin, lambda: proc.send(b"x"), lambda: anext(proc)):
        with pytest.raises(ConfigurationError, match="not entered"):
            await call()
    assert stub.session.drivers == []


async def test_waiting_drains_and_counts_what_it_drops(sandbox: Sandbox) -> None:
    async with sandbox.stream(["letters"]) as proc:
        await anext(proc)
        assert await proc.wait() == 0
        assert proc.discarded_bytes == 5
        assert await proc.wait() == 0


async def test_the_deadline_passes_while_the_consumer_sleeps(sandbox: Sandbox, stub: StubBackend) -> None:
    """What is ready then is not handed out as if it had been in time."""
    async with sandbox.stream(["forever"], timeout=0.1) as proc:
        await anext(proc)
        await anyio.sleep(0.15)
        for _ in range(2):
            with pytest.raises(ExecutionTimeout):
                await anext(proc)
        with pytest.raises(ExecutionTimeout):
            await proc.wait()
    assert kills(stub) == 1
    assert proc.returncode is None


async def test_a_stream_that_always_has_something_meets_its_deadline(sandbox: Sandbox, stub: StubBackend) -> None:
    stub.programs["yes"] = lambda command: Program([Chunk("stdout", b"y\n")], endless=True)
    async with sandbox.stream(["yes"], timeout=0.2) as proc:
        with anyio.fail_after(30), pytest.raises(ExecutionTimeout):
            await _consume(proc)
    assert kills(stub) == 1


async def test_a_stream_that_always_has_something_leaves_the_loop_to_others(
    sandbox: Sandbox, stub: StubBackend
) -> None:
    """CON-03."""
    stub.programs["yes"] = lambda command: Program([Chunk("stdout", b"y\n")], endless=True)
    async with sandbox.stream(["yes"], timeout=20) as proc:
        async with anyio.create_task_group() as group:
            group.start_soon(_consume, proc)
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        assert proc.returncode is None


async def _consume(proc: Process) -> None:
    async for _ in proc:
        pass


async def test_sending_meets_the_deadline_too(sandbox: Sandbox, stub: StubBackend) -> None:
    stub.programs["deaf"] = lambda command: Program(hangs=True, reads=0)
    async with sandbox.stream(["deaf"], timeout=0.1) as proc:
        with pytest.raises(ExecutionTimeout):
            await proc.send(b"x")
    assert kills(stub) == 1


async def test_the_lifetime_ends_a_stream(stub: StubBackend, target: str) -> None:
    stub.programs["forever"] = lambda command: Program(LETTERS, hangs=True)
    async with sandboxio.create(target, timeout=0.5) as sandbox:
        async with sandbox.stream(["forever"]) as proc:
            with pytest.raises(SandboxGone, match="lifetime"):
                await _consume(proc)


async def test_stdin_is_sent_and_ended(sandbox: Sandbox, stub: StubBackend) -> None:
    async with sandbox.stream(["forever"]) as proc:
        await proc.send(b"one ")
        await proc.send(bytearray(b"two"))
        await proc.close_stdin()
        driver = stub.session.drivers[0]
        assert (driver.received, driver.stdin_closed, driver.command.stdin) == (b"one two", True, True)


@pytest.mark.parametrize("data", ["text", 5, None])
async def test_only_bytes_are_sent(sandbox: Sandbox, stub: StubBackend, data: bytes) -> None:
    async with sandbox.stream(["forever"]) as proc:
        with pytest.raises(ConfigurationError, match="bytes"):
            await proc.send(data)
        assert stub.session.drivers[0].received == b""


async def test_killing_ends_the_tree_once_and_then_reading_is_over(sandbox: Sandbox, stub: StubBackend) -> None:
    stub.programs["forever"] = lambda command: Program(LETTERS, Exit(137, 9), hangs=True)
    async with sandbox.stream(["forever"]) as proc:
        await proc.kill()
        await proc.kill()
        assert [chunk async for chunk in proc] == []
        assert await proc.wait() == 137
    assert kills(stub) == 1


async def test_a_cap_that_ended_the_command_is_raised_each_time(sandbox: Sandbox, stub: StubBackend) -> None:
    stub.programs["eat"] = lambda command: Program(exit=Exit(137, 9, limit="memory_mb"))
    async with sandbox.stream(["eat"]) as proc:
        for _ in range(2):
            with pytest.raises(ResourceLimitExceeded, match="memory_mb = 512"):
                await proc.wait()


async def test_a_stream_of_a_dead_sandbox_starts_nothing(stub: StubBackend, target: str) -> None:
    sandbox = await sandboxio.create(target)
    await sandbox.kill()
    with pytest.raises(SandboxGone, match="killed"):
        async with sandbox.stream(["true"]):
            pass
    assert stub.session.drivers == []


async def test_a_kill_that_answers_sandbox_ends_the_sandbox(sandbox: Sandbox, stub: StubBackend) -> None:
    stub.programs["forever"] = lambda command: Program(LETTERS, hangs=True, killed="sandbox")
    async with sandbox.stream(["forever"]) as proc:
        await anext(proc)
    assert stub.sandboxes == {}


async def test_a_stream_that_dies_says_so(sandbox: Sandbox, stub: StubBackend) -> None:
    async with sandbox.stream(["forever"]) as proc:
        await anext(proc)
        stub.gates.at("receive", "before", raising(SandboxGone("removed", reason="disk_mb")))
        with pytest.raises(ResourceLimitExceeded, match="disk_mb"):
            await anext(proc)


async def test_any_task_may_read_send_and_leave(sandbox: Sandbox) -> None:
    """LOOP-01 for streams."""
    proc = sandbox.stream(["forever"])
    seen: list[OutputChunk] = []

    async def enter() -> None:
        await proc.__aenter__()

    async def read() -> None:
        seen.append(await anext(proc))

    async def leave() -> None:
        await proc.__aexit__(None, None, None)

    for step in (enter, read, leave):
        async with anyio.create_task_group() as group:
            group.start_soon(step)
    assert [chunk.data for chunk in seen] == [b"a"]
