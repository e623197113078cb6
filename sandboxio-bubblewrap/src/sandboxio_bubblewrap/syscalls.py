"""The system call filter of a sandbox, beside the one that the agent adds: what no program in a container needs.

Refused are the ways into the kernel that its namespaces don't confine (keyrings, bpf, performance counters, user faults), all
that makes or enters a namespace or a mount, and the two requests by which a program types into a terminal.
"""

import errno
import os
from struct import pack

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, REFUSE, UNKNOWN = 0x7FFF0000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
NUMBER, ARCHITECTURE, FIRST, SECOND = 0, 4, 16, 24
"""Where the kernel puts what a filter looks at; of arguments the lower half."""
NAMESPACES = 0x7E020000
"""All flags of `clone` and `unshare` that make a namespace."""
TYPE, TYPE_ON_CONSOLE = 0x5412, 0x541C  # TIOCSTI, TIOCLINUX
X32 = 0x40000000
CLONE3 = 435

PROCESSORS = ("x86_64", "aarch64")
_REFUSED = {  # by the numbers of either
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "setns": (308, 268),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "syslog": (103, 116),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "quotactl_fd": (443, 443),
}
_MACHINES = {  # architecture; clone, unshare, ioctl
    "x86_64": (0xC000003E, 56, 272, 16),
    "aarch64": (0xC00000B7, 220, 97, 29),
}


def machine() -> str:
    """Return the kernel's name of this processor."""
    return os.uname().machine


def filter_program(processor: str) -> bytes | None:
    """Return the filter for a processor, as bwrap takes it; ``None`` for one whose numbers are not known here."""
    if processor not in _MACHINES:
        return None
    architecture, clone, unshare, ioctl = _MACHINES[processor]
    refuse = (RETURN, 0, 0, REFUSE)
    code = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, architecture), refuse, (LOAD, 0, 0, NUMBER)]
    if processor == "x86_64":
        code += [(AT_LEAST, 0, 1, X32), refuse]
    for numbers in _REFUSED.values():
        code += [(EQUAL, 0, 1, numbers[PROCESSORS.index(processor)]), refuse]
    # Its flags lie in memory, where no filter looks: without it the C library uses `clone`.
    code += [(EQUAL, 0, 1, CLONE3), (RETURN, 0, 0, UNKNOWN)]
    for number in (clone, unshare):
        code += [(EQUAL, 0, 4, number), (LOAD, 0, 0, FIRST), (ANY_BIT, 0, 1, NAMESPACES), refuse, (RETURN, 0, 0, ALLOW)]
    code += [(EQUAL, 0, 4, ioctl), (LOAD, 0, 0, SECOND), (EQUAL, 1, 0, TYPE), (EQUAL, 0, 1, TYPE_ON_CONSOLE), refuse]
    code.append((RETURN, 0, 0, ALLOW))
    return b"".join(pack("=HBBI", *line) for line in code)
