"""The few system calls of the first process that Python has no names for."""

import ctypes
import os

NEW_NS, NEW_UTS, NEW_IPC, NEW_PID, NEW_NET = 0x20000, 0x4000000, 0x8000000, 0x20000000, 0x40000000
RDONLY, NOSUID, NODEV, REMOUNT, BIND, REC, PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
DETACH = 2
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
KEPT_CAPABILITIES = (0, 1, 3, 4, 5, 6, 7)
"""CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID: what an ordinary root needs, and nothing that reaches the host."""
_CAP_LAST = 40
_PDEATHSIG, _CAPBSET_DROP = 1, 24
_libc = ctypes.CDLL(None, use_errno=True)


def _checked(code: int, what: str) -> None:
    if code < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Put this process, or its children, into new namespaces."""
    _checked(_libc.unshare(flags), "unshare")


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends."""
    _libc.prctl(_PDEATHSIG, 9, 0, 0, 0)


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount a file system, or a directory in another place."""
    code = _libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode())
    _checked(code, f"mount {target}")


def pivot_root() -> None:
    """Make the working directory the root, and let go of the old one."""
    _checked(_libc.syscall(PIVOT_ROOT[os.uname().machine], b".", b"."), "pivot_root")
    _checked(_libc.umount2(b".", DETACH), "umount the old root")


def drop_capabilities() -> None:
    """Keep what an ordinary root needs inside; everything that reaches the host or the network's rules goes."""
    bits = sum(1 << one for one in KEPT_CAPABILITIES)
    for one in range(_CAP_LAST + 1):
        if one not in KEPT_CAPABILITIES:
            _libc.prctl(_CAPBSET_DROP, one, 0, 0, 0)  # a kernel with fewer capabilities refuses the last ones
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)(bits, bits, 0, 0, 0, 0)
    _checked(_libc.capset(header, data), "capset")
