"""The second way to see the owner's end, with a pidfd and without."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from sandboxio_docker.reaper import owner_watch
from sandboxio_docker.reaper.owner_watch import OwnerWatch, process_start

from .fake_engine import until


@pytest.fixture
def process() -> Iterator["subprocess.Popen[bytes]"]:
    sleeping = subprocess.Popen(["sleep", "60"])
    yield sleeping
    sleeping.kill()
    sleeping.wait()


def no_pidfd(_pid: int) -> None:
    return None


@pytest.fixture(params=["pidfd", "start time", "number only"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "pidfd":
        monkeypatch.setattr(owner_watch, "_pidfd", no_pidfd)
    return str(request.param)


def watch(process: "subprocess.Popen[bytes]", way: str) -> OwnerWatch:
    return OwnerWatch(process.pid, None if way == "number only" else process_start(process.pid))


def test_a_living_owner_a_stopped_one_and_its_end(process: "subprocess.Popen[bytes]", way: str) -> None:
    watched = watch(process, way)
    assert (watched.fd is not None) == (way == "pidfd")
    assert not watched.ended()
    os.kill(process.pid, signal.SIGSTOP)
    assert not watched.ended()
    process.kill()
    if way == "number only":
        process.wait()  # without /proc a zombie can't be told from the living
    until(watched.ended)
    watched.close()


def test_another_process_of_the_same_number_is_not_the_owner(process: "subprocess.Popen[bytes]") -> None:
    assert OwnerWatch(process.pid, "1").ended()


def test_an_owner_that_has_ended_before_it_was_watched(way: str) -> None:
    brief = subprocess.Popen(["true"])
    started = process_start(brief.pid)
    brief.wait()
    assert OwnerWatch(brief.pid, None if way == "number only" else started or "1").ended()


def test_a_process_whose_main_thread_has_ended_lives() -> None:
    program = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=[60]).start()\n"
        "ctypes.CDLL(None).syscall(60, 0)\n"  # exit of this thread alone
    )
    if os.uname().machine != "x86_64":
        pytest.skip("the number of the system call is another one")
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        started = process_start(process.pid)
        until(lambda: "Z" in _state(process.pid))
        assert process_start(process.pid) == started
        assert not OwnerWatch(process.pid, started).ended()
        process.kill()


def test_a_name_with_brackets_and_blanks_is_no_obstacle(process: "subprocess.Popen[bytes]") -> None:
    program = "import ctypes; ctypes.CDLL(None).prctl(15, b') Z 1 2 ('); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as named:
        assert named.stdout is not None
        named.stdout.readline()
        start = process_start(named.pid)
        assert start is not None
        assert start.isdigit()
        assert int(start) > 1000
        named.kill()


def test_no_such_process_has_no_start() -> None:
    assert process_start(2**22 + 1) is None


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0]
