"""A process of its own that owns sandboxes: the test has it call the reaper, fork, stop and die."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

from sandboxio_docker.endpoint import Endpoint

from .fake_engine import until


class Owner:
    """Drives `owner_program.py`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("owner_program.py")), endpoint.to_json()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        self.children: list[int] = []
        self.reapers: set[int] = set()

    def call(self, method: str, *arguments: object) -> object:
        """Have it call a method of its reaper, or one of the program's own verbs; return the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([method, *arguments]) + "\n")
        self._process.stdin.flush()
        answer: object = json.loads(self._process.stdout.readline())
        if method.startswith("expect"):
            _ = self.reaper  # known by its number, so that `end` ends it even if its engine is gone by then
        return answer

    def fork(self, *, keep_link: bool) -> int:
        """Have it fork a child that lives on; with ``keep_link`` one that keeps a copy of the reaper's pipe."""
        child = self.call("fork", keep_link)
        assert isinstance(child, int)
        self.children.append(child)
        return child

    @property
    def reaper(self) -> int:
        pid = self.call("pid")
        assert isinstance(pid, int)
        self.reapers.add(pid)
        return pid

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)

    def end(self) -> None:
        """End everything that this owner started."""
        self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        for pid in (*self.children, *self.reapers):
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
                until(partial(has_ended, pid))


def has_ended(pid: int) -> bool:
    return not is_alive(pid)


def descriptors(pid: int) -> list[str]:
    """Return what a process has open, by kind."""
    kinds: list[str] = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since
            kinds.append(str(descriptor.readlink()).partition(":")[0])
    return kinds


def is_alive(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
