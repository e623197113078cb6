"""The agent's first second: close itself to user code, look around, report, serve."""

from __future__ import annotations

import errno
import gc
import posix as os
import sys

from .agent import Agent
from .launch import PATH, Score, raise_oom_score
from .native import DUMPABLE, GET_NO_NEW_PRIVILEGES, NATIVE, SUBREAPER, X32, Native, filter_program
from .wire import BOOT, leave, read_exactly, slurp, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterator
    from typing import NoReturn
else:
    import _signal as signal

MACHINE = os.uname().machine
LOCALHOST = b"127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"


def reason(error: OSError) -> str:
    """Return the kernel's words."""
    return os.strerror(error.errno or errno.EIO)


def close_memory(native: Native | None, reborn: bool, again: Callable[[], bytes]) -> str:
    """Close this process's memory and descriptors to others of its user, before any of their code runs."""
    if native:
        return "prctl" if native.prctl(DUMPABLE, 0) else "open"
    if reborn:
        return "memfd"
    try:  # a program that its user may execute and not read is not dumpable
        program = os.memfd_create("python", os.MFD_CLOEXEC)
        write_all(program, slurp("/proc/self/exe"))
        sealed = os.open("/proc/self/fd/%d" % program, os.O_RDONLY | os.O_CLOEXEC)
        os.close(program)  # what is open for writing can't be executed
        os.fchmod(sealed, 0o111)
        rest = os.memfd_create("agent", 0)
        write_all(rest, again())
        os.lseek(rest, 0, 0)
        argv = [*slurp("/proc/self/cmdline").split(b"\0")[:5], b"%d" % rest]
        os.execve("/proc/self/fd/%d" % sealed, argv, os.environ)
    except (OSError, AttributeError):
        return "open"


def notice(_number: int, _frame: object) -> None:
    """The signal's only use is that its number appears in the pipe that wakes the loop."""


def ignore_signals() -> None:
    """Commands of the same user may send any; those that can't be ignored don't reach a first process."""
    for number in signal.valid_signals():
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, notice)


def install_filter(native: Native | None) -> str:
    """Install the filter for this process and so for every command."""
    program = filter_program(MACHINE, os.getpid())
    if native is None or program is None:
        return "no filter for this processor" if native else "this Python has no ctypes"
    try:
        native.install_filter(program)
    except OSError as error:
        return reason(error)
    return "on"


def raise_files_limit() -> tuple[int, int] | None:
    """Let the agent hold the pipes of a thousand commands; they get the old limit back."""
    try:
        import resource

        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    except (ImportError, OSError, ValueError):
        return None
    return limits


def probe(native: Native | None) -> dict[str, int]:
    """Try, in a child, what a command may or may not do; 0 = it worked, -1 = not tried, else errno, or minus a signal.

    Its attempt at this process's memory is one more user's process of the same user, as any command would be.
    """
    names = ("oom", "memory", "descriptors", "vsock", "io_uring", "x32", "foreign")
    result, result_in = os.pipe()
    agent = os.getpid()
    pid = os.fork()
    if pid == 0:
        for outcome in attempts(native, agent):
            os.write(result_in, b"%d " % outcome)
        leave(0)
    os.close(result_in)
    found = [int(word) for word in read_exactly(result, 4096).split()]
    os.close(result)
    status = os.waitpid(pid, 0)[1]
    if status:
        found.append(-(status & 0x7F))
    return {name: found[index] if index < len(found) else -1 for index, name in enumerate(names)}


def attempts(native: Native | None, agent: int) -> Iterator[int]:
    """Make one attempt after the other; the last may be fatal."""
    yield outcome_of(lambda: raise_oom_score("self"))
    yield outcome_of(lambda: os.close(os.open("/proc/%d/mem" % agent, os.O_RDONLY)))
    yield outcome_of(lambda: os.close(os.open("/proc/%d/fd/1" % agent, os.O_WRONLY | os.O_NONBLOCK)))
    if native is None:
        try:
            from _socket import socket
        except ImportError:
            return
        yield outcome_of(lambda: socket(40, 1, 0).close())
        return
    call = native.call
    yield outcome_of(lambda: call("syscall", NATIVE[MACHINE][1], 40, 1, 0)) if MACHINE in NATIVE else -1
    refusal = outcome_of(lambda: call("syscall", 425, 1, 0))
    yield 0 if refusal in (errno.EFAULT, errno.EINVAL) else refusal
    if MACHINE != "x86_64":
        return
    yield outcome_of(lambda: call("syscall", X32 + 39))  # getpid
    try:
        answer = native.run_machine_code(b"\xb8\x14\0\0\0\xcd\x80\xc3")  # mov eax, 20 (getpid); int 0x80; ret
    except OSError:
        return
    answer = (answer & 0xFFFFFFFF) - (1 << 32)
    yield -answer if answer >= -4096 else 0


def is_read_only(place: bytes) -> bool:
    """Tell whether what is mounted there is read-only; gVisor's statvfs does not say."""
    options = b""
    for line in slurp("/proc/self/mounts").split(b"\n"):
        fields = line.split(b" ")
        if len(fields) > 3 and fields[1] == place:
            options = fields[3]
    return b"ro" in options.split(b",")


def kernel_log(native: Native | None) -> bytes:
    """Return the beginning of the kernel's log: gVisor's own kernel hands out its own, Linux keeps its from a container."""
    if native is None:
        return b""
    held = native.buffer(bytes(256))
    try:
        count = native.call("klogctl", 3, native.api.addressof(held), 256)
    except OSError:
        return b""
    return bytes(memoryview(held).cast("B")[:count]).replace(b"\0", b"")


def outcome_of(attempt: Callable[[], object]) -> int:
    """Return 0 or the errno of the refusal."""
    try:
        attempt()
    except OSError as error:
        return error.errno or errno.EPERM
    return 0


def ensure_localhost() -> str:
    """Write the lines that an engine leaves out where a container has no network at all."""
    if b"localhost" in slurp("/etc/hosts"):
        return "present"
    try:
        fd = os.open("/etc/hosts", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        write_all(fd, LOCALHOST)
        os.close(fd)
    except OSError as error:
        return reason(error)
    return "written"


def prepare_workdir(wanted: bytes) -> tuple[bytes, str]:
    """Return the default working directory, and what became of the wanted one."""
    here = os.getcwdb()
    path = wanted or (b"/work" if here == b"/" else here)
    answer = "present" if os.access(path, os.F_OK) else "made"
    try:
        if answer == "made":
            from .paths import make_folders

            make_folders(path)
    except OSError as error:
        return here, reason(error)
    return path, answer if os.access(path, os.W_OK | os.X_OK) else "not writable"


def observe(agent: Agent, dumpable: str, filtered: str) -> bytes:
    """Return the boot report; files go as they are, reading them is the host's."""
    cwd, workdir = prepare_workdir(agent.workdir)
    folders = os.environ.get(b"PATH", PATH).split(b":")
    fields: dict[str, str | bytes | int] = {
        "python": "%d.%d.%d" % sys.version_info[:3],
        "machine": MACHINE,
        "pid": agent.pid,
        "uid": os.geteuid(),
        "gid": os.getegid(),
        "uid_map": slurp("/proc/self/uid_map"),
        "gid_map": slurp("/proc/self/gid_map"),
        "status": slurp("/proc/self/status"),
        # gVisor's status has no such line: there it is always so.
        "no_new_privs": int(agent.native is not None and agent.native.holds(GET_NO_NEW_PRIVILEGES)),
        "read_only": int(is_read_only(b"/")),
        "kernel_log": kernel_log(agent.native),
        "net_dev": slurp("/proc/net/dev")[:16384],
        "has_ctypes": int(agent.native is not None),
        "dumpable": dumpable,
        "seccomp": filtered,
        "cwd": cwd,
        "workdir": workdir,
        "has_shell": int(any(os.access(folder + b"/sh", os.X_OK) for folder in folders)),
        "hosts": ensure_localhost(),
        "memory_events": int(agent.counters.fds[0] >= 0),
        "pids_events": int(agent.counters.fds[1] >= 0),
    }
    fields.update(probe(agent.native))
    parts: list[bytes] = []
    for name, value in fields.items():
        parts += [name.encode(), value if isinstance(value, bytes) else str(value).encode()]
    return b"\0".join(parts)


def main(settings: bytes, again: Callable[[], bytes], reborn: bool) -> NoReturn:
    """Run the agent. ``again`` returns what it was started from, should it have to start once more (``reborn``)."""
    gc.disable()  # nothing here makes cycles that matter, and a collection touches every page shared with supervisors
    try:
        native: Native | None = Native()
    except (ImportError, OSError, AttributeError):
        native = None
    score = Score()
    dumpable = close_memory(native, reborn, again)
    ignore_signals()
    if native:
        native.prctl(SUBREAPER, 1)
    filtered = install_filter(native)
    agent = Agent(native, score, settings)
    agent.files_limit = raise_files_limit()
    agent.send(BOOT, 0, observe(agent, dumpable, filtered))
    agent.flush()
    agent.run()
