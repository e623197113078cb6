"""What the agent saw when it booted."""

from dataclasses import dataclass
from typing import Literal

Probe = Literal["refused", "possible", "unknown"]


@dataclass(frozen=True, slots=True)
class BootReport:
    """The agent's own observations, made before any user code was started by it.

    They come from inside the sandbox: use them as extra evidence, never instead of the provider's answer.

    :param python: the interpreter's version, such as ``"3.11.2"``.
    :param machine: the kernel's name of the processor, such as ``"x86_64"``.
    :param pid: the agent's own process id; 1 if its end is the sandbox's end.
    :param uid: effective user id. :param gid: effective group id.
    :param uid_map: content of ``/proc/self/uid_map``, blanks normalised; empty if unreadable.
    :param gid_map: the same of ``/proc/self/gid_map``.
    :param capabilities: ``CapEff`` as a bit mask. :param bounding: ``CapBnd`` as a bit mask.
    :param no_new_privileges: whether the kernel's flag is set.
    :param has_ctypes: whether system calls without a Python name can be made.
    :param subreaper: whether each command has its own subreaper, so that exactly one tree can be killed.
    :param dumpable: how the agent's memory was closed to others of its user: ``"prctl"``, ``"memfd"`` or ``"open"``.
    :param memory_closed: whether a child of the same user was refused the agent's memory (the proof of `dumpable`).
    :param seccomp: ``"on"``, or why the agent's own filter is not installed.
    :param vsock: whether ``socket(AF_VSOCK)`` is refused to commands.
    :param io_uring: whether ``io_uring_setup`` is refused to commands.
    :param foreign: whether another architecture's system calls (``int 0x80``) are refused to commands.
    :param probe_notes: why a probe is ``"unknown"``.
    :param interfaces: the network interfaces of ``/proc/net/dev``; ``None`` if unreadable.
    :param cwd: the default working directory of commands.
    :param workdir: ``"present"``, ``"made"``, or why the wanted working directory can't be used.
    :param has_shell: whether ``sh`` is on the path.
    :param hosts: ``"present"``, ``"written"``, or why ``localhost`` could not be written to ``/etc/hosts``.
    :param oom_score: whether commands are preferred over the agent when memory ends.
    :param counters: which of ``"memory"`` and ``"pids"`` events can be read.
    """

    python: str
    machine: str
    pid: int
    uid: int
    gid: int
    uid_map: str
    gid_map: str
    capabilities: int
    bounding: int
    no_new_privileges: bool
    has_ctypes: bool
    subreaper: bool
    dumpable: str
    memory_closed: bool
    seccomp: str
    vsock: Probe
    io_uring: Probe
    foreign: Probe
    probe_notes: str
    interfaces: tuple[str, ...] | None
    cwd: str
    workdir: str
    has_shell: bool
    hosts: str
    oom_score: bool
    counters: tuple[str, ...]
