"""Starting a program, and what decides who goes first when resources end."""

from __future__ import annotations

import errno
import posix as os

from .wire import slurp

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

PATH = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NICE = 10
EXPENDABLE = b"500"


class StartError(Exception):
    """A command can't be started; not for want of its program."""

    def __init__(self, stage: int, number: int) -> None:
        super().__init__(stage, number)
        self.stage = stage
        self.number = number


def find_program(name: bytes, path: bytes) -> bytes:
    """Return where a program is; like a shell, something that can't be executed only if nothing better is there."""
    if b"/" in name:
        return name
    second = b""
    for folder in path.split(b":"):
        full = (folder or b".") + b"/" + name
        try:
            if os.stat(full).st_mode & 0o170000 == 0o100000 and os.access(full, os.X_OK):
                return full
            second = second or full
        except OSError:
            pass
    if not second:
        raise OSError(errno.ENOENT, "")
    return second


def spawn(argv: list[bytes], env: dict[bytes, bytes]) -> int:
    """Start a program in a session of its own, all signals as a program expects them."""
    program = find_program(argv[0], env.get(b"PATH", PATH))
    reset = [number for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP)]
    try:
        return os.posix_spawn(program, argv, env, setsigmask=(), setsigdef=reset, setsid=True)
    except NotImplementedError:
        return os.posix_spawn(program, argv, env, setsigmask=(), setsigdef=reset, setpgroup=0)


def raise_oom_score(pid: str) -> None:
    """Make a process (and what it starts) the kernel's choice before the agent; only its user or root may."""
    fd = os.open("/proc/%s/oom_score_adj" % pid, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, EXPENDABLE)
    finally:
        os.close(fd)


class Score:
    """This process's own place in that order, opened while it may be: for one that isn't dumpable only root may."""

    def __init__(self) -> None:
        self.own = slurp("/proc/self/oom_score_adj").strip()
        try:
            self.fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            self.fd = -1

    def set(self, value: bytes) -> None:
        """Take another place; what is forked now has it too."""
        if self.fd >= 0:
            try:
                os.write(self.fd, value)
            except OSError:
                self.fd = -1


def prefer_to_end(pid: str) -> None:
    """Raise the score where that is allowed; the boot report says where it is not."""
    try:
        raise_oom_score(pid)
    except OSError:
        pass


def put_behind(leader: int) -> None:
    """Let the kernel prefer agent and supervisors: a fork bomb's hundred processes would leave them a hundredth."""
    prefer_to_end(str(leader))
    try:
        os.setpriority(os.PRIO_PGRP, leader, NICE)
    except OSError:  # it ended already
        pass
