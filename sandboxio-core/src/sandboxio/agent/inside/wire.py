"""Numbers of the protocol, and reading and writing of descriptors."""

from __future__ import annotations

import posix as os
from struct import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

START, DATA, EOF, CREDIT, KILL, READ, WRITE, LIST, STAT, MKDIR, READLINK, LINK, SET, REMOVE, ABORT, DETACH = range(
    1, 17
)
BOOT, STARTED, FAILED, OUT, ERR, END, EXIT, KILLED, GRANT, GONE, DONE, DETACHED = range(32, 44)
BAD_CWD, BAD_USER, NO_PROCESS, LOST = 1, 2, 3, 4
OOM, NO_FORK, BY_US, UNKNOWN = 1, 2, 4, 8
STATUS_OWNER_GONE, STATUS_PROTOCOL, STATUS_CRASH, STATUS_LIFETIME = 0, 65, 70, 124
CHUNK = 65536
WINDOW = 262144
BREATH = 0.0001  # seconds in which a flood collects: a few large pieces cost far less than many small ones
LEAST_COST = 256  # bytes of its credit that a piece of output uses up at least

HEADER = Struct(">IIB")
START_HEAD = Struct(">BIIQ")
ORDER = Struct(">cIQ")  # to a supervisor: S (start), length of spec, length of code; or only K (kill) or L (let live)
REPORT = Struct(">BIiI")  # from a supervisor: kind, its pid, two numbers
ENTRY = Struct(">BIQdH")
U32 = Struct(">I")


def slurp(path: str | bytes) -> bytes:
    """Return a small file's content, nothing if it can't be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return read_exactly(fd, 1 << 24)
    except OSError:
        return b""
    finally:
        os.close(fd)


def read_exactly(fd: int, size: int) -> bytes:
    """Return ``size`` bytes, fewer at the end."""
    parts: list[bytes] = []
    while size:
        part = os.read(fd, min(size, CHUNK))
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def write_all(fd: int, data: bytes) -> None:
    """Write to a blocking descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def drain(fd: int) -> None:
    """Empty a non-blocking pipe."""
    try:
        while len(os.read(fd, 4096)) == 4096:
            pass
    except BlockingIOError:
        pass


def close(*fds: int) -> None:
    """Close those of the descriptors that are open."""
    for fd in fds:
        if fd >= 0:
            os.close(fd)


def pipe_that_wakes() -> tuple[int, int]:
    """Return a pipe whose neither end blocks."""
    ends = os.pipe()
    for fd in ends:
        os.set_blocking(fd, False)
    return ends


def leave(status: int) -> NoReturn:
    """End this process, running nothing."""
    os._exit(status)  # pyright: ignore[reportPrivateUsage]
