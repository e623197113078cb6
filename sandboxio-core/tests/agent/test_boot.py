"""What the agent sees at boot, and how it closes itself to the code that it runs."""

import os
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from sandboxio.agent.report import BootReport

from .harness import AS_NOBODY, IS_ROOT, Local, local_agent
from .test_kill import without_ctypes

pytestmark = pytest.mark.anyio
as_nobody = pytest.mark.skipif(not IS_ROOT, reason="only root can become nobody")

ATTACKS = r"""
import os, sys
agent = int(sys.argv[1])
for pid in (agent, os.getppid()):
    for name in ("mem", "environ", "maps", "fd/0", "fd/1", "fd/3", "auxv"):
        try:
            os.open("/proc/%d/%s" % (pid, name), os.O_RDONLY)
            print("opened", pid, name)
        except OSError as error:
            assert error.errno in (13, 2, 1), error
    try:
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.ptrace(16, pid, 0, 0) == 0:
            print("traced", pid)
    except ImportError:
        pass
print("done")
"""

FILTERED = r"""
import ctypes, errno, socket
libc = ctypes.CDLL(None, use_errno=True)
for family in range(46):
    try:
        socket.socket(family, socket.SOCK_DGRAM).close()
        print(family, "possible")
    except OSError as error:
        if family in (1, 2, 10, 16):
            print(family, error.errno)
        else:
            assert error.errno == errno.EAFNOSUPPORT, (family, error)
for number in (425, 426, 427):
    assert libc.syscall(number, 1, 0) == -1 and ctypes.get_errno() == errno.EPERM, number
"""


async def test_the_same_python_takes_the_agent_compiled(tmp_path: Path) -> None:
    async with local_agent(same_python=True) as agent:
        assert (await agent.python("print(6 * 7)")).stdout == b"42\n"
        assert [entry.path for entry in await agent.session.list(str(tmp_path))] == []


async def test_the_same_python_takes_it_compiled_when_it_starts_a_second_time() -> None:
    async with local_agent(same_python=True, program=without_ctypes()) as agent:
        assert agent.session.report.dumpable == "memfd"
        assert (await agent.python("print(6 * 7)")).stdout == b"42\n"


async def test_the_report_says_what_is_seen(agent: Local, tmp_path: Path) -> None:
    report = agent.session.report
    assert report.python == ".".join(str(part) for part in sys.version_info[:3])
    assert (report.uid, report.gid) == (os.geteuid(), os.getegid())
    assert report.uid_map == " ".join(Path("/proc/self/uid_map").read_text().split())
    assert report.interfaces is not None
    assert "lo" in report.interfaces
    assert (report.cwd, report.workdir, report.has_shell) == (str(tmp_path), "present", True)
    assert (report.has_ctypes, report.subreaper, report.dumpable) == (True, True, "prctl")
    assert report.no_new_privileges, "without it the filter could not have been installed"
    assert agent.session.info()["boot"] == asdict(report)


async def test_the_working_directory_is_made(tmp_path: Path) -> None:
    async with local_agent(workdir=str(tmp_path / "a" / "b")) as agent:
        assert agent.session.report.workdir == "made"
        assert (await agent.run("pwd")).stdout.decode().strip() == str(tmp_path / "a" / "b")


async def test_a_working_directory_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with local_agent(workdir=str(tmp_path / "file" / "b")) as agent:
        assert agent.session.report.workdir == "Not a directory"
        assert (await agent.run("pwd")).stdout == b"/\n"


async def test_without_a_wish_the_agents_own_directory_is_the_default(tmp_path: Path) -> None:
    async with local_agent(cwd=tmp_path) as agent:
        assert agent.session.report.cwd == str(tmp_path)


async def test_the_filter_refuses_other_socket_families_io_uring_and_foreign_calls(agent: Local) -> None:
    report = agent.session.report
    assert (report.seccomp, report.vsock, report.io_uring, report.foreign) == ("on", "refused", "refused", "refused")
    result = await agent.python(FILTERED)
    assert result.exit.code == 0, result
    assert b"\n1 possible" in b"\n" + result.stdout
    assert b"\n2 possible" in b"\n" + result.stdout


@as_nobody
async def test_user_code_of_the_same_user_reads_no_memory_and_no_descriptor() -> None:
    async with local_agent(python="/usr/bin/python3", prefix=AS_NOBODY) as agent:
        assert (agent.session.report.memory_closed, agent.session.report.capabilities) == (True, 0)
        result = await agent.run("/usr/bin/python3", "-c", ATTACKS, str(agent.session.report.pid))
        assert (result.stdout, result.exit.code) == (b"done\n", 0), result


@as_nobody
async def test_without_ctypes_a_copy_that_cannot_be_read_closes_the_memory() -> None:
    async with local_agent(python="/usr/bin/python3", prefix=AS_NOBODY, program=without_ctypes()) as agent:
        report = agent.session.report
        assert (report.has_ctypes, report.dumpable, report.memory_closed) == (False, "memfd", True)
        assert (report.subreaper, report.io_uring, report.foreign) == (False, "unknown", "unknown")
        assert "ctypes" in report.seccomp
        result = await agent.run("/usr/bin/python3", "-c", ATTACKS, str(report.pid))
        assert (result.stdout, result.exit.code) == (b"done\n", 0), result


@as_nobody
async def test_where_memory_can_be_read_the_report_says_so() -> None:
    async with local_agent() as agent:  # root with every capability may trace anybody
        assert agent.session.report.memory_closed is False


async def test_a_report_is_compared_by_value(agent: Local) -> None:
    report: BootReport = agent.session.report
    assert replace(report) == report
