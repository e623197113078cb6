"""Which processes descend from which, and how to end them."""

from __future__ import annotations

import errno
import posix as os
import time

from .wire import read_exactly

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Container, Iterable
else:
    import _signal as signal

HAS_CHILDREN_FILE = os.access("/proc/self/task/%d/children" % os.getpid(), os.R_OK)
KILL_TIME = 3.0  # seconds that killing one tree may take
NOT_THERE = (errno.ENOENT, errno.ESRCH, errno.EACCES, errno.EPERM)
LOOKS = 5  # at lists that may lack somebody, before they are believed
DYING_TIME = 0.3  # seconds that killed processes may take to be gone


def send_signal(pid: int, number: int) -> None:
    """Signal a process that may be gone, or be somebody else's."""
    try:
        os.kill(pid, number)
    except OSError as error:
        if error.errno not in (errno.ESRCH, errno.EPERM):
            raise


def look(path: str) -> bytes:
    """Return what /proc says of a process, nothing if there is no such process.

    Any other failure is raised, and ends the sandbox: user code may have taken all descriptors from this process
    (`prlimit` asks no more than the same user), and who can't look must not say that nothing is left.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in NOT_THERE:
            return b""
        raise
    try:
        return read_exactly(fd, 1 << 24)
    except OSError as error:
        if error.errno in NOT_THERE:
            return b""
        raise
    finally:
        os.close(fd)


def parents() -> dict[int, list[int]]:
    """Map processes to their children, by one look over all of /proc."""
    found: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        stat = look("/proc/" + name + "/stat") if name.isdigit() else b""
        if stat:
            parent = stat[stat.rindex(b")") + 2 :].split(None, 2)[1]
            found.setdefault(int(parent), []).append(int(name))
    return found


def children(pid: int) -> list[int]:
    """Return the children of one process."""
    if not HAS_CHILDREN_FILE:
        return parents().get(pid, [])
    found: list[int] = []
    base = "/proc/%d/task" % pid
    try:
        tasks = os.listdir(base)
    except OSError as error:
        if error.errno in NOT_THERE:
            return found
        raise
    for task in tasks:
        found += map(int, look(base + "/" + task + "/children").split())
    return found


def sweep(root: int, number: int, spare: Container[int] = ()) -> set[int]:
    """Signal the descendants of ``root``, each before its own children are looked for; return them."""
    table = None if HAS_CHILDREN_FILE else parents()
    found: set[int] = set()
    queue = [root]
    for pid in queue:  # grows while it is walked
        for child in children(pid) if table is None else table.get(pid, ()):
            if child not in found and child not in spare:
                send_signal(child, number)
                found.add(child)
                queue.append(child)
    return found


def freeze(root: int, until: float, spare: Container[int] = ()) -> tuple[set[int], bool]:
    """Stop descendants until none is left that could start another; return them, and whether that was reached."""
    seen: set[int] = set()
    while time.monotonic() < until:
        fresh = sweep(root, signal.SIGSTOP, spare) - seen
        if not fresh:
            return seen, True
        seen |= fresh
    return seen, False


def kill(pids: Iterable[int]) -> None:
    """End processes."""
    for pid in pids:
        send_signal(pid, signal.SIGKILL)


def lives(pid: int) -> bool:
    """Tell whether a process is there and no zombie."""
    stat = look("/proc/%d/stat" % pid)
    return stat[stat.rfind(b")") + 2 :][:1] not in (b"Z", b"X", b"")


def are_gone(pids: Iterable[int]) -> bool:
    """Wait until killed processes ended; false if some did not within a moment."""
    until = time.monotonic() + DYING_TIME
    left = list(pids)
    while True:
        left = [pid for pid in left if lives(pid)]
        if not left or time.monotonic() > until:
            return not left
        time.sleep(0.001)


def have_fallen(strays: Callable[[], set[int]], before: set[int]) -> bool:
    """Tell whether strays live that were not there ``before``.

    Who forks and ends all the time is missing in a list of children now and then, so one look says little.
    """
    for _ in range(LOOKS):
        if any(lives(pid) for pid in strays() - before):
            return True
        time.sleep(0.001)
    return False
