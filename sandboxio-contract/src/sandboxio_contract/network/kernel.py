"""The few system calls that Python 3.11 has no names for."""

import contextlib
import ctypes
import os
import signal
from pathlib import Path

_PR_SET_PDEATHSIG = 1
NEW_USER, NEW_NET = 0x10000000, 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def _checked(code: int, what: str) -> None:
    if code != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def die_with(parent: int) -> None:
    """Let the kernel kill this process when its parent ends, also if that happened already."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0), "prctl")
    if os.getppid() != parent:
        os._exit(1)


def unshare(flags: int) -> None:
    """Put this process into new namespaces.

    :raises OSError: not permitted here.
    """
    _checked(_libc.unshare(flags), "unshare")


def enter(path: str) -> None:
    """Put this thread into the namespace at `path`.

    :raises OSError: not permitted, or gone.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _checked(_libc.setns(descriptor, 0), "setns")
    finally:
        os.close(descriptor)


def become_root_of_own_namespace() -> None:
    """As an ordinary user, become root of a new user namespace that holds no other user.

    :raises OSError: this kernel doesn't let ordinary users do that.
    """
    user, group = os.geteuid(), os.getegid()
    unshare(NEW_USER)
    with contextlib.suppress(FileNotFoundError):
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1", encoding="ascii")
