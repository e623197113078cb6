"""Whether the owner still lives, by a second way than its pipe.

A pipe ends only when its last copy is closed, and a child that the owner forked in C code holds a copy. The owner's
pidfd tells its end whoever holds what.
"""

import os
import select


def process_start(pid: int) -> str | None:
    """Return the kernel's start time of a process, which tells it from a later one of the same number.

    ``None`` = no such process, a zombie, or a system without ``/proc``.
    """
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as file:  # noqa: PTH123 - pathlib costs memory
            stat = file.read()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name before it may hold blanks and brackets
    state, threads, started = fields[0], int(fields[17]), fields[19]
    # A zombie with further threads is a living process whose main thread has ended.
    return None if state in "ZXx" and threads <= 1 else started


class OwnerWatch:
    """Watches one process.

    :param pid: its number.
    :param started: its own `process_start`, as the owner read it; ``None`` where there is no ``/proc``.
    """

    def __init__(self, pid: int, started: str | None) -> None:
        self._pid = pid
        self._started = started
        self.fd = _pidfd(pid)  # readable once the owner has ended; None = poll `ended` instead
        # The owner may have ended, and its number been given away, before the pidfd was opened.
        self._never_seen = started is not None and process_start(pid) != started

    def ended(self) -> bool:
        """Return whether the owner has ended."""
        if self._never_seen:
            return True
        if self.fd is not None:
            return bool(_readable(self.fd))
        if self._started is not None:
            return process_start(self._pid) != self._started
        return not _exists(self._pid)

    def close(self) -> None:
        """Release the pidfd."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


def _pidfd(pid: int) -> int | None:
    opener = getattr(os, "pidfd_open", None)
    if opener is None:
        return None
    try:
        return int(opener(pid))
    except OSError:  # an old kernel, a seccomp filter, or the owner is gone: `ended` finds out which
        return None


def _readable(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it exists and has become another user
        return True
    return True
