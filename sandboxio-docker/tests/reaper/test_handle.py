"""The owner's side: armed means acknowledged, a lost reaper is replaced and armed again, nothing waits for ever."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sandboxio_docker.endpoint import Endpoint
from sandboxio_docker.reaper import Reaper, ReaperUnavailable, handle, link, reaper_for

from .fake_engine import FakeEngine, until
from .owner import descriptors, is_alive

DAY = 86_400.0
# Newer Pythons warn of what these tests are about.
FORKS = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def later(seconds: float = DAY) -> float:
    return time.time() + seconds


def end_reaper(reaper: Reaper, number: signal.Signals = signal.SIGKILL) -> int:
    link = reaper._link
    assert link is not None
    os.kill(link.pid, number)
    if number is signal.SIGKILL:
        until(link._has_ended)  # its threads end one by one, its pipe with the last of them
    return link.pid


def test_nothing_is_started_before_something_is_expected(reaper: Reaper) -> None:
    reaper.forget("sbx-1")
    reaper.busy("sbx-1", True)
    with pytest.raises(ReaperUnavailable, match="not told to expect"):
        reaper.detach("sbx-1")
    assert reaper.status("sbx-1") is None
    assert reaper.pid is None


def test_one_reaper_per_engine_whether_or_not_its_version_is_known(engine: FakeEngine) -> None:
    assert reaper_for(engine.endpoint) is reaper_for(engine.endpoint.with_version("1.41"))
    assert reaper_for(engine.endpoint) is not reaper_for(Endpoint("tcp://localhost:1"))


def test_what_was_never_expected_is_refused(reaper: Reaper) -> None:
    with pytest.raises(ReaperUnavailable, match="not told to expect 'x'"):
        reaper.have("x", "1")
    with pytest.raises(ReaperUnavailable, match="not told to expect 'x'"):
        reaper.network("x", "1")
    with pytest.raises(ReaperUnavailable, match="not told to expect 'x'"):
        reaper.disk("x", 1)


@pytest.mark.parametrize("name", ["", "../volumes/x", "a/b", "a?force=1", "a b", "-a", "a" * 129])
def test_a_name_that_would_address_another_object_is_refused(reaper: Reaper, name: str) -> None:
    with pytest.raises(ValueError, match="not a container's or network's name or id"):
        reaper.expect(name, later())


@pytest.mark.parametrize("expires_at", [float("nan"), float("inf"), float("-inf")])
def test_a_deadline_that_never_comes_is_refused(reaper: Reaper, expires_at: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        reaper.expect("sbx-1", expires_at)


def test_a_killed_reaper_is_replaced_and_armed_with_all_that_lives(engine: FakeEngine, reaper: Reaper) -> None:
    for number in (1, 2, 3):
        reaper.expect(f"sbx-{number}", later(2 if number == 1 else DAY))
        reaper.have(f"sbx-{number}", engine.create(f"sbx-{number}"))
    reaper.forget("sbx-3")
    old = end_reaper(reaper)
    reaper.expect("sbx-4", later())
    assert reaper.pid != old
    engine.wait(lambda: {c.name for c in engine.containers.values()} == {"sbx-2", "sbx-3"})
    assert reaper.status("sbx-1") == "lifetime"


def test_what_this_process_answers_for_is_not_joined(engine: FakeEngine, reaper: Reaper) -> None:
    reaper.expect("sbx-1", later(0.5))
    assert reaper.join("sbx-1", "c1", later(), None) is False
    assert reaper.join("sbx-2", engine.create("sbx-2"), later(), 1000) is True
    assert reaper.join("sbx-2", "c2", later(), None) is False


def test_a_join_or_detach_that_is_not_confirmed_changes_nothing(
    reaper: Reaper, monkeypatch: pytest.MonkeyPatch
) -> None:
    reaper.expect("sbx-1", later())
    end_reaper(reaper)

    def fail(endpoint: Endpoint, timeout: float) -> link.Link:
        raise ReaperUnavailable("no process can be had")

    monkeypatch.setattr(handle, "start", fail)
    with pytest.raises(ReaperUnavailable):
        reaper.join("sbx-2", "c2", later(), None)
    with pytest.raises(ReaperUnavailable):
        reaper.detach("sbx-1")
    assert [(claim.name, claim.detached) for claim in reaper._claims.values()] == [("sbx-1", False)]


CALLS: dict[str, Callable[[Reaper], object]] = {
    "have": lambda reaper: reaper.have("sbx-1", "c1"),
    "network": lambda reaper: reaper.network("sbx-1", "n1"),
    "disk": lambda reaper: reaper.disk("sbx-1", 2000),
    "busy": lambda reaper: reaper.busy("sbx-1", True),
    "detach": lambda reaper: reaper.detach("sbx-1"),
    "status": lambda reaper: reaper.status("sbx-1"),
}


@pytest.mark.parametrize("call", CALLS)
def test_every_call_that_matters_notices_a_killed_reaper(engine: FakeEngine, reaper: Reaper, call: str) -> None:
    reaper.expect("sbx-1", later())
    reaper.disk("sbx-1", 1000)
    old = end_reaper(reaper)
    CALLS[call](reaper)
    assert reaper.pid not in (old, None)


def test_forget_notices_a_killed_reaper_without_starting_another(reaper: Reaper) -> None:
    reaper.expect("sbx-1", later())
    end_reaper(reaper)
    reaper.forget("sbx-1")
    assert reaper.pid is None


def test_a_reaper_that_does_not_answer_is_replaced_and_never_reaps(engine: FakeEngine) -> None:
    reaper = Reaper(engine.endpoint, answer_s=1.0)
    reaper.expect("sbx-1", later())
    reaper.have("sbx-1", engine.create("sbx-1"))
    stopped = end_reaper(reaper, signal.SIGSTOP)
    begun = time.monotonic()
    reaper.expect("sbx-2", later())
    assert 1.0 <= time.monotonic() - begun < 20.0
    assert not is_alive(stopped)  # and so can't take our closing its pipe for our end
    assert reaper.status("sbx-1") is None
    assert len(engine.containers) == 1
    reaper._drop_link()


def test_a_stopped_reaper_does_not_block_what_needs_no_answer(reaper: Reaper) -> None:
    reaper.expect("sbx-1", later())
    reaper.disk("sbx-1", 1000)
    stopped = end_reaper(reaper, signal.SIGSTOP)
    begun = time.monotonic()
    for number in range(10_000):
        reaper.busy("sbx-1", number % 2 == 0)
    assert time.monotonic() - begun < 20.0
    assert not is_alive(stopped)  # its pipe was full: replaced


def test_no_ack_means_not_armed(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """REA-01."""
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexec sleep 60\n")
    silent.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(silent))
    reaper = Reaper(engine.endpoint, answer_s=0.3)
    begun = time.monotonic()
    with pytest.raises(ReaperUnavailable, match=r"doesn't start: no answer within 0.3 s"):
        reaper.expect("sbx-1", later())
    assert time.monotonic() - begun < 20.0
    with pytest.raises(ReaperUnavailable, match="not told to expect"):
        reaper.have("sbx-1", "c1")


@pytest.mark.parametrize("program", ["", "/bin/true", "/bin/false", "/nonexistent"])
def test_what_is_no_python_is_no_reaper(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(sys, "executable", program)
    with pytest.raises(ReaperUnavailable, match="the reaper doesn't start"):
        Reaper(engine.endpoint).expect("sbx-1", later())


def test_a_frozen_program_does_not_start_itself(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(ReaperUnavailable, match="needs a POSIX system and a Python interpreter"):
        Reaper(engine.endpoint).expect("sbx-1", later())


def test_unreadable_tls_files_are_told_at_once() -> None:
    reaper = Reaper(Endpoint("https://localhost:1", ca="/nonexistent/ca.pem"))
    with pytest.raises(ReaperUnavailable, match="FileNotFoundError"):
        reaper.expect("sbx-1", later())


def test_a_jump_of_the_wall_clock_moves_no_deadline(reaper: Reaper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_000_000.0)
    monkeypatch.setattr(handle, "boot_clock", lambda: 50.0)
    reaper.expect("sbx-1", 1_000_300.0)
    for jumped in (0.0, 2_000_000.0):
        monkeypatch.setattr(time, "time", lambda jumped=jumped: jumped)
        end_reaper(reaper)
        reaper.disk("sbx-1", 1)  # arms a new reaper
        assert reaper._claims["sbx-1"].deadline == 350.0


@FORKS
def test_a_forked_child_has_no_expectations_and_a_reaper_of_its_own(engine: FakeEngine, reaper: Reaper) -> None:
    reaper.expect("sbx-1", later())
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            first, known = reaper.pid, len(reaper._claims)
            reaper.expect("sbx-2", later())
            os.write(write, f"{first} {known} {reaper.pid}".encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    told = os.read(read, 1000).decode().split(" ")
    second = int(told[2])
    assert told[:2] == ["None", "0"]
    assert second != reaper.pid
    engine.wait(lambda: engine.asked("GET", "/containers/sbx-2/") > 0)  # the child has ended, its reaper looks for it
    os.kill(second, signal.SIGKILL)
    os.close(read)
    os.close(write)
    assert reaper.status("sbx-1") is None


@FORKS
def test_a_fork_while_another_thread_waits_for_the_reaper_leaves_no_held_lock(reaper: Reaper) -> None:
    reaper.expect("sbx-1", later())
    end_reaper(reaper, signal.SIGSTOP)
    waiting = threading.Thread(target=reaper.status, args=["sbx-1"])
    waiting.start()
    until(reaper._lock.locked)
    child = os.fork()
    if child == 0:
        try:
            reaper.forget("sbx-1")
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert reaper.pid is not None
    os.kill(reaper.pid, signal.SIGCONT)
    waiting.join(10)
    assert not waiting.is_alive()


def test_an_interrupted_call_leaves_the_next_one_its_own_answer(reaper: Reaper) -> None:
    reaper.expect("sbx-1", later())
    assert reaper._link is not None
    reaper._link._sock.sendall(b'{"n":99,"do":"status","name":"sbx-1"}\n')  # as if asked and never read
    reaper.expect("sbx-2", later(-1))
    assert reaper.status("sbx-2") in ("lifetime", None)


def test_the_reaper_holds_little_and_nothing_of_its_owner(
    engine: FakeEngine, reaper: Reaper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "s3cret")
    inheritable, other = os.pipe()
    os.set_inheritable(inheritable, True)
    reaper.expect("sbx-1", later(-1))
    engine.wait(lambda: len(engine.log) > 2)  # all threads have worked
    proc = Path(f"/proc/{reaper.pid}")
    kinds = descriptors(int(proc.name))
    os.close(inheritable)
    os.close(other)
    assert set(kinds) <= {"/dev/null", "anon_inode", "pipe", "socket"}
    assert kinds.count("/dev/null") == 3
    assert kinds.count("pipe") == 2  # its own, by which threads wake it
    assert str((proc / "cwd").readlink()) == "/"
    assert b"SECRET" not in (proc / "environ").read_bytes()
    resident = next(line for line in (proc / "status").read_text().splitlines() if line.startswith("VmRSS"))
    assert int(resident.split()[1]) <= 20 * 1024
    mapped = (proc / "maps").read_text()
    assert "site-packages" not in mapped


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_only_a_reaper_that_holds_nothing(reaper: Reaper, number: signal.Signals) -> None:
    reaper.expect("sbx-1", later())
    held = end_reaper(reaper, number)
    assert reaper.status("sbx-1") is None
    assert reaper.pid == held
    assert is_alive(held)
    reaper.forget("sbx-1")
    until(lambda: _ends_by(held, number))


def _ends_by(pid: int, number: signal.Signals) -> bool:
    if is_alive(pid):
        os.kill(pid, number)  # again: `forget` may not have been read before the first one
    return not is_alive(pid)


@pytest.mark.parametrize(
    "line", [b"no json\n", b"[]\n", b"{}\n", b'{"n":1,"do":"expect","claim":{}}\n', b"\0" * 70_000]
)
def test_garbage_on_its_pipe_does_not_end_a_reaper(reaper: Reaper, line: bytes) -> None:
    reaper.expect("sbx-1", later())
    assert reaper._link is not None
    held = reaper.pid
    reaper._link._sock.sendall(line + b"\n")
    assert reaper.status("sbx-1") is None
    assert reaper.pid == held
