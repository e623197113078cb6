"""What the kernel counts of the sandbox: processes ended for want of memory, and forks refused."""

from __future__ import annotations

import posix as os

from .wire import slurp

PLACES = (
    (b"oom_kill ", ("/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events")),
    (b"max ", ("/sys/fs/cgroup/pids/pids.events", "/sys/fs/cgroup/pids.events")),
)


def open_counter(name: bytes, paths: tuple[str, str]) -> int:
    """Open what counts such events, -1 if there is nothing of the kind."""
    for path in paths:
        if name in slurp(path):
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    return -1


class Counters:
    """The two counters, kept open."""

    def __init__(self) -> None:
        self.fds = [open_counter(name, paths) for name, paths in PLACES]

    def read(self) -> tuple[int, int]:
        """Return how many OOM kills and refused forks the sandbox has seen."""
        values: list[int] = []
        for fd, (name, _) in zip(self.fds, PLACES):
            data = b"\n" + os.pread(fd, 4096, 0) if fd >= 0 else b""
            rest = data.partition(b"\n" + name)[2].split(None, 1)
            values.append(int(rest[0]) if rest else 0)
        return values[0], values[1]
