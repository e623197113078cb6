"""A watcher runs its command when its owner is gone, and not before."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from sandboxio.owner_watch import OwnerWatch

OWNER = """
import os, sys, time
from sandboxio.owner_watch import OwnerWatch
OwnerWatch(["touch", sys.argv[1]])
if os.fork() == 0:
    time.sleep(30)
    os._exit(0)
print("ready", flush=True)
time.sleep(30)
"""


def appears(path: Path, within: float = 15) -> bool:
    end = time.monotonic() + within
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.05)
    return path.exists()


def test_a_killed_owner_is_noticed_though_a_forked_child_lives_on(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path / "gone")], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert owner.stdout is not None
    with owner.stdout:
        assert owner.stdout.readline() == "ready\n"
        assert not appears(tmp_path / "gone", 1)
        owner.kill()  # not waited for: what is dead and not buried is gone all the same
        assert appears(tmp_path / "gone")
    with contextlib.suppress(ProcessLookupError):
        os.killpg(owner.pid, signal.SIGKILL)
    owner.wait()


def test_a_watch_that_was_closed_does_nothing_and_one_that_is_fired_does_it_now(tmp_path: Path) -> None:
    watch = OwnerWatch(["touch", str(tmp_path / "done")])
    watch.close()
    watch.close()
    assert not appears(tmp_path / "done", 0.5)
    watch.fire()
    assert appears(tmp_path / "done")
