"""How long an agent lives, and what goes with it."""

import sys
import time
from pathlib import Path

import anyio
import pytest
from sandboxio.agent.bootstrap import STATUS_LIFETIME, STATUS_OWNER_GONE, agent_argv
from sandboxio.agent.session import AgentUnfit, open_agent
from sandboxio.errors import SandboxGone
from sandboxio.port import Session

from .harness import (
    AS_FIRST_PROCESS,
    PATIENCE,
    Local,
    can_be_first_process,
    end,
    eventually,
    finished,
    is_alive,
    local_agent,
    read_line,
    running,
)

pytestmark = pytest.mark.anyio
first_process = pytest.mark.skipif(not can_be_first_process(), reason="no process namespace can be made here")


async def test_the_session_is_one(agent: Local) -> None:
    session: Session = agent.session
    assert session.info()["transport"] == "agent"


async def test_the_end_of_the_stream_ends_the_agent_and_all_it_started(tmp_path: Path) -> None:
    async with local_agent(workdir=str(tmp_path)) as agent:
        left = int((await finished(await agent.start("sh", "-c", "setsid sleep 600 & echo $!"))).stdout)
        driver = await agent.start("sh", "-c", "trap '' TERM; echo $$; sleep 600")
        running = int(await read_line(driver))
        await agent.session.aclose()
        assert await agent.ended() == STATUS_OWNER_GONE
        assert [is_alive(pid) for pid in (left, running)] == [False, False]
        with pytest.raises(SandboxGone):
            await driver.wait()
        with pytest.raises(SandboxGone):
            await agent.run("true")
        await agent.session.aclose()


async def test_a_killed_agent_takes_its_commands_along(tmp_path: Path) -> None:
    async with local_agent(workdir=str(tmp_path)) as agent:
        driver = await agent.start("sh", "-c", "setsid sleep 600 & echo $!; sleep 600")
        left = int(await read_line(driver))
        end(agent.session.report.pid)
        with anyio.fail_after(PATIENCE):
            with pytest.raises(SandboxGone):
                await driver.wait()
        await eventually(lambda: not is_alive(left))


async def test_the_lifetime_ends_everything() -> None:
    started = time.monotonic()
    async with local_agent(lifetime=1.0) as agent:
        driver = await agent.start("sh", "-c", "echo $$; sleep 600")
        pid = int(await read_line(driver))
        with anyio.fail_after(PATIENCE):
            with pytest.raises(SandboxGone):
                await driver.wait()
        assert time.monotonic() - started >= 1.0
        assert await agent.ended() == STATUS_LIFETIME
        assert not is_alive(pid)


async def test_a_detached_agent_outlives_its_owner_until_its_lifetime(tmp_path: Path) -> None:
    async with local_agent(lifetime=2.0, workdir=str(tmp_path)) as agent:
        script = "while true; do echo $$ > pid; cat /dev/zero | head -c 1000000; sleep 0.01; done"
        await agent.start("sh", "-c", script)
        await agent.session.detach()
        await agent.session.aclose()
        await anyio.sleep(0.2)
        assert agent.process.returncode is None
        pid = int((tmp_path / "pid").read_text())
        (tmp_path / "pid").unlink()
        await eventually((tmp_path / "pid").exists)
        assert await agent.ended() == STATUS_LIFETIME
        assert not is_alive(pid)


async def test_a_further_agent_ends_with_its_stream_and_leaves_what_succeeded(tmp_path: Path) -> None:
    async with local_agent(owner_bound=False, workdir=str(tmp_path)) as agent:
        left = int((await finished(await agent.start("sh", "-c", "setsid sleep 600 & echo $!"))).stdout)
        running = int(await read_line(await agent.start("sh", "-c", "echo $$; sleep 600")))
        await agent.session.aclose()
        assert await agent.ended() == STATUS_OWNER_GONE
        await eventually(lambda: not is_alive(running))
        assert is_alive(left)
        end(left)


async def test_a_further_agent_that_was_let_go_of_leaves_with_its_last_command(tmp_path: Path) -> None:
    async with local_agent(owner_bound=False, workdir=str(tmp_path)) as agent:
        script = "echo $$; while [ ! -e stop ]; do echo more; sleep 0.01; done; echo done > end"
        running = int((await read_line(await agent.start("sh", "-c", script))).split()[0])
        await agent.session.detach()
        await agent.session.aclose()
        await anyio.sleep(0.2)
        assert agent.process.returncode is None
        assert is_alive(running)
        (tmp_path / "stop").touch()
        assert await agent.ended() == STATUS_OWNER_GONE
        assert (tmp_path / "end").read_text() == "done\n"


async def test_a_further_agent_that_was_let_go_of_leaves_at_once_if_nothing_runs() -> None:
    async with local_agent(owner_bound=False) as agent:
        await agent.run("true")
        await agent.session.detach()
        await agent.session.aclose()
        assert await agent.ended() == STATUS_OWNER_GONE


@first_process
@pytest.mark.parametrize("python", [sys.executable])
async def test_as_first_process_it_survives_every_attack_and_its_end_is_everybodys(python: str) -> None:
    async with local_agent(prefix=AS_FIRST_PROCESS, python=python) as agent:
        assert agent.session.report.pid == 1
        script = "for s in $(seq 1 64); do kill -$s 1 2>/dev/null; done; kill -9 -1"
        with anyio.fail_after(PATIENCE):
            await finished(await agent.start("sh", "-c", script))
        assert (await agent.run("echo", "on")).stdout == b"on\n"
        assert (await agent.run("sh", "-c", "ls /proc | grep -c '^[0-9]'")).exit.code == 0
        await agent.run("sh", "-c", "setsid sleep 6001 &")
        with anyio.fail_after(PATIENCE):
            await agent.session.aclose()
            await agent.ended()
    assert running("sleep\x006001") == []


@first_process
async def test_zombies_do_not_pile_up() -> None:
    async with local_agent(prefix=AS_FIRST_PROCESS) as agent:
        await agent.run("sh", "-c", "for i in $(seq 50); do (setsid true &) ; done; wait")
        for _ in range(5):
            await agent.run("true")
        count = "n=0; for f in /proc/[0-9]*/stat; do case $(cat $f 2>/dev/null) in *') Z '*) n=$((n+1));; esac; done; echo $n"
        with anyio.fail_after(PATIENCE):
            while int((await agent.run("sh", "-c", count)).stdout) > 1:
                await anyio.sleep(0.01)


@pytest.mark.parametrize(
    "argv",
    [("true",), ("sh", "-c", "echo this is no agent; cat >/dev/null"), ("sh", "-c", "cat >/dev/null; echo late")],
)
async def test_what_is_no_agent_is_unfit(argv: tuple[str, ...]) -> None:
    from anyio.streams.stapled import StapledByteStream

    process = await anyio.open_process(argv)
    assert process.stdin is not None
    assert process.stdout is not None
    with pytest.raises(AgentUnfit) as caught:
        await open_agent(StapledByteStream(process.stdin, process.stdout), lifetime=10, boot_timeout=0.5)
    assert caught.value.reason
    with anyio.move_on_after(5):
        await process.wait()
    await process.aclose()


async def test_nothing_secret_stands_in_the_program_that_the_engine_sees() -> None:
    assert agent_argv()[:4] == ("python3", "-I", "-S", "-c")
    assert len(agent_argv()) == 5
    assert len(agent_argv()[4]) < 1000
