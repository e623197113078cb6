"""The agent as first process of real containers: caps, counters, and what the engine leaves open."""

import contextlib
import uuid
from collections.abc import AsyncGenerator, Sequence
from typing import IO

import anyio
import pytest
from anyio.streams.stapled import StapledByteStream
from sandboxio.agent.bootstrap import agent_argv
from sandboxio.agent.session import open_agent
from sandboxio.errors import ConfigurationError, ResourceLimitExceeded
from sandboxio.port import Exit

from .harness import PATIENCE, Local, close, finished

pytestmark = [pytest.mark.anyio, pytest.mark.docker]

WITH_CTYPES = ["sandboxio-test/python", "sandboxio-test/user"]
IMAGES = [*WITH_CTYPES, "sandboxio-test/python-minimal"]
BOMB = b"import os\nwhile True:\n try: os.fork()\n except OSError: pass"


@contextlib.asynccontextmanager
async def contained(
    image: str,
    *given_back: str,
    options: Sequence[str] = (),
    disk: IO[bytes] | None = None,
    stderr: IO[bytes] | None = None,
) -> AsyncGenerator[Local]:
    """Run an agent in a container of its own, which is removed at the end; ``disk`` takes what it says of the disk."""
    name = f"sandboxio-agent-test-{uuid.uuid4().hex[:12]}"
    caps = ["--network=none", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--pids-limit=100", "--memory=192m"]
    caps += ["--memory-swap=192m", "--cpus=1", "--log-driver=none", "--rm", f"--name={name}", "-i", *options]
    caps += [f"--cap-add={one}" for one in given_back]
    process = await anyio.open_process(["docker", "run", *caps, image, *agent_argv()], stderr=disk or stderr)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        stream = StapledByteStream(process.stdin, process.stdout)
        session = await open_agent(stream, lifetime=300, watch_disk=disk is not None, boot_timeout=PATIENCE)
        try:
            yield Local(session, process)
        finally:
            with anyio.CancelScope(shield=True):
                await session.aclose()
    finally:
        with anyio.CancelScope(shield=True):
            await close(process)
            await anyio.run_process(["docker", "rm", "-f", name], check=False)


@pytest.mark.parametrize("image", IMAGES)
async def test_the_report_of_a_hardened_container(image: str) -> None:
    async with contained(image) as agent:
        report = agent.session.report
        assert (report.pid, report.interfaces, report.capabilities, report.bounding) == (1, ("lo",), 0, 0)
        assert (report.memory_closed, report.no_new_privileges, report.oom_score) == (True, True, True)
        assert report.counters == ("memory", "pids")
        assert report.has_ctypes == (image in WITH_CTYPES)
        assert report.vsock == ("refused" if report.has_ctypes else "possible")
        assert report.cwd == ("/home/agent" if image.endswith("user") else "/work")
        assert (await agent.run("sh", "-c", "touch here && cat /proc/self/oom_score_adj")).stdout == b"500\n"
        denied = await agent.run(
            "sh", "-c", "cat /proc/1/environ /proc/1/maps; ls -l /proc/1/fd/; echo x > /proc/1/fd/1"
        )
        assert b"->" not in denied.stdout
        assert denied.exit.code != 0
        assert (await agent.run("echo", "on")).stdout == b"on\n"


@pytest.mark.parametrize("image", IMAGES)
async def test_a_fork_bomb_is_refused_to_others_at_once_and_can_be_killed(image: str) -> None:
    async with contained(image) as agent:
        running = await agent.start("sh", "-c", "while read line; do echo $line; done", stdin=True)
        bomb = await agent.start("python3", "{code}", code=BOMB)
        refused: list[str] = []
        with anyio.fail_after(PATIENCE):
            while not refused:
                try:
                    await agent.run("true")
                except ResourceLimitExceeded as error:
                    refused.append(error.limit)
                await anyio.sleep(0.05)
            assert refused == ["pids"]
            await running.send(b"streams go on\n")
            chunk = await running.receive()
            assert chunk is not None
            assert chunk.data == b"streams go on\n"
            assert (await agent.session.stat("/etc")).is_dir
            killed = await bomb.kill()
            if image in WITH_CTYPES:
                assert killed == "tree"
            result = await finished(bomb)
            assert (result.exit.signal, result.exit.limit, "pids" in result.exit.limits_hit) == (9, None, True)
            if killed == "tree":  # else core ends the sandbox
                assert (await agent.run("echo", "on")).stdout == b"on\n"


@pytest.mark.parametrize("image", IMAGES)
async def test_only_the_command_that_memory_ended_is_convicted(image: str) -> None:
    async with contained(image) as agent:
        other = await agent.start("sh", "-c", "read line", stdin=True)
        with anyio.fail_after(2 * PATIENCE):
            hog = await agent.run("python3", "-c", "data = bytearray(1 << 30)")
            assert hog.exit == Exit(137, 9, "memory_mb", ("memory_mb",))
            await other.close_stdin()
            bystander = (await finished(other)).exit
            assert (bystander.limit, bystander.limits_hit) == (None, ("memory_mb",))
            assert (await agent.run("sh", "-c", "kill -9 $$")).exit == Exit(137, 9)


@pytest.mark.parametrize("image", ["sandboxio-test/python"])
async def test_the_agent_and_its_waiting_supervisors_stay_small(image: str) -> None:
    async with contained(image) as agent:
        for _ in range(20):
            await agent.run("true")
        # The command that looks is one process more; what it shares with nobody is not the agent's.
        script = "grep VmRSS /proc/1/status | tr -dc 0-9"
        assert int((await agent.run("sh", "-c", script)).stdout) <= 12 * 1024


SWITCH = ("SETUID", "SETGID", "KILL")
FAMILY = """
import os, sys, time
for step in range(3):
    if os.fork() == 0:
        if step: os.setsid()
        if step > 1 and os.fork(): os._exit(0)
        time.sleep(600)
print("ready", flush=True)
time.sleep(600)
"""
ATTACK = """
import os, signal
for pid in [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]:
    owner = os.stat("/proc/%d" % pid).st_uid
    for number in (signal.SIGSTOP, signal.SIGKILL):
        try: os.kill(pid, number); print("sent", pid, owner)
        except PermissionError: print("refused")
    for name in ("mem", "environ", "fd/0", "maps"):
        try: os.open("/proc/%d/%s" % (pid, name), os.O_RDONLY); print("opened", pid, name, owner)
        except OSError: print("refused")
"""


@pytest.mark.parametrize("image", ["sandboxio-test/python", "sandboxio-test/python-minimal"])
async def test_with_three_capabilities_a_command_runs_as_another_user_and_its_tree_ends_exactly(image: str) -> None:
    async with contained(image, *SWITCH) as agent:
        assert agent.session.report.capabilities == 1 << 5 | 1 << 6 | 1 << 7
        assert agent.session.report.memory_closed
        other = await agent.start("sh", "-c", "read line", stdin=True)
        driver = await agent.start("python3", "-c", FAMILY, user="65534")
        chunk = await driver.receive()
        assert chunk is not None
        assert chunk.data == b"ready\n"
        assert await _processes_of(agent, "65534") >= 4
        killed = await driver.kill()
        if image == "sandboxio-test/python":
            assert killed == "tree"
            assert await _processes_of(agent, "65534") == 0
            await other.close_stdin()
            assert (await finished(other)).exit.code == 1


async def _processes_of(agent: Local, user: str) -> int:
    count = "cat /proc/[0-9]*/status 2>/dev/null | grep -c '^Uid:.'$1 || true"
    return int((await agent.run("sh", "-c", count, "sh", user)).stdout)


async def test_another_users_processes_reach_neither_agent_nor_supervisor() -> None:
    async with contained("sandboxio-test/python", *SWITCH) as agent:
        waiting = await agent.start("sleep", "600", user="65533")
        attack = await agent.run("python3", "-c", ATTACK, user="65534")
        assert b"refused" in attack.stdout
        assert b"sent" not in attack.stdout
        assert b"opened" not in attack.stdout
        assert await waiting.kill() == "tree"
        capabilities = await agent.run("grep", "-E", "Cap(Eff|Prm|Inh|Amb)", "/proc/self/status", user="65534")
        assert set(capabilities.stdout.split()[1::2]) == {b"0" * 16}


SPY = """
import os
for pid in (1, os.getppid()):
    for name in ("mem", "environ", "maps", "fd/0", "fd/1"):
        for flags in (os.O_RDONLY, os.O_WRONLY):
            try: os.open("/proc/%d/%s" % (pid, name), flags); print("opened", pid, name)
            except OSError as error: print("refused")
"""


async def test_all_that_can_be_given_back_does_not_open_agent_or_supervisor() -> None:
    seven = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", *SWITCH)
    async with contained("sandboxio-test/python", *seven) as agent:
        assert agent.session.report.memory_closed
        assert agent.session.report.descriptors_closed
        spied = await agent.run("python3", "-c", SPY)
        assert (spied.stdout, spied.stderr) == (b"refused\n" * 20, b"")
    async with contained("sandboxio-test/python-minimal", "DAC_OVERRIDE") as agent:
        assert not agent.session.report.memory_closed  # so that such a sandbox is not served this way


async def test_without_them_the_fix_is_named() -> None:
    async with contained("sandboxio-test/python") as agent:
        with pytest.raises(ConfigurationError, match="not permitted") as caught:
            await agent.run("true", user="65534")
        assert "SETUID, SETGID and KILL" in caught.value.hint
        assert (await agent.run("id", "-u", user="root")).stdout == b"0\n"
