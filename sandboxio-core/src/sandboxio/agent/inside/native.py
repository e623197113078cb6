"""System calls that Python has no name for."""

from __future__ import annotations

import errno
import posix as os
from struct import pack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DUMPABLE, SECCOMP, SUBREAPER, NO_NEW_PRIVILEGES, GET_NO_NEW_PRIVILEGES = 4, 22, 36, 38, 39  # of prctl
NATIVE = {  # architecture, socket, socketpair, prlimit64
    "x86_64": (0xC000003E, 41, 53, 302),
    "aarch64": (0xC00000B7, 198, 199, 261),
}
SCHEDULING = {  # sched_setparam, sched_setscheduler, sched_setaffinity, sched_setattr; setpriority, ioprio_set
    "x86_64": ((142, 144, 203, 314), (141, 251)),
    "aarch64": ((118, 119, 122, 274), (140, 30)),
}
OF_USER = (2, 3)  # what makes setpriority and ioprio_set take a user id for their target
X32 = 0x40000000


class Native:
    """Calls of the C library through `_ctypes`; ImportError where Python was built without.

    The public wrapper is Python code that costs 10 ms to import.
    """

    def __init__(self) -> None:
        api: Any = __import__("_ctypes")
        self.long: Any = type("Long", (api._SimpleCData,), {"_type_": "l"})
        self.char: Any = type("Char", (api._SimpleCData,), {"_type_": "c"})
        self.function: Any = type("Function", (api.CFuncPtr,), {"_flags_": 1 | 8, "_restype_": self.long})
        self.api = api
        self.library = api.dlopen(None, 0)

    def call(self, name: str, *values: int) -> int:
        """Call a function; the result -1 becomes OSError."""
        function = self.function(self.api.dlsym(self.library, name))
        result: int = function(*[self.long(value) for value in values])
        if result == -1:
            number = self.api.get_errno()
            raise OSError(number, os.strerror(number))
        return result

    def prctl(self, option: int, value: int) -> bool:
        """Set a property of this process; false if the kernel refuses."""
        try:
            self.call("prctl", option, value, 0, 0, 0)
        except OSError:
            return False
        return True

    def holds(self, option: int) -> bool:
        """Return what a question of prctl's about this process is answered with."""
        try:
            return self.call("prctl", option, 0, 0, 0, 0) == 1
        except OSError:
            return False

    def buffer(self, data: bytes) -> Any:
        """Return a copy of ``data`` that has an address."""
        held = type("Buffer", (self.api.Array,), {"_type_": self.char, "_length_": len(data)})()
        memoryview(held).cast("B")[:] = data
        return held

    def install_filter(self, program: bytes) -> None:
        """Install a system call filter for this process and all that it starts."""
        self.prctl(NO_NEW_PRIVILEGES, 1)  # without it only the privileged may
        held = self.buffer(program)
        head = self.buffer(pack("@HP", len(program) // 8, self.api.addressof(held)))
        self.call("prctl", SECCOMP, 2, self.api.addressof(head), 0, 0)

    def run_machine_code(self, code: bytes) -> int:
        """Return what a function returns, given as instructions."""
        page = self.call("mmap", 0, 4096, 7, 0x22, -1, 0)
        held = self.buffer(code)
        self.call("memcpy", page, self.api.addressof(held), len(code))
        result: int = self.function(page)()
        return result


def filter_program(machine: str, agent: int) -> bytes | None:
    """Return the filter against what a rule of a network namespace does not see; ``None`` for an unknown processor.

    Refused: socket families other than unix, inet, inet6 and netlink (vsock reaches the host past any namespace), and
    what got around a filter on `socket` alone when it was tried: io_uring and the calls of every foreign architecture.
    Refused, too: limits of another process, by which the agent and its supervisors could be left without descriptors,
    and the place of ``agent`` and the first process among those that wait for a processor: idle beside a hundred busy
    processes, none of them ends anything in time.
    """
    if machine not in NATIVE:
        return None
    arch, socket, socketpair, prlimit = NATIVE[machine]
    allow, refuse = (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x50000 | errno.EPERM)
    code = [(0x20, 0, 0, 4), (0x15, 1, 0, arch), refuse, (0x20, 0, 0, 0)]
    if machine == "x86_64":
        code += [(0x35, 0, 1, X32), refuse]
    for number in (425, 426, 427):  # io_uring_setup, _enter, _register
        code += [(0x15, 0, 1, number), refuse]
    code += [(0x15, 0, 4, prlimit), (0x20, 0, 0, 16), (0x15, 1, 0, 0), refuse, allow]
    targets = sorted({1, agent})
    last = [(0x15, len(targets) - index, 0, pid) for index, pid in enumerate(targets)] + [allow, refuse]
    by_pid, by_kind = SCHEDULING[machine]
    for number in by_pid:
        code += [(0x15, 0, len(last) + 1, number), (0x20, 0, 0, 16), *last]
    for number, of_user in zip(by_kind, OF_USER):
        code += [(0x15, 0, len(last) + 3, number), (0x20, 0, 0, 16), (0x15, len(last), 0, of_user), (0x20, 0, 0, 24)]
        code += last
    code += [(0x15, 2, 0, socket), (0x15, 1, 0, socketpair), allow, (0x20, 0, 0, 16)]
    for family in (1, 2, 10, 16):
        code += [(0x15, 0, 1, family), allow]
    code.append((0x06, 0, 0, 0x50000 | errno.EAFNOSUPPORT))
    return b"".join([pack("=HBBI", *line) for line in code])
