"""What the agent saw when it booted."""

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import unpack
from typing import Literal, TypeVar

from sandboxio.agent.protocol import Answer, Frame, ProtocolViolation

T = TypeVar("T", bool, int, str)
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
    try:
        return _report(_fields(payload))
    except (KeyError, IndexError, ValueError, TypeError) as error:
        message = f"an unreadable boot report: {error!r}"
        raise ProtocolViolation(message) from error


def _fields(payload: bytes) -> dict[str, bool | int | str]:
    fields: dict[str, bool | int | str] = {}
    rest = memoryview(payload)
    while rest:
        size = rest[0]
        name, kind = bytes(rest[1 : size + 1]).decode(), rest[size + 1]
        length = int.from_bytes(rest[size + 2 : size + 6], "big")
        raw = bytes(rest[size + 6 : size + 6 + length])
        if len(raw) < length:
            message = "it ends early"
            raise ValueError(message)
        fields[name] = _DECODERS[kind](raw)
        rest = rest[size + 6 + length :]
    return fields


def _integer(raw: bytes) -> int:
    if len(raw) != 8:
        message = "an integer of the wrong size"
        raise ValueError(message)
    return int.from_bytes(raw, "big", signed=True)


_DECODERS: Mapping[int, Callable[[bytes], bool | int | str]] = {
    ord("b"): lambda raw: raw == b"\1",
    ord("i"): _integer,
    ord("s"): lambda raw: raw.decode("utf-8", "surrogateescape"),
}


def _report(fields: Mapping[str, bool | int | str]) -> BootReport:
    def get(name: str, kind: type[T]) -> T:
        value = fields[name]
        if type(value) is not kind:
            message = f"{name} is {value!r}"
            raise ValueError(message)
        return value

    def words(name: str) -> tuple[str, ...]:
        text = get(name, str)
        return tuple(text.split("\0")) if text else ()

    notes: list[str] = []
    foreign = _worst(
        _probe("x32", get("x32", int), notes, get("machine", str)),
        _probe("foreign", get("foreign", int), notes, get("machine", str)),
    )
    return BootReport(
        python=get("python", str),
        machine=get("machine", str),
        pid=get("pid", int),
        uid=get("uid", int),
        gid=get("gid", int),
        uid_map=get("uid_map", str),
        gid_map=get("gid_map", str),
        capabilities=get("capabilities", int),
        bounding=get("bounding", int),
        no_new_privileges=get("no_new_privileges", bool),
        has_ctypes=get("has_ctypes", bool),
        subreaper=get("subreaper", bool),
        dumpable=get("dumpable", str),
        memory_closed=get("memory", int) in (errno.EACCES, errno.EPERM),
        seccomp=get("seccomp", str),
        vsock=_probe("vsock", get("vsock", int), notes, ""),
        io_uring=_probe("io_uring", get("io_uring", int), notes, ""),
        foreign=foreign,
        probe_notes="; ".join(notes),
        interfaces=None if fields["interfaces"] == "?" else words("interfaces"),
        cwd=get("cwd", str),
        workdir=get("workdir", str),
        has_shell=get("has_shell", bool),
        hosts=get("hosts", str),
        oom_score=get("oom_score", bool),
        counters=words("counters"),
    )


def _probe(name: str, outcome: int, notes: list[str], machine: str) -> Probe:
    """Translate what an attempt gave: 0 it worked, an errno, minus a signal that ended it, or -1: not tried."""
    if outcome == 0:
        return "possible"
    if outcome > 0:
        return "refused"
    if outcome == -1:
        notes.append(f"{name} was not tried" + (f" on {machine}" if machine else ""))
        return "unknown"
    notes.append(f"{name} ended in signal {-outcome}: the kernel has no such entry, or ends who uses it")
    return "refused"


def _worst(first: Probe, second: Probe) -> Probe:
    for probe in ("possible", "unknown"):
        if probe in (first, second):
            return probe
    return "refused"
