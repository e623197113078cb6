"""Output: flow control, cancellation, and the end of streams."""

import sys
import tracemalloc
from pathlib import Path

import anyio
import pytest
from sandboxio.agent.protocol import WINDOW
from sandboxio.port import Exit

from .harness import PATIENCE, Local, end, eventually, finished, is_alive, read_line

pytestmark = pytest.mark.anyio

MEBI = 1 << 20
WRITER = "import os,sys\nfor i in range(int(sys.argv[1])): os.write(1, b'%016d' % i * 4096)"


async def test_a_hundred_megabytes_come_whole_and_in_order(agent: Local) -> None:
    driver = await agent.start(sys.executable, "-c", WRITER, "1600")
    size = 0
    expected = b""
    with anyio.fail_after(4 * PATIENCE):
        while (chunk := await driver.receive()) is not None:
            expected += chunk.data
            while len(expected) >= 65536:
                assert expected.startswith(b"%016d" % (size // 65536) * 4096)
                expected = expected[65536:]
                size += 65536
    assert (size, expected) == (1600 * 65536, b"")
    assert await driver.wait() == Exit(0)


async def test_the_first_output_comes_before_the_command_ends(agent: Local) -> None:
    driver = await agent.start("sh", "-c", "echo first; read line; echo $line", stdin=True)
    assert await read_line(driver) == "first"
    await driver.send(b"second\n")
    assert await read_line(driver) == "second"
    assert (await finished(driver)).exit == Exit(0)


async def test_a_consumer_that_sleeps_stops_the_command_and_nobody_else(agent: Local, tmp_path: Path) -> None:
    code = "import os,sys\nfor i in range(3200):\n os.write(1, bytes(65536)); open(sys.argv[1], 'a').write('x')\nprint('end')"
    progress = tmp_path / "progress"
    driver = await agent.start(sys.executable, "-c", code, str(progress))
    tracemalloc.start()
    await eventually(lambda: progress.exists() and progress.stat().st_size * 65536 >= WINDOW)
    for _ in range(10):
        assert (await agent.run("true")).exit == Exit(0)
    other = await agent.start("sleep", "600")
    assert await other.kill() == "tree"
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # What the host granted, what the pipe holds, and one write that waits for room in it.
    assert progress.stat().st_size * 65536 <= WINDOW + 2 * 65536
    assert peak < 2 * MEBI
    with anyio.fail_after(4 * PATIENCE):
        assert len((await finished(driver)).stdout) == 3200 * 65536 + 4


async def test_single_bytes_of_both_streams_come_whole_and_in_order(agent: Local) -> None:
    code = "import os\nfor i in range(20000): os.write(1 + i % 2, b'%d' % (i // 2 % 10))"
    driver = await agent.start(sys.executable, "-c", code)
    await anyio.sleep(0.2)  # the window fills up with tiny pieces
    with anyio.fail_after(2 * PATIENCE):
        result = await finished(driver)
    assert result.stdout == result.stderr == b"0123456789" * 1000


async def test_cancelled_reads_lose_no_byte(agent: Local) -> None:
    driver = await agent.start(sys.executable, "-c", WRITER, "200")
    received: list[bytes] = []
    ended = cancelled = False
    with anyio.fail_after(2 * PATIENCE):
        while not ended:
            with anyio.move_on_after(0.0005) as scope:
                chunk = await driver.receive()
                ended = chunk is None
                if chunk is not None:
                    received.append(chunk.data)
            cancelled |= scope.cancelled_caught
    assert cancelled
    assert b"".join(received) == b"".join(b"%016d" % number * 4096 for number in range(200))


async def test_when_the_reader_is_cancelled_another_waiter_reads_on(agent: Local) -> None:
    first = await agent.start("sleep", "600")
    second = await agent.start("sh", "-c", "read line; echo $line", stdin=True)
    lines: list[str] = []

    async def read_second() -> None:
        lines.append(await read_line(second))

    async with anyio.create_task_group() as group:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as readers:
                readers.start_soon(first.receive)
                await anyio.wait_all_tasks_blocked()
                group.start_soon(read_second)
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        await second.send(b"on\n")
    assert lines == ["on"]
    await first.kill()


async def test_wait_drops_and_counts_what_nobody_read(agent: Local) -> None:
    driver = await agent.start("sh", "-c", "head -c 3000000 /dev/zero; exit 4")
    with anyio.fail_after(PATIENCE):
        assert await driver.wait() == Exit(4)
    assert driver.discarded_bytes == 3_000_000
    assert await driver.receive() is None


async def test_a_background_child_that_holds_the_pipes_does_not_delay_the_end_and_lives_on(
    agent: Local, tmp_path: Path
) -> None:
    pid_file, done = tmp_path / "pid", tmp_path / "done"
    script = f"(trap '' PIPE; echo $$; while [ ! -e {done} ]; do echo noise; done; head -c 500000 /dev/zero; echo x > {done}2) & echo $! > {pid_file}; echo said"
    result = await agent.run("sh", "-c", script)
    assert result.exit == Exit(0)
    assert b"said\n" in result.stdout
    pid = int(pid_file.read_text())
    assert is_alive(pid)
    assert (await agent.run("true")).exit == Exit(0)
    done.touch()
    await eventually(lambda: Path(f"{done}2").exists())
    await eventually(lambda: not is_alive(pid))


async def test_all_that_the_command_itself_wrote_comes_although_a_child_holds_the_pipe(agent: Local) -> None:
    driver = await agent.start("sh", "-c", "head -c 300000 /dev/zero; sleep 600 & echo $! >&2")
    with anyio.fail_after(PATIENCE):
        result = await finished(driver)
    assert len(result.stdout) == 300_000
    end(int(result.stderr))


async def test_streams_that_were_closed_early_end_when_both_did(agent: Local) -> None:
    driver = await agent.start("sh", "-c", "exec >&- 2>&-; read line; exit 3", stdin=True)
    with anyio.fail_after(PATIENCE):
        assert await driver.receive() is None
    await driver.send(b"\n")
    with anyio.fail_after(PATIENCE):
        assert await driver.wait() == Exit(3)
