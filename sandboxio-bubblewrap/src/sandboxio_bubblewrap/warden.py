"""The warden: the parent of a process's sandboxes, which all end with it, and which ends them when their owner is gone.

One for each owner process. bwrap asks the kernel to end it with its parent, so a warden that is killed takes its sandboxes with
it; a warden whose owner is killed does so itself. It ends what is past its lifetime, and removes what belonged to what ended.
Requests come over a pair of packet sockets: in a memory file, with the descriptors that the sandbox gets. Standard library only.
"""

import fcntl
import json
import os
import resource
import selectors
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from . import cgroups, network, state
from .stage import Stage

SLACK = 1.0
"""Seconds past its lifetime after which a sandbox that did not end itself is ended."""
PAUSE = 0.01
"""Seconds until a control group that was still in use is looked at again."""
FINAL = 60.0
"""Seconds for the end of everything, once the owner is gone."""
MESSAGE = 65536
NOBODY = [0, ""]
"""Stands for a first process that is not there yet."""
HIGH = 100
"""Descriptors from here on are out of the way of those that a sandbox begins with."""
FIXED = 4
"""How many descriptors a sandbox begins with: stdin and stdout, stderr, the filter."""


@dataclass
class Kept:
    """A sandbox whose first process is this process's child."""

    name: str
    pid: int
    pidfd: int
    groups: tuple[str, ...]
    deadline: float
    network: network.Network | None
    ended: bool = False


class Warden:
    """All of it."""

    def __init__(self, control: socket.socket, owner: int) -> None:
        self._control = control
        self._owner = owner
        self._kept: dict[str, Kept] = {}
        self._waiting = selectors.DefaultSelector()
        self._stage = Stage()
        self._me = [os.getpid(), state.start_of(os.getpid())]
        self._boot = state.boot_id()

    def serve(self) -> None:
        """Answer until the owner is gone."""
        self._waiting.register(self._control, selectors.EVENT_READ)
        self._waiting.register(self._owner, selectors.EVENT_READ)
        while True:
            for key, _ in self._waiting.select(self._pause()):
                if key.fileobj == self._owner or (key.fileobj is self._control and not self._answer()):
                    return
                if isinstance(key.data, Kept):
                    self._reap(key.data)
            self._look_after()

    def end_all(self) -> None:
        """End everything."""
        until = time.monotonic() + FINAL
        for name in list(self._kept):
            self._end(name)
        while self._kept and time.monotonic() < until:
            for key, _ in self._waiting.select(PAUSE):
                if isinstance(key.data, Kept):
                    self._reap(key.data)
            self._look_after()

    def _pause(self) -> float | None:
        if any(kept.ended for kept in self._kept.values()):
            return PAUSE
        if not self._kept:
            return None
        return max(0.0, min(kept.deadline for kept in self._kept.values()) - _now())

    def _answer(self) -> bool:
        """Carry out one request; false if the owner hung up."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, MESSAGE, 16)
        except OSError:
            return False
        if not data:
            return False
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        message: dict[str, Any] = json.loads(data)
        answer: dict[str, object]
        try:
            if message["do"] == "start":
                answer = {"pid": self._start(descriptors)}
            elif message["do"] == "link":
                answer = {"known": self._link(message["name"], message["pid"])}
            else:
                answer = {"known": self._end(message["name"])}
        except Exception as error:  # noqa: BLE001 - the owner hears of it, and raises it
            answer = {"error": f"{type(error).__name__}: {error}"}
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        with suppress(OSError):
            self._control.send(json.dumps({"n": message["n"], **answer}).encode())
        return True

    def _start(self, descriptors: list[int]) -> int:
        with open(os.dup(descriptors[0]), encoding="utf-8") as file:  # noqa: PTH123 - it has no path
            order: dict[str, Any] = json.load(file)
        name, groups = str(order["name"]), tuple(cast("list[str]", order["groups"]))
        home = cgroups.Home(order["version"], tuple(order["folders"]))
        argv = [self._word(word, staged=order["uid"] is not None) for word in order["argv"]]
        record: state.Record = {**order["record"], "warden": self._me, "first": NOBODY, "boot": self._boot}
        cgroups.ready(home)
        state.write(record)  # before there is anything: should this process be killed, its groups are found by it
        pid = 0
        try:
            cgroups.make(home.version, groups, order["caps"])
            pid = _spawn(argv, descriptors[1:], groups, order)
            state.write({**record, "first": [pid, state.start_of(pid)]})
            pidfd = os.pidfd_open(pid)
        except BaseException:
            if pid:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            if cgroups.end(groups, SLACK):
                state.forget(name)
            raise
        kept = Kept(name, pid, pidfd, groups, _now() + order["lifetime"] + SLACK, record["network"])
        self._kept[name] = kept
        self._waiting.register(pidfd, selectors.EVENT_READ, kept)
        return pid

    def _link(self, name: str, pid: int) -> bool:
        kept = self._kept.get(name)
        if kept is None or kept.network is None or pid not in cgroups.processes(kept.groups):
            return False
        network.attach(kept.network, pid)
        return True

    def _word(self, word: str | dict[str, str], *, staged: bool) -> str:
        if isinstance(word, str):
            return word
        return self._stage.path_of(word["source"], word.get("below", "")) if staged else _joined(word)

    def _end(self, name: str) -> bool:
        kept = self._kept.get(name)
        if kept is not None:
            self._kill(kept)
            kept.deadline = min(kept.deadline, _now() + SLACK)  # then once more
        return kept is not None

    def _kill(self, kept: Kept) -> None:
        """End all but bwrap, which buries what it started, and then ends itself; bwrap too if nothing else is there, or left.

        Otherwise the remains would be for the machine's first process to bury, and there are some that are slow to.
        """
        if cgroups.kill(kept.groups, spare=kept.pid) and not kept.ended:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(kept.pidfd, signal.SIGKILL)

    def _reap(self, kept: Kept) -> None:
        kept.ended = True
        self._waiting.unregister(kept.pidfd)
        os.close(kept.pidfd)
        with suppress(ChildProcessError):
            os.waitpid(kept.pid, 0)

    def _look_after(self) -> None:
        """Remove what belonged to sandboxes that ended, and end those that are overdue."""
        now = _now()
        for kept in list(self._kept.values()):
            if not kept.ended and now >= kept.deadline:
                kept.deadline = now + SLACK
                self._kill(kept)
            elif kept.ended and cgroups.kill(kept.groups) and cgroups.remove(kept.groups):
                if kept.network is not None:
                    network.detach(kept.network)
                state.forget(kept.name)
                del self._kept[kept.name]


def _joined(word: dict[str, str]) -> str:
    return word["source"] + ("/" + word["below"] if "below" in word else "")


def _now() -> float:
    """Return seconds that also pass while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _spawn(argv: list[str], descriptors: list[int], groups: tuple[str, ...], order: dict[str, Any]) -> int:
    """Start bwrap inside its control groups; :raises OSError: it could not be."""
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(told)
        tell = _moved(tell)
        try:
            _become(argv, descriptors, groups, order)
        except OSError as error:
            os.write(tell, f"{error.errno} {error}".encode())
        finally:
            os._exit(127)
    os.close(tell)
    with open(told, encoding="utf-8") as file:  # noqa: PTH123 - it has no path
        said = file.read()
    if said:
        os.waitpid(pid, 0)
        number, _, text = said.partition(" ")
        raise OSError(int(number), text)
    return pid


def _moved(descriptor: int) -> int:
    """Return a copy that is out of the way, and that no other program gets."""
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, HIGH)


def _become(argv: list[str], descriptors: list[int], groups: tuple[str, ...], order: dict[str, Any]) -> NoReturn:
    os.umask(0o022)
    for group in groups:
        entrance = os.open(f"{group}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
        os.write(entrance, b"0")
        os.close(entrance)
    for name, limits in order["limits"].items():
        _limit(getattr(resource, name), *limits)
    # Out of the way of the numbers that they are to have.
    high = [_moved(one) for one in (descriptors[0], *descriptors)]
    for number, one in enumerate(high):
        os.dup2(one, number, inheritable=True)
    _close_at_exec(FIXED)
    os.chdir("/")
    if order["uid"] is not None:
        os.setgroups([])
        os.setresgid(order["uid"], order["uid"], order["uid"])
        os.setresuid(order["uid"], order["uid"], order["uid"])
    os.execve(argv[0], argv, {})  # noqa: S606 - through no shell


def _close_at_exec(first: int) -> None:
    """Keep every descriptor from there on from the program to come: what is missed would be the sandbox's."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - numbers, no paths
        if int(name) >= first:
            with suppress(OSError):  # the one of this very list
                os.set_inheritable(int(name), False)


def _limit(what: int, soft: int, hard: int) -> None:
    most = resource.getrlimit(what)[1]
    hard = hard if most == resource.RLIM_INFINITY else min(hard, most)
    resource.setrlimit(what, (min(soft, hard), hard))


def run(control: int, owner: int, start: str) -> NoReturn:
    """Serve the process ``owner``, which began at ``start``; then end."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # an owner that ignores it would have the kernel bury our children
    os.set_inheritable(control, False)  # it had to be, to come here; its number is the owner's, so it may be any
    os.chdir("/")
    try:
        watched = os.pidfd_open(owner)
    except ProcessLookupError:
        os._exit(0)
    if state.start_of(owner) != start:
        os._exit(0)
    with suppress(OSError):
        state.sweep()
    warden = Warden(socket.socket(fileno=control), watched)
    try:
        warden.serve()
    finally:
        warden.end_all()
        os._exit(0)
