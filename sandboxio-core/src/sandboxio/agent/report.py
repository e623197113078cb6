"""What the agent saw when it booted."""

import errno
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sandboxio.agent.protocol import Answer, Frame, ProtocolViolation

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
    :param read_only: whether the root file system is mounted read-only.
    :param kernel_log: the beginning of the kernel's log, where it is shown to this process; empty elsewhere.
    :param has_ctypes: whether system calls without a Python name can be made.
    :param subreaper: whether each command has its own subreaper, so that exactly one tree can be killed.
    :param dumpable: how the agent's memory was closed to others of its user: ``"prctl"``, ``"memfd"`` or ``"open"``.
    :param memory_closed: whether a child of the same user was refused the agent's memory (the proof of `dumpable`).
    :param descriptors_closed: the same of its descriptors: over its stdout a command could speak in its name.
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
    read_only: bool
    kernel_log: str
    has_ctypes: bool
    subreaper: bool
    dumpable: str
    memory_closed: bool
    descriptors_closed: bool
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


class BootReceiver:
    """Waits for the boot report."""

    def __init__(self) -> None:
        self.report: BootReport | None = None

    def take(self, frame: Frame) -> bool:
        """Take in the boot report, which comes first and once."""
        if frame.kind is not Answer.BOOT:
            message = f"a frame {frame.kind.name} before the boot report"
            raise ProtocolViolation(message)
        self.report = decode_report(frame.payload)
        return True


def decode_report(payload: bytes) -> BootReport:
    """Read the boot report. :raises ProtocolViolation: it is none."""
    parts = payload.decode("utf-8", "surrogateescape").split("\0")
    try:
        return _report(dict(zip(parts[::2], parts[1::2], strict=True)))
    except (KeyError, ValueError, OverflowError) as error:
        message = f"an unreadable boot report: {error!r}"
        raise ProtocolViolation(message) from error


def _report(fields: Mapping[str, str]) -> BootReport:
    def number(name: str) -> int:
        return int(fields[name][:20])

    def flag(name: str) -> bool:
        return fields[name] == "1"

    status = dict(line.split(":\t", 1) for line in fields["status"].splitlines() if ":\t" in line)
    devices = [line.split(":")[0].strip() for line in fields["net_dev"].splitlines()[2:] if ":" in line]
    notes: list[str] = []
    return BootReport(
        python=fields["python"],
        machine=fields["machine"],
        pid=number("pid"),
        uid=number("uid"),
        gid=number("gid"),
        uid_map=" ".join(fields["uid_map"].split()),
        gid_map=" ".join(fields["gid_map"].split()),
        capabilities=int(status["CapEff"][:16], 16),
        bounding=int(status["CapBnd"][:16], 16),
        no_new_privileges=status.get("NoNewPrivs") == "1" or flag("no_new_privs"),
        read_only=flag("read_only"),
        kernel_log=fields["kernel_log"],
        has_ctypes=flag("has_ctypes"),
        subreaper=flag("has_ctypes"),
        dumpable=fields["dumpable"],
        memory_closed=number("memory") in (errno.EACCES, errno.EPERM),
        descriptors_closed=number("descriptors") in (errno.EACCES, errno.EPERM),
        seccomp=fields["seccomp"],
        vsock=_probe("vsock", number("vsock"), notes),
        io_uring=_probe("io_uring", number("io_uring"), notes),
        foreign=_worst(_probe("x32", number("x32"), notes), _probe("int 0x80", number("foreign"), notes)),
        probe_notes="; ".join(notes),
        interfaces=tuple(devices) if fields["net_dev"] else None,
        cwd=fields["cwd"],
        workdir=fields["workdir"],
        has_shell=flag("has_shell"),
        hosts=fields["hosts"],
        # A process that can't raise its own score can still have it raised once its program runs.
        oom_score=number("oom") == 0 or number("uid") != 0,
        counters=tuple(name for name in ("memory", "pids") if flag(f"{name}_events")),
    )


def _probe(name: str, outcome: int, notes: list[str]) -> Probe:
    """Translate what an attempt gave: 0 it worked, an errno, minus a signal that ended it, or -1: not tried."""
    if outcome == 0:
        return "possible"
    if outcome > 0:
        return "refused"
    if outcome == -1:
        notes.append(f"{name} was not tried: no way to, on this processor or without ctypes")
        return "unknown"
    notes.append(f"{name} ended in signal {-outcome}: the kernel has no such entry, or ends who uses it")
    return "refused"


def _worst(first: Probe, second: Probe) -> Probe:
    for probe in ("possible", "unknown"):
        if probe in (first, second):
            return probe
    return "refused"
