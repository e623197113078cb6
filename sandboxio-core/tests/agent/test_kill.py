"""Ending one command's tree, all of it and nothing else."""

import os
import sys
from pathlib import Path

import anyio
import pytest
from sandboxio.errors import ExecutionError, SandboxGone
from sandboxio.port import Exit

from .harness import (
    AS_FIRST_PROCESS,
    AS_NOBODY,
    IS_ROOT,
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

# Two processes that are others every millisecond, while a third one keeps their supervisor stopped.
ELUSIVE = r"""
import os, signal, sys, time
supervisor = os.getppid()

def elusive():
    while os.path.exists(sys.argv[1]):
        if os.fork():
            os._exit(0)
        with open(os.open(sys.argv[1], os.O_WRONLY), "w") as file:
            file.write("%020d" % os.getpid())
        time.sleep(0.0005)
    os._exit(0)

open(sys.argv[1], "w").close()
for _ in range(2):
    if os.fork() == 0:
        elusive()
print("ready", flush=True)
while os.path.exists(sys.argv[1]):
    os.kill(supervisor, signal.SIGSTOP)
    time.sleep(0.001)
"""

# Everything that was seen to survive some way of killing: a child with its own group, its own session, a double-forked
# daemon, one with an empty environment and closed descriptors, one that ignores signals, and one that is somebody else
# every two milliseconds.
TREE = r"""
import os, signal, sys, time
folder = sys.argv[1]

def note(name):
    with open(os.path.join(folder, name), "w") as file:
        file.write(str(os.getpid()))

def fork(name, *steps):
    if os.fork() == 0:
        for step in steps:
            step()
        note(name)
        time.sleep(600)
        os._exit(0)

def daemon():
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)

def bare():
    daemon()
    os.closerange(0, 64)
    os.execve(sys.executable, [sys.executable, "-c",
        "import os,time; open(%r,'w').write(str(os.getpid())); time.sleep(600)" % os.path.join(folder, "bare")], {})

def elusive():
    while True:
        if os.fork():
            os._exit(0)
        note("elusive")
        time.sleep(0.002)

def deaf():
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass

deaf()
fork("plain")
fork("group", os.setpgrp)
fork("session", os.setsid)
fork("daemon", daemon)
fork("bare", bare)
fork("elusive", elusive)
names = ["plain", "group", "session", "daemon", "bare", "elusive"]
while not all(os.path.exists(os.path.join(folder, name)) for name in names):
    time.sleep(0.01)
print("ready", flush=True)
time.sleep(600)
"""


async def test_no_kind_of_child_survives_and_a_bystander_goes_on(agent: Local, tmp_path: Path) -> None:
    bystander = await agent.start("sh", "-c", "while read line; do echo $line; done", stdin=True)
    driver = await agent.start(sys.executable, "-c", TREE, str(tmp_path))
    assert await read_line(driver) == "ready"
    with anyio.fail_after(PATIENCE):
        assert await driver.kill() == "tree"
        assert (await finished(driver)).exit == Exit(137, 9)
    assert survivors(tmp_path) == []
    await bystander.send(b"still here\n")
    assert await read_line(bystander) == "still here"
    await anyio.sleep(0.05)  # the elusive one would have been somebody else many times by now
    assert survivors(tmp_path) == []
    await bystander.close_stdin()
    assert (await finished(bystander)).exit == Exit(0)


def survivors(folder: Path) -> list[int]:
    """Return which of the tree's processes run, found by what they were started with."""
    return running(str(folder), set())


async def test_killing_a_command_that_ended_ends_what_it_left_behind(agent: Local) -> None:
    driver = await agent.start("sh", "-c", "setsid sleep 600 & echo $!")
    left = int((await finished(driver)).stdout)
    await eventually(lambda: is_alive(left))
    assert await driver.kill() == "tree"
    assert not is_alive(left)


async def test_killing_again_or_after_the_end_is_harmless(agent: Local) -> None:
    driver = await agent.start("sleep", "600")
    assert [await driver.kill(), await driver.kill()] == ["tree", "tree"]
    assert await driver.wait() == Exit(137, 9)
    other = await agent.start("true")
    assert (await finished(other)).exit == Exit(0)
    assert [await other.kill(), await other.kill()] == ["tree", "tree"]


async def test_concurrent_kills_all_return(agent: Local) -> None:
    driver = await agent.start("sleep", "600")
    answers: list[str] = []

    async def kill() -> None:
        answers.append(await driver.kill())

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(kill)
    assert answers == ["tree"] * 5


async def test_a_killed_command_with_a_sleeping_consumer_ends_its_streams(agent: Local) -> None:
    driver = await agent.start("cat", "/dev/zero")
    await driver.receive()
    with anyio.fail_after(PATIENCE):
        assert await driver.kill() == "tree"
        assert (await finished(driver)).exit == Exit(137, 9)


async def test_a_cancelled_kill_still_kills(agent: Local) -> None:
    driver = await agent.start("sh", "-c", "echo $$; sleep 600")
    pid = int(await read_line(driver))
    with anyio.CancelScope() as scope:
        scope.cancel()
        await driver.kill()
    await agent.run("true")  # somebody has to wait for the frame to be sent
    await eventually(lambda: not is_alive(pid))
    assert await driver.kill() == "tree"


@pytest.mark.parametrize("attack", ["kill -9 $PPID", "kill -STOP $PPID; sleep 600"])
async def test_attacks_on_the_supervisor_do_not_stop_the_end(agent: Local, attack: str, tmp_path: Path) -> None:
    driver = await agent.start("sh", "-c", f"sleep 601 & echo $!; read line; {attack}", stdin=True)
    child = int(await read_line(driver))
    await driver.send(b"\n")
    with anyio.fail_after(PATIENCE):
        answer = await driver.kill()
        result = await finished(driver)
    assert answer in ("tree", "sandbox")
    if answer == "tree":
        assert not is_alive(child)
    end(child)
    assert result.exit.code in (0, 137)
    assert (await agent.run("echo", "on")).stdout == b"on\n"


@pytest.mark.parametrize("attempt", range(3))
async def test_who_holds_its_supervisor_and_is_always_another_is_gone_or_said_not_to_be(
    agent: Local, attempt: int, tmp_path: Path
) -> None:
    """Seen once in sixty attempts while it was believed: a process that no list of children named lived on."""
    beat = tmp_path / "beat"
    driver = await agent.start(sys.executable, "{code}", str(beat), code=ELUSIVE.encode())
    await read_line(driver)
    with anyio.fail_after(PATIENCE):
        answer = await driver.kill()
    last = beat.read_text()
    await anyio.sleep(0.2)
    lived = beat.read_text() != last
    beat.unlink()  # ends who is left
    assert not (answer == "tree" and lived)


async def test_a_command_whose_supervisor_was_killed_still_reports_its_end(agent: Local) -> None:
    driver = await agent.start("sh", "-c", "read line; kill -9 $PPID; echo alone; exit 5", stdin=True)
    await driver.send(b"\n")
    with anyio.fail_after(PATIENCE):
        result = await finished(driver)
    assert result.stdout == b"alone\n"
    assert result.exit.code == 5


@pytest.mark.parametrize("attempt", range(5))
async def test_a_command_that_kills_its_supervisor_at_once_ends_with_it_or_goes_on(agent: Local, attempt: int) -> None:
    before = set(os.listdir("/proc"))
    try:
        result = await agent.run("sh", "-c", "kill -9 $PPID; setsid sleep 602 & echo alone; exit 5")
    except ExecutionError:
        await eventually(lambda: not running("sleep\x00602", before))
    else:
        assert (result.stdout, result.exit.code) == (b"alone\n", 5)
        end(*running("sleep\x00602", before))


@pytest.mark.parametrize("number", [9, 19])
async def test_a_waiting_supervisor_that_is_killed_or_stopped_costs_nobody_anything(agent: Local, number: int) -> None:
    children = Path(f"/proc/{agent.session.report.pid}/task/{agent.session.report.pid}/children")
    for _ in range(3):
        assert (await agent.run("echo", "on")).stdout == b"on\n"
        pids = [int(word) for word in children.read_text().split()]
        for pid in pids:
            os.kill(pid, number)
        if number == 9:
            while any(is_alive(pid) for pid in pids):
                await anyio.sleep(0.001)
    assert (await agent.run("echo", "on")).stdout == b"on\n"


async def test_signals_to_the_agent_are_ignored(agent: Local) -> None:
    pid = agent.session.report.pid
    numbers = [number for number in range(1, 65) if number not in (9, 19, 32, 33)]
    for number in numbers:
        os.kill(pid, number)
    assert (await agent.run("echo", "on")).stdout == b"on\n"


BLINDED = """
import os, resource, subprocess, sys
subprocess.Popen(["sleep", "600"], start_new_session=True)
refused = 0
for pid in (os.getppid(), 1):
    try:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    except OSError:
        refused += 1
print("refused", refused, flush=True)
import time
time.sleep(600)
"""


@first_process
async def test_no_other_process_is_left_without_descriptors() -> None:
    """`prlimit` asks for no more than the same user: an agent that can't list /proc could not find what to kill."""
    async with local_agent(prefix=AS_FIRST_PROCESS) as agent:
        driver = await agent.start(sys.executable, "-c", BLINDED)
        assert await read_line(driver) == "refused 2"
        assert await driver.kill() == "tree"


@first_process
async def test_an_agent_that_is_blinded_never_says_that_nothing_is_left() -> None:
    """Without ctypes there is no filter: who can't look ends with the sandbox."""
    async with local_agent(prefix=AS_FIRST_PROCESS, program=without_ctypes()) as agent:
        driver = await agent.start(sys.executable, "-c", BLINDED)
        assert await read_line(driver) == "refused 0"
        with anyio.fail_after(PATIENCE):
            try:
                assert await driver.kill() == "sandbox"
            except SandboxGone:
                await agent.ended()


SLOWED = """
import os
attempts = {
    "priority": lambda pid: os.setpriority(os.PRIO_PROCESS, pid, 19),
    "priority of the group": lambda pid: os.setpriority(os.PRIO_PGRP, pid, 19),
    "priority of the user": lambda pid: os.setpriority(os.PRIO_USER, 0, 19),
    "policy": lambda pid: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)),
    "parameters": lambda pid: os.sched_setparam(pid, os.sched_param(0)),
    "processors": lambda pid: os.sched_setaffinity(pid, {min(os.sched_getaffinity(0))}),
}
child = os.fork()
if child == 0:
    os.execvp("sleep", ["sleep", "600"])
os.setpgid(child, child)
for name, attempt in attempts.items():
    for whom, pid in {"agent": AGENT, "own": child}.items():
        try:
            attempt(pid)
            print(whom, name)
        except PermissionError:
            pass
"""


@first_process
async def test_nobody_makes_the_agent_wait_for_a_processor() -> None:
    """The kernel asks for no more than the same user; an idle agent beside a hundred busy processes ends nothing."""
    async with local_agent(prefix=AS_FIRST_PROCESS) as agent:
        result = await agent.python(SLOWED.replace("AGENT", "1"))
        assert result.stdout.decode().splitlines() == [
            f"own {name}" for name in ("priority", "priority of the group", "policy", "parameters", "processors")
        ], result.stderr


async def test_nor_a_further_agent_that_is_not_the_first_process(agent: Local) -> None:
    result = await agent.python(SLOWED.replace("AGENT", str(agent.session.report.pid)))
    assert b"agent priority\n" not in result.stdout
    assert b"agent policy\n" not in result.stdout
    assert b"own policy\n" in result.stdout


IN_FLIGHT = """
import array, os, resource, socket
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 200))]
kept = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(8)]
try:
    for sender, _ in kept * 8:
        sender.sendmsg([b"x"], rights)
except OSError as error:
    print(os.strerror(error.errno), flush=True)
import time
time.sleep(600)
"""


@pytest.mark.skipif(not IS_ROOT, reason="other users can't be had")
async def test_a_command_starts_while_a_neighbour_holds_all_descriptors_on_their_way() -> None:
    """The kernel counts those in flight by user, whatever the sandbox, and refuses to pass more (measured)."""
    alone = ("prlimit", "--nofile=256:256", *AS_NOBODY)
    python = "/usr/bin/python3"
    async with local_agent(python=python, prefix=alone) as neighbour, local_agent(python=python, prefix=alone) as agent:
        hostile = await neighbour.start(python, "-c", IN_FLIGHT)
        assert await read_line(hostile) == "Too many references: cannot splice"
        for _ in range(3):
            result = await agent.run("sh", "-c", "cat; echo out; echo err >&2; exit 3")
            assert (result.exit, result.stdout, result.stderr) == (Exit(3), b"out\n", b"err\n")
        assert (await agent.run(python, "{code}", code=b"print('code')")).stdout == b"code\n"
        assert await hostile.kill() == "tree"


@first_process
async def test_without_a_subreaper_an_escaped_process_makes_the_kill_say_sandbox() -> None:
    async with local_agent(prefix=AS_FIRST_PROCESS, program=without_ctypes()) as agent:
        assert not agent.session.report.subreaper
        assert agent.session.info()["kill"] == "sandbox"
        plain = await agent.start("sh", "-c", "sleep 600 & sleep 600")
        assert await plain.kill() == "tree"
        alone = await agent.start("sh", "-c", "(setsid sleep 601 &); echo ready; sleep 600")
        await read_line(alone)
        assert await alone.kill() == "tree"
        assert (await agent.run("sh", "-c", "cat /proc/[0-9]*/cmdline")).stdout.count(b"sleep") == 0
        other = await agent.start("sleep", "600")
        driver = await agent.start("sh", "-c", "(setsid sleep 600 &); echo ready; sleep 600")
        await read_line(driver)
        assert await driver.kill() == "sandbox"
        assert (await agent.run("echo", "on")).stdout == b"on\n"
        await other.kill()


def without_ctypes() -> str:
    """Return the bootstrap, run as by a Python that was built without ctypes."""
    from sandboxio.agent.bootstrap import agent_argv

    return "import sys; sys.modules['_ctypes'] = None\n" + agent_argv()[-1]
