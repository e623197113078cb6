"""The agent: the program inside a sandbox that starts commands and serves files; standard library only.

It is sent over stdin and never stored (`bootstrap.py`), runs on Python 3.8 and later, also without `ctypes`, `json` and
`resource`, as the sandbox's first process or as a further one. It names C modules directly: official images ship no
byte code, where `import signal` or `import ctypes` alone cost up to 100 ms.

Protocol. Both directions carry frames ``length u32, channel u32, kind u8, payload`` (big-endian, payload ≤ 64 KiB). The
host numbers channels upwards from 1 and uses each once, for one command or one file operation.

Host → agent. START ``flags u8 (1 = stdin stays open), window u32, spec length u32, code length u64`` and the first bytes
of the *body* (spec, then code), whose rest and then stdin come as DATA; the spec is joined by NUL: cwd ("" = default),
user ("" = own), number of arguments, arguments, then ``NAME=value`` each. EOF ends stdin or a written file. CREDIT u32
allows that much more output. KILL ends a command's tree. READ, WRITE (``mode u32 (all ones = default), modified f64 (NaN
= now), path``), LIST, STAT, MKDIR, REMOVE (``flag u8 (1 = parents, recursive), path``) are file operations; READ and LIST
start with ``window u32``. ABORT gives one up. DETACH: from now on only the lifetime ends the agent.

Agent → host. BOOT (first, once): fields ``name length u8, name, type u8 (i, b, s), value length u32, value``. STARTED
``pid u32``, or FAILED ``stage u8 (1 cwd, 2 user, 3 no process can be had, 4 supervisor lost), errno u32``. OUT and ERR:
output, within the credit. END ``u8 (0 stdout, 1 stderr)``: no more of it. EXIT ``wait status u32, flags u8 (1 an OOM kill
happened meanwhile, 2 a fork was refused, 4 we killed it, 8 status unknown)`` comes as soon as the command itself ended;
what it had written still follows, then END. KILLED ``u8 (t = its whole tree ended, s = not certain: end the sandbox)``.
GRANT u32 allows that much more DATA (256 KiB at first). GONE: nobody reads stdin. DONE ``errno u32, payload`` ends a
file operation. OUT of LIST and the payload of STAT are entries ``flags u8 (1 directory, 2 link), mode u32, size u64,
modified f64, name length u16, name``. DETACHED answers DETACH.

A command has a *supervisor*: a process forked beforehand, waiting, that becomes the reaper of all that descends from the
command, starts it, reports its end, and on KILL stops and kills descendants until none is left, without a fork.
"""
# ruff: noqa: S102, S103, S104, S108, PTH, ANN401, BLE001, PLW0603, TRY, EM, SIM105, SIM115, N806
from __future__ import annotations

import errno
import gc
import posix as os
import select
import sys
import time
from _struct import Struct, pack, unpack_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Generator, Iterable
    from typing import Any, NoReturn
else:
    import _signal as signal
try:
    import fcntl
except ImportError:  # pragma: no cover
    fcntl = None  # type: ignore[assignment]
try:
    import resource
except ImportError:
    resource = None  # type: ignore[assignment]

START, DATA, EOF, CREDIT, KILL, READ, WRITE, LIST, STAT, MKDIR, REMOVE, ABORT, DETACH = range(1, 14)
BOOT, STARTED, FAILED, OUT, ERR, END, EXIT, KILLED, GRANT, GONE, DONE, DETACHED = range(32, 44)
BAD_CWD, BAD_USER, NO_PROCESS, LOST = 1, 2, 3, 4
OOM, NO_FORK, BY_US, UNKNOWN = 1, 2, 4, 8
HEADER = Struct(">IIB")
START_HEAD = Struct(">BIIQ")
BODY_HEAD = Struct(">BIQ")
ENTRY = Struct(">BIQdH")
REPORT = Struct(">BIiI")  # what a supervisor says: kind, its pid, two numbers
CHUNK = 65536
WINDOW = 262144  # of DATA that the host may send beyond what was granted
UPLOAD_WINDOW = 1048576
BULK_LIMIT = 262144  # output waiting for the host: above it no pipe is read
URGENT_LIMIT = 1048576  # answers waiting for the host: above it no request is read
POOL = 1
KILL_TIME = 3.0  # seconds that killing one tree may take
DRAIN_PAUSE = 0.01  # a background child that floods its dropped output must not keep the agent busy
STATUS_OWNER_GONE, STATUS_PROTOCOL, STATUS_CRASH, STATUS_LIFETIME = 0, 65, 70, 124
PATH = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def regular(mode: int) -> bool:
    return mode & 0o170000 == 0o100000


def directory(mode: int) -> bool:
    return mode & 0o170000 == 0o040000


def slurp(path: str | bytes) -> bytes:
    """Return a small file's content, nothing if it can't be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    parts = []
    try:
        while True:
            part = os.read(fd, CHUNK)
            if not part:
                break
            parts.append(part)
    except OSError:
        pass
    finally:
        os.close(fd)
    return b"".join(parts)


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read_exactly(fd: int, size: int) -> bytes:
    """Return ``size`` bytes from a blocking pipe, fewer at its end."""
    parts = []
    while size:
        part = os.read(fd, min(size, CHUNK))
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def close(*fds: int) -> None:
    for fd in fds:
        if fd >= 0:
            os.close(fd)


# --- system calls without a Python name


class Native:
    """`prctl` and the like, through `_ctypes`; making one raises ImportError where Python was built without."""

    def __init__(self) -> None:
        api: Any = __import__("_ctypes")
        self.long: Any = type("Long", (api._SimpleCData,), {"_type_": "l"})
        self.char: Any = type("Char", (api._SimpleCData,), {"_type_": "c"})
        self.function: Any = type("Function", (api.CFuncPtr,), {"_flags_": 1 | 8, "_restype_": self.long})
        self.api = api
        self.libc = api.dlopen(None, 0)
        self.symbols: dict[str, Any] = {}

    def call(self, name: str, *values: int) -> int:
        """Call a function of the C library; -1 becomes OSError."""
        found = self.symbols.get(name)
        if found is None:
            found = self.symbols[name] = self.function(self.api.dlsym(self.libc, name))
        result: int = found(*[self.long(value) for value in values])
        if result == -1:
            number = self.api.get_errno()
            raise OSError(number, os.strerror(number))
        return result

    def buffer(self, data: bytes) -> Any:
        held = type("Buffer", (self.api.Array,), {"_type_": self.char, "_length_": len(data)})()
        memoryview(held).cast("B")[:] = data
        return held

    def prctl(self, option: int, value: int) -> int:
        return self.call("prctl", option, value, 0, 0, 0)

    def install_filter(self, program: bytes) -> None:
        self.prctl(38, 1)  # PR_SET_NO_NEW_PRIVS, without which only the privileged may install a filter
        held = self.buffer(program)
        head = self.buffer(pack("@HP", len(program) // 8, self.api.addressof(held)))
        self.call("prctl", 22, 2, self.api.addressof(head), 0, 0)  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER

    def run_machine_code(self, code: bytes) -> int:
        page = self.call("mmap", 0, 4096, 7, 0x22, -1, 0)
        held = self.buffer(code)
        self.call("memcpy", page, self.api.addressof(held), len(code))
        result: int = self.function(page)()
        return result


def filter_program(machine: str) -> bytes | None:
    """Return the system call filter of all commands: what an egress rule of a network namespace does not see.

    Socket families other than unix, inet, inet6 and netlink (vsock reaches the host past any namespace), io_uring and
    every foreign architecture (both got around a filter on `socket` alone).
    """
    known = {"x86_64": (0xC000003E, 41, 53), "aarch64": (0xC00000B7, 198, 199)}.get(machine)
    if known is None:
        return None
    arch, socket, socketpair = known
    allow, refuse, no_family = (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x50000 | errno.EPERM), 0x50000 | errno.EAFNOSUPPORT
    code = [(0x20, 0, 0, 4), (0x15, 1, 0, arch), refuse, (0x20, 0, 0, 0)]
    if machine == "x86_64":
        code += [(0x35, 0, 1, 0x40000000), refuse]  # x32
    for number in (425, 426, 427):  # io_uring_setup, _enter, _register
        code += [(0x15, 0, 1, number), refuse]
    code += [(0x15, 2, 0, socket), (0x15, 1, 0, socketpair), allow, (0x20, 0, 0, 16)]
    for family in (1, 2, 10, 16):
        code += [(0x15, 0, 1, family), allow]
    code.append((0x06, 0, 0, no_family))
    return b"".join([pack("=HBBI", *line) for line in code])


# --- process trees

HAS_CHILDREN_FILE = False  # /proc/…/children; set at boot


def parents() -> dict[int, list[int]]:
    """Map each process to its children, by one look over all of /proc."""
    found: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            stat = slurp("/proc/" + name + "/stat")
            if stat:
                found.setdefault(int(stat[stat.rindex(b")") + 2 :].split(None, 2)[1]), []).append(int(name))
    return found


def children(pid: int) -> list[int]:
    found: list[int] = []
    base = "/proc/%d/task" % pid
    try:
        tasks = os.listdir(base)
    except OSError:
        return found
    for task in tasks:
        found += [int(child) for child in slurp("%s/%s/children" % (base, task)).split()]
    return found


def send_signal(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except OSError as error:
        return error.errno == errno.ESRCH
    return True


def sweep(root: int, number: int) -> list[int]:
    """Signal every descendant of ``root``, each before its own children are looked for; return them."""
    table = None if HAS_CHILDREN_FILE else parents()
    found: list[int] = []
    queue = [root]
    for pid in queue:  # grows while it is walked
        for child in children(pid) if table is None else table.get(pid, ()):
            if child not in found[-64:] or child not in found:
                send_signal(child, number)
                found.append(child)
                queue.append(child)
    return found


def freeze(root: int, until: float) -> tuple[set[int], bool]:
    """Stop descendants until none is left that could start another; return them, and whether that was reached."""
    seen: set[int] = set()
    while time.monotonic() < until:
        fresh = set(sweep(root, signal.SIGSTOP)) - seen
        if not fresh:
            return seen, True
        seen |= fresh
    return seen, False


# --- the supervisor: a process per command


class StartError(Exception):
    def __init__(self, stage: int, number: int) -> None:
        super().__init__(stage, number)
        self.stage = stage
        self.number = number


def find_user(text: bytes) -> tuple[int, int, list[int], bytes]:
    """Return uid, gid, groups and home of ``name``, ``uid`` or ``uid:gid``."""
    name, _, wanted_group = text.partition(b":")
    uid = gid = -1
    home = b"/"
    for line in slurp("/etc/passwd").split(b"\n"):
        part = line.split(b":")
        if len(part) >= 6 and name in (part[0], part[2]) and part[2].isdigit() and part[3].isdigit():
            name, uid, gid, home = part[0], int(part[2]), int(part[3]), part[5]
            break
    else:
        if not name.isdigit():
            raise StartError(BAD_USER, errno.ENOENT)
        uid = gid = int(name)
    groups = []
    for line in slurp("/etc/group").split(b"\n"):
        part = line.split(b":")
        if len(part) >= 4 and part[2].isdigit():
            if wanted_group in (part[0], part[2]):
                gid, wanted_group = int(part[2]), b""
            elif name in part[3].split(b","):
                groups.append(int(part[2]))
    if wanted_group:
        if not wanted_group.isdigit():
            raise StartError(BAD_USER, errno.ENOENT)
        gid = int(wanted_group)
    return uid, gid, [gid, *groups], home


def become(text: bytes, native: Native | None) -> bytes | None:
    """Switch to a user; return the home directory if that changed anything."""
    uid, gid, groups, home = find_user(text)
    if (uid, gid) == (os.geteuid(), os.getegid()):
        return None
    try:
        os.setgroups(groups)
        os.setgid(gid)
        os.setuid(uid)
    except OSError as error:
        raise StartError(BAD_USER, error.errno or errno.EPERM) from None
    if native:
        native.prctl(4, 0)  # a switch resets it
    return home


def candidates(program: bytes, path: bytes) -> Iterable[bytes]:
    """Return the paths to try, in order: like `execvp`, but only what exists and may be executed."""
    if b"/" in program:
        return [program]
    found = []
    for folder in path.split(b":"):
        full = (folder or b".") + b"/" + program
        try:
            if regular(os.stat(full).st_mode) and os.access(full, os.X_OK):
                return [full]
            found.append(full)
        except OSError:
            pass
    return found[:1]


def spawn(argv: list[bytes], env: dict[bytes, bytes]) -> int:
    """Start a program in a session of its own, all signals as a program expects them."""
    paths = candidates(argv[0], env.get(b"PATH", PATH))
    if not paths:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    every = [number for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP)]
    try:
        return os.posix_spawn(next(iter(paths)), argv, env, setsigmask=(), setsigdef=every, setsid=True)
    except NotImplementedError:
        return os.posix_spawn(next(iter(paths)), argv, env, setsigmask=(), setsigdef=every, setpgroup=0)


class Supervisor:
    """One command's supervisor; it lives until the command and all that descends from it ended."""

    def __init__(self, native: Native | None, ctl: int, report: int, stdio: tuple[int, int, int]) -> None:
        self.native = native
        self.ctl = ctl
        self.report = report
        self.stdio = stdio
        self.pid = os.getpid()
        self.leader = 0
        self.code_fd = -1
        self.feed = -1  # where code goes if it can't be held in memory
        os.setsid()
        if native:
            try:
                native.prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
            except OSError:
                pass
        self.wake, wake = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        raise_oom_score("self")

    def say(self, kind: bytes, first: int, second: int = 0) -> None:
        os.write(self.report, REPORT.pack(kind[0], self.pid, first, second))

    def run(self) -> None:
        head = read_exactly(self.ctl, BODY_HEAD.size)
        if len(head) < BODY_HEAD.size:
            return
        flags, spec_size, code_size = BODY_HEAD.unpack(head)
        if not flags & 1:
            os.close(self.stdio[0])
            self.stdio = (-1, *self.stdio[1:])
        spec = read_exactly(self.ctl, spec_size)
        if len(spec) < spec_size:
            return
        try:
            self.start(spec.split(b"\0"), code_size)
        except StartError as failure:
            self.say(b"f", failure.stage, failure.number)
            return
        except OSError as error:
            self.say(b"f", NO_PROCESS, error.errno or 0)
            return
        if self.leader:
            self.say(b"s", self.leader)
            self.feed_code(code_size)
            self.watch()

    def start(self, fields: list[bytes], code_size: int) -> None:
        cwd, user, count = fields[0], fields[1], int(fields[2])
        argv, extra = fields[3 : 3 + count], fields[3 + count :]
        env = dict(os.environ)
        if user:
            home = become(user, self.native)
            if home is not None:
                env[b"HOME"] = home
        env.update([item.partition(b"=")[::2] for item in extra])
        try:
            os.chdir(cwd)
        except OSError as error:
            raise StartError(BAD_CWD, error.errno or errno.ENOENT) from None
        if code_size:
            path = self.hold_code(code_size)
            argv = [path if item == b"{code}" else item for item in argv]
        self.take_stdio()
        try:
            self.leader = spawn(argv, env)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.ENOMEM):
                raise
            self.say(b"s", 0)
            text = b"sandboxio: " + argv[0][:2048] + b": " + os.strerror(error.errno or 0).encode() + b"\n"
            write_all(2, text)
            self.say(b"x", (127 if error.errno in (errno.ENOENT, errno.ENOTDIR) else 126) << 8)
        finally:
            close(0, 1, 2, *[fd for fd in (*self.stdio, self.code_fd) if fd > 2])
        if self.leader:
            raise_oom_score(str(self.leader))

    def take_stdio(self) -> None:
        """Make the pipes this process's 0, 1 and 2; a command without stdin gets the null device."""
        for number, fd in enumerate(self.stdio):
            source = fd if fd >= 0 else os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
            if source == number:
                os.set_inheritable(number, True)
            else:
                os.dup2(source, number, True)
                if fd < 0:
                    os.close(source)

    def hold_code(self, size: int) -> bytes:
        """Take the code to where the interpreter can read it by a path; nothing is written to the file system."""
        if hasattr(os, "memfd_create"):
            self.code_fd = os.memfd_create("code", 0)
            while size:
                part = os.read(self.ctl, min(size, CHUNK))
                if not part:
                    raise StartError(LOST, errno.EPIPE)
                write_all(self.code_fd, part)
                size -= len(part)
            os.lseek(self.code_fd, 0, 0)
        else:
            self.code_fd, self.feed = os.pipe()
            os.set_inheritable(self.code_fd, True)
        return b"/proc/self/fd/%d" % self.code_fd

    def feed_code(self, size: int) -> None:
        if self.feed < 0:
            return
        try:
            while size:
                part = os.read(self.ctl, min(size, CHUNK))
                size = size - len(part) if part else 0
                write_all(self.feed, part)
        except OSError:  # the command read no more of it
            read_exactly(self.ctl, size)
        os.close(self.feed)

    def watch(self) -> None:
        poll = select.poll()
        poll.register(self.ctl, select.POLLIN)
        poll.register(self.wake, select.POLLIN)
        while self.reap():
            for fd, _ in poll.poll():
                if fd == self.wake:
                    drain(self.wake)
                elif self.obey(os.read(self.ctl, 16)):
                    return

    def obey(self, order: bytes) -> bool:
        """Carry out what came; true if this process's work is over. No order at all: the agent is gone."""
        if order[:1] == b"L":
            return True
        done = self.kill_all()
        if order:
            self.say(b"k", done)
        return done

    def reap(self) -> bool:
        """Take in what ended; false if no descendant is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.leader:
                self.leader = -1
                self.say(b"x", status)

    def kill_all(self) -> bool:
        until = time.monotonic() + KILL_TIME
        seen, _ = freeze(self.pid, until)
        for pid in seen:
            send_signal(pid, signal.SIGKILL)
        poll = select.poll()
        poll.register(self.wake, select.POLLIN)
        while self.reap():
            if time.monotonic() > until:
                return False
            sweep(self.pid, signal.SIGKILL)
            poll.poll(2)
            drain(self.wake)
        return True


def raise_oom_score(pid: str) -> bool:
    """Make a process (and what it starts) the kernel's choice before the agent; only its user or root may."""
    try:
        fd = os.open("/proc/%s/oom_score_adj" % pid, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(fd, b"500")
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def drain(fd: int) -> None:
    try:
        while len(os.read(fd, 4096)) == 4096:
            pass
    except BlockingIOError:
        pass


# --- the agent's side of a command


class Handle:
    """A supervisor as the agent holds it."""

    def __init__(self, pid: int, ctl: int, stdin: int, stdout: int, stderr: int) -> None:
        self.pid = pid
        self.ctl = ctl
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.command: Command | None = None


class Sink:
    """The writing end of a pipe whose reader may be slow."""

    def __init__(self, agent: Agent, fd: int, written: Callable[[int], None], broken: Callable[[], None]) -> None:
        self.agent = agent
        self.fd = fd
        self.written = written
        self.broken = broken
        self.waiting: list[bytes] = []
        self.watched = False
        self.ending = False

    def write(self, data: bytes) -> None:
        if self.fd >= 0:
            self.waiting.append(data)
            if not self.watched:
                self.pump()

    def end(self) -> None:
        self.ending = True
        if not self.waiting:
            self.close()

    def pump(self, _events: int = 0) -> None:
        count = 0
        try:
            while self.waiting:
                done = os.write(self.fd, self.waiting[0])
                count += done
                if done < len(self.waiting[0]):
                    self.waiting[0] = self.waiting[0][done:]
                    continue
                del self.waiting[0]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            self.broken()
            return
        if count:
            self.written(count)
        if self.waiting and not self.watched:
            self.watched = True
            self.agent.watch(self.fd, select.EPOLLOUT, self.pump)
        elif not self.waiting and self.watched:
            self.watched = False
            self.agent.unwatch(self.fd)
        if self.ending and not self.waiting:
            self.close()

    def close(self) -> None:
        if self.fd >= 0:
            if self.watched:
                self.agent.unwatch(self.fd)
                self.watched = False
            os.close(self.fd)
            self.fd = -1
        self.waiting.clear()


class Source:
    """The reading end of a command's stdout or stderr."""

    def __init__(self, command: Command, fd: int, number: int) -> None:
        self.command = command
        self.agent = command.agent
        self.fd = fd
        self.number = number
        self.left = -1  # bytes still to deliver once the command ended
        self.ended = False  # END was sent; what still comes is dropped
        self.listening = False

    def listen(self, wanted: bool) -> None:
        """Watch the pipe or not. A pipe without credit isn't watched at all: its hang-up would be told for ever."""
        if wanted != self.listening and self.fd >= 0:
            self.listening = wanted
            if wanted:
                self.agent.pipes.register(self.fd, select.EPOLLIN)
                self.agent.sources[self.fd] = self
            else:
                self.agent.pipes.unregister(self.fd)
                del self.agent.sources[self.fd]

    def update(self) -> None:
        self.listen(self.ended or self.command.credit > 0)

    def read(self) -> None:
        size = CHUNK if self.ended else min(CHUNK, self.command.credit)
        if not self.ended and self.left >= 0:
            size = min(size, self.left)
        try:
            data = os.read(self.fd, size)
        except BlockingIOError:
            return
        if not data:
            self.finish()
            self.close()
        elif self.ended:
            if len(data) == CHUNK:
                self.listen(False)
                self.agent.later(DRAIN_PAUSE, self.update)
        else:
            self.command.deliver(OUT + self.number, data)
            if self.left >= 0:
                self.left -= len(data)
                if self.left == 0:
                    self.finish()

    def command_ended(self) -> None:
        """Deliver what is in the pipe now and nothing after it: a background child may hold the pipe for ever."""
        if self.fd < 0 or self.ended:
            return
        self.left = pending(self.fd)
        if self.left == 0:
            self.finish()

    def finish(self) -> None:
        if not self.ended:
            self.ended = True
            self.agent.send_bulk(END, self.command.channel, bytes([self.number]))
            if self.fd >= 0:
                self.update()

    def close(self) -> None:
        self.listen(False)
        os.close(self.fd)
        self.fd = -1
        self.command.forget_if_over()


def pending(fd: int) -> int:
    """Return how many bytes a pipe holds."""
    if fcntl is None:  # pragma: no cover
        return CHUNK
    return int.from_bytes(fcntl.ioctl(fd, 0x541B, bytes(4)), sys.byteorder)  # FIONREAD


class Command:
    """One command of the host's, from START until nothing of it is left."""

    def __init__(self, agent: Agent, channel: int, handle: Handle, keep_stdin: bool, window: int, body: int) -> None:
        self.agent = agent
        self.channel = channel
        self.handle: Handle | None = handle
        self.credit = window
        self.body_left = body
        self.taken = -BODY_HEAD.size
        self.leader = 0
        self.started = self.exited = self.killing = False
        self.begun = time.monotonic()
        self.counts = agent.count_events()
        self.ctl = Sink(agent, handle.ctl, self.grant, self.nothing)
        self.stdin = Sink(agent, handle.stdin, self.grant, self.stdin_broken)
        self.streams = (Source(self, handle.stdout, 0), Source(self, handle.stderr, 1))
        self.strays_before = set() if agent.native else agent.strays()
        if not keep_stdin:
            self.stdin.close()

    def nothing(self) -> None:
        """A supervisor that takes no more orders ended; `Agent.reap` learns of it."""

    def grant(self, count: int) -> None:
        self.taken += count
        if self.taken >= WINDOW // 4 and not self.exited:
            self.agent.send(GRANT, self.channel, pack(">I", self.taken))
            self.taken = 0

    def stdin_broken(self) -> None:
        if not self.exited:
            self.agent.send(GONE, self.channel)

    def body(self, data: bytes) -> None:
        self.body_left -= len(data)
        self.ctl.write(data)

    def data(self, payload: bytes) -> None:
        if self.body_left:
            head, payload = payload[: self.body_left], payload[self.body_left :]
            self.body(head)
        if payload:
            self.stdin.write(payload)

    def deliver(self, kind: int, data: bytes) -> None:
        self.credit -= len(data)
        self.agent.send_bulk(kind, self.channel, data)
        if self.credit <= 0:
            self.update()

    def update(self) -> None:
        for stream in self.streams:
            stream.update()

    def has_started(self, leader: int) -> None:
        self.started = True
        self.leader = leader
        self.agent.send(STARTED, self.channel, pack(">I", leader))
        self.update()

    def fail(self, stage: int, number: int) -> None:
        self.started = self.exited = True
        self.agent.send(FAILED, self.channel, pack(">BI", stage, number))
        for stream in self.streams:
            stream.ended = True
            stream.update()
        self.stdin.close()

    def has_exited(self, status: int, flags: int = 0) -> None:
        self.exited = True
        oom, forks = self.agent.count_events()
        flags |= (OOM if oom > self.counts[0] else 0) | (NO_FORK if forks > self.counts[1] else 0)
        flags |= BY_US if self.killing else 0
        self.agent.send(EXIT, self.channel, pack(">IB", status, flags))
        self.stdin.close()
        for stream in self.streams:
            stream.command_ended()
        self.agent.refill_soon(0)

    def kill(self) -> None:
        self.killing = True
        handle = self.handle
        if handle is None:
            self.kill_from_outside()
        elif self.body_left:  # the supervisor still waits for what it should start
            send_signal(handle.pid, signal.SIGKILL)
        else:
            self.ctl.write(b"K")
            send_signal(handle.pid, signal.SIGCONT)
            self.agent.later(0.5, self.kill_if_supervisor_stopped)
            self.agent.later(KILL_TIME + 1, self.kill_from_outside)

    def kill_if_supervisor_stopped(self) -> None:
        """User code may have stopped the supervisor."""
        handle = self.handle
        if self.killing and handle is not None:
            stat = slurp("/proc/%d/stat" % handle.pid)
            if stat[stat.rfind(b")") + 2 :][:1] in (b"T", b"t"):
                self.kill_from_outside()

    def kill_from_outside(self) -> None:
        """Kill without the supervisor, which is gone or does not answer."""
        if not self.killing:
            return
        root = self.handle.pid if self.handle else self.leader if not self.exited else 0
        certain = True
        if root:
            send_signal(root, signal.SIGSTOP)
            seen, certain = freeze(root, time.monotonic() + KILL_TIME)
            for pid in (*seen, root):
                send_signal(pid, signal.SIGKILL)
        if self.handle is None and self.agent.strays():
            certain = False
        self.killed(certain)

    def killed(self, certain: bool) -> None:
        if not self.killing:
            return
        if certain and not self.agent.native:
            certain = self.kill_strays()
        self.killing = False
        for stream in self.streams:
            stream.finish()
        self.agent.send(KILLED, self.channel, b"t" if certain else b"s")
        self.forget_if_over()

    def kill_strays(self) -> bool:
        """Without a subreaper orphans fell to the first process: they are ours only if nobody else's they can be."""
        strays = self.agent.strays() - self.strays_before
        if not strays:
            return True
        if self.strays_before or self.agent.others_lived(self):
            return False
        for _ in range(64):
            for pid in strays:
                send_signal(pid, signal.SIGSTOP)
                for child in freeze(pid, time.monotonic() + 0.5)[0]:
                    send_signal(child, signal.SIGKILL)
                send_signal(pid, signal.SIGKILL)
            self.agent.reap()
            strays = self.agent.strays()
            if not strays:
                return True
            time.sleep(0.001)
        return False

    def supervisor_ended(self) -> None:
        """Go on without it: whatever it supervised is now the agent's own child, if the agent is a reaper."""
        self.handle = None
        self.ctl.close()
        if not self.started:
            self.fail(LOST, 0)
        elif not self.exited:
            try:
                pid, status = os.waitpid(self.leader, os.WNOHANG)
                if pid:
                    self.has_exited(status)
                else:
                    self.agent.leaders[self.leader] = self
            except ChildProcessError:
                self.has_exited(signal.SIGKILL, UNKNOWN)
        if self.killing:
            self.kill_from_outside()
        self.forget_if_over()

    def forget_if_over(self) -> None:
        if self.exited and self.handle is None and all(stream.fd < 0 for stream in self.streams):
            self.agent.commands.pop(self.channel, None)
            self.agent.last_over = time.monotonic()


# --- files


class Job:
    """One file operation: a generator that is resumed while it yields True, and after False when something came."""

    def __init__(self, agent: Agent, channel: int, credit: int = 0) -> None:
        self.agent = agent
        self.channel = channel
        self.credit = credit
        self.inbox: list[bytes] = []
        self.ending = False
        self.steps: Generator[bool, None, bytes] | None = None

    def step(self) -> bool:
        """Go on; true if it can go on again at once."""
        assert self.steps is not None
        number, result = 0, b""
        try:
            return next(self.steps)
        except StopIteration as stop:
            result = stop.value
        except OSError as error:
            number = error.errno or errno.EIO
        except ValueError:
            number = errno.EINVAL
        self.over(number, result)
        return False

    def over(self, number: int, result: bytes = b"") -> None:
        self.agent.jobs.pop(self.channel, None)
        self.agent.send_bulk(DONE, self.channel, pack(">I", number) + result)

    def abort(self) -> None:
        assert self.steps is not None
        self.steps.close()
        self.over(errno.ECANCELED)

    def output(self, data: bytes) -> None:
        self.credit -= len(data)
        self.agent.send_bulk(OUT, self.channel, data)

    def read(self, path: bytes) -> Generator[bool, None, bytes]:
        fd = open_regular(path)
        try:
            while True:
                while self.credit <= 0:
                    yield False
                data = os.read(fd, min(CHUNK, self.credit))
                if not data:
                    return b""
                self.output(data)
                yield True
        finally:
            os.close(fd)

    def write(self, payload: bytes) -> Generator[bool, None, bytes]:
        mode, modified = unpack_from(">Id", payload)
        target = link_target(payload[12:])
        try:
            old = os.stat(target)
            refuse_irregular(old.st_mode)
            kept = old.st_mode & 0o7777
        except FileNotFoundError:
            old, kept = None, 0o666 & ~self.agent.umask
        folder = target[: target.rfind(b"/")] or b"/"
        make_folders(folder)
        temporary = b"%s/.sandboxio-%d-%d" % (folder, os.getpid(), self.channel)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            yield from self.fill(fd)
            if old is not None and (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                try:
                    os.fchown(fd, old.st_uid, old.st_gid)
                except OSError:  # only the privileged may keep a foreign owner
                    pass
            os.fchmod(fd, kept if mode == 0xFFFFFFFF else mode & 0o7777)
            if modified == modified:
                os.utime(fd, (modified, modified))
            os.rename(temporary, target)
            temporary = b""
        finally:
            os.close(fd)
            if temporary:
                os.unlink(temporary)
        return b""

    def fill(self, fd: int) -> Generator[bool, None, None]:
        while self.inbox or not self.ending:
            if not self.inbox:
                yield False
                continue
            parts, self.inbox = self.inbox, []
            for part in parts:
                write_all(fd, part)
            self.agent.send(GRANT, self.channel, pack(">I", sum(map(len, parts))))
            yield True

    def list(self, path: bytes) -> Generator[bool, None, bytes]:
        page = b""
        with os.scandir(path) as found:
            for count, item in enumerate(found):
                entry = describe(item.path, item.name)
                if len(page) + len(entry) > CHUNK:
                    while self.credit < len(page):
                        yield False
                    self.output(page)
                    page = b""
                page += entry
                if count % 64 == 63:
                    yield True
        while self.credit < len(page):
            yield False
        if page:
            self.output(page)
        return b""

    def stat(self, path: bytes) -> Generator[bool, None, bytes]:
        os.stat(path)
        yield True
        return describe(path, path)

    def mkdir(self, payload: bytes) -> Generator[bool, None, bytes]:
        yield True
        if payload[:1] == b"\1":
            make_folders(payload[1:])
        else:
            os.mkdir(payload[1:])
        return b""

    def remove(self, payload: bytes) -> Generator[bool, None, bytes]:
        path = payload[1:].rstrip(b"/")
        if not path:
            raise OSError(errno.EBUSY, "")
        yield True
        if payload[:1] == b"\1" and directory(os.lstat(path).st_mode):
            yield from remove_tree(path)
        else:
            os.unlink(path)
        return b""


def remove_tree(path: bytes) -> Generator[bool, None, None]:
    """Remove a directory with one descriptor at any depth; a name is never followed once it became a link."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    here = os.open(path, flags)
    trail: list[tuple[str, int, int]] = []
    try:
        while True:
            deeper = None
            with os.scandir(here) as found:
                for count, item in enumerate(found):
                    if item.is_dir(follow_symlinks=False):
                        deeper = item.name
                        break
                    os.unlink(item.name, dir_fd=here)
                    if count % 64 == 63:
                        yield True
            if deeper is None and not trail:
                break
            status = os.fstat(here)
            if deeper is None:
                name, device, inode = trail.pop()
                above = os.open("..", flags, dir_fd=here)
                os.close(here)
                here = above
                status = os.fstat(here)
                if (status.st_dev, status.st_ino) != (device, inode):
                    raise OSError(errno.EBUSY, "")  # moved while it was being removed
                os.rmdir(name, dir_fd=here)
            else:
                trail.append((deeper, status.st_dev, status.st_ino))
                below = os.open(deeper, flags, dir_fd=here)
                os.close(here)
                here = below
            yield True
    finally:
        os.close(here)
    os.rmdir(path)


def refuse_irregular(mode: int) -> None:
    if not regular(mode):
        raise OSError(errno.EISDIR if directory(mode) else errno.EINVAL, "")


def open_regular(path: bytes) -> int:
    """Open a regular file; what could block or act by being opened is refused before and, if swapped, after."""
    refuse_irregular(os.stat(path).st_mode)
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        refuse_irregular(os.fstat(fd).st_mode)
    except OSError:
        os.close(fd)
        raise
    return fd


def link_target(path: bytes) -> bytes:
    """Follow the links of the last component, so that a link stays and what it points to is replaced."""
    for _ in range(40):
        try:
            link = os.readlink(path)
        except OSError:
            return path
        path = link if link[:1] == b"/" else path[: path.rfind(b"/") + 1] + link
    raise OSError(errno.ELOOP, "")


def make_folders(path: bytes) -> None:
    try:
        os.mkdir(path)
    except FileExistsError:
        if not directory(os.stat(path).st_mode):
            raise
    except FileNotFoundError:
        above = path.rstrip(b"/").rpartition(b"/")[0]
        if not above:
            raise
        make_folders(above)
        os.mkdir(path)


def describe(path: str | bytes, name: str | bytes) -> bytes:
    """Encode one entry; a broken or looping link is its own mode and time with size 0."""
    status = os.lstat(path)
    flags = 2 if status.st_mode & 0o170000 == 0o120000 else 0
    size = status.st_size
    if flags:
        try:
            status = os.stat(path)
            size = status.st_size
        except OSError:
            size = 0
    if directory(status.st_mode):
        flags |= 1
    raw = name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")
    return ENTRY.pack(flags, status.st_mode & 0o7777, size, status.st_mtime, len(raw)) + raw


# --- the agent


class Agent:
    """The loop: requests from the host, output of commands, ends of processes, file operations, the lifetime."""

    def __init__(self, native: Native | None, settings: bytes) -> None:
        lifetime, bound, self.workdir = *unpack_from(">dB", settings), settings[9:]
        self.deadline = time.monotonic() + lifetime
        self.native = native
        self.pid = os.getpid()
        # What the end of stdin ends: everything, only what this agent serves, or nothing.
        self.at_eof = "all" if bound else "nothing" if self.pid == 1 else "mine"
        self.umask = os.umask(0o022)
        os.umask(self.umask)
        self.cwd = b"/"
        self.files_limit: tuple[int, int] | None = None
        self.top_fd = 64
        self.inbox = bytearray()
        self.urgent = bytearray()
        self.bulk: list[bytes] = []
        self.bulk_size = 0
        self.wire: list[Any] = []
        self.commands: dict[int, Command] = {}
        self.jobs: dict[int, Job] = {}
        self.ready: set[int] = set()
        self.handles: dict[int, Handle] = {}
        self.pool: list[Handle] = []
        self.leaders: dict[int, Command] = {}
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.sources: dict[int, Source] = {}
        self.watched: dict[int, Callable[[int], None]] = {}
        self.host_there = True
        self.last_over = 0.0
        self.counters = [open_counter(*place) for place in COUNTERS]
        self.main = select.epoll()
        self.pipes = select.epoll()
        self.wake, wake = os.pipe()
        self.report, self.report_in = os.pipe()
        for fd in (0, 1, self.wake, wake, self.report):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self.watch(0, select.EPOLLIN, self.on_host)
        self.watch(self.wake, select.EPOLLIN, self.on_signal)
        self.watch(self.report, select.EPOLLIN, self.on_report)
        self.watch(self.pipes.fileno(), select.EPOLLIN, self.on_pipes)
        self.requests: dict[int, Callable[[int, bytes], None]] = {
            START: self.on_start, DATA: self.on_data, EOF: self.on_eof, CREDIT: self.on_credit,
            KILL: self.on_kill, ABORT: self.on_abort, DETACH: self.on_detach,
        }  # fmt: skip

    # the loop

    def watch(self, fd: int, events: int, handler: Callable[[int], None]) -> None:
        if fd not in self.watched:
            self.main.register(fd, events)
        self.watched[fd] = handler

    def unwatch(self, fd: int) -> None:
        if self.watched.pop(fd, None):
            self.main.unregister(fd)

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        self.timers.append((time.monotonic() + seconds, action))

    def run(self) -> NoReturn:
        self.refill()
        while True:
            self.regulate()
            for fd, events in self.main.poll(self.patience()):
                handler = self.watched.get(fd)
                if handler:
                    handler(events)
            self.flush()
            if self.timers:
                self.run_timers()
            if time.monotonic() >= self.deadline:
                self.end(STATUS_LIFETIME)
            if self.ready and self.bulk_size < BULK_LIMIT:
                self.step_jobs()
            self.flush()

    def patience(self) -> float:
        if self.ready and self.bulk_size < BULK_LIMIT:
            return 0
        until = min([self.deadline, *[when for when, _ in self.timers]])
        return max(0.0, min(until - time.monotonic(), 86400))

    def run_timers(self) -> None:
        now = time.monotonic()
        due = [timer for timer in self.timers if timer[0] <= now]
        self.timers = [timer for timer in self.timers if timer[0] > now]
        for _, action in due:
            action()

    def regulate(self) -> None:
        """Take in only what can be passed on: a host that does not read must not make this process grow."""
        self.listen(self.pipes.fileno(), self.on_pipes, self.bulk_size < BULK_LIMIT)
        if self.host_there:
            self.listen(0, self.on_host, len(self.urgent) < URGENT_LIMIT)

    def listen(self, fd: int, handler: Callable[[int], None], wanted: bool) -> None:
        if wanted:
            if fd not in self.watched:
                self.watch(fd, select.EPOLLIN, handler)
        else:
            self.unwatch(fd)

    # to the host

    def send(self, kind: int, channel: int, payload: bytes = b"") -> None:
        """Send what goes before all waiting output."""
        if self.host_there:
            self.urgent += HEADER.pack(len(payload), channel, kind) + payload

    def send_bulk(self, kind: int, channel: int, payload: bytes) -> None:
        """Send in the order of output."""
        if self.host_there:
            self.bulk += (HEADER.pack(len(payload), channel, kind), payload)
            self.bulk_size += len(payload) + HEADER.size

    def flush(self) -> None:
        while self.host_there:
            if not self.wire:
                if self.urgent:
                    self.wire.append(bytes(self.urgent))
                    self.urgent.clear()
                self.wire += [item for item in self.bulk[:4] if item]
                self.bulk_size -= sum(map(len, self.bulk[:4]))
                del self.bulk[:4]
                if not self.wire:
                    self.unwatch(1)
                    return
            try:
                count = os.writev(1, self.wire)
            except BlockingIOError:
                self.watch(1, select.EPOLLOUT, self.nothing)
                return
            except OSError:
                self.host_lost()
                return
            while self.wire and count >= len(self.wire[0]):
                count -= len(self.wire.pop(0))
            if count:
                self.wire[0] = memoryview(self.wire[0])[count:]

    def nothing(self, _events: int) -> None:
        """Only the loop had to turn: it flushes."""

    # from the host

    def on_host(self, _events: int) -> None:
        try:
            data = os.read(0, 2 * CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.host_lost()
            return
        self.inbox += data
        start, end = 0, len(self.inbox)
        with memoryview(self.inbox) as view:
            while end - start >= HEADER.size:
                size, channel, kind = HEADER.unpack_from(view, start)
                if size > CHUNK or not START <= kind <= DETACH:
                    self.end(STATUS_PROTOCOL)
                if end - start - HEADER.size < size:
                    break
                start += HEADER.size + size
                payload = bytes(view[start - size : start])
                if READ <= kind <= REMOVE:
                    self.on_file(kind, channel, payload)
                else:
                    self.requests[kind](channel, payload)
        del self.inbox[:start]

    def host_lost(self) -> None:
        if not self.host_there:
            return
        self.host_there = False
        if self.at_eof == "all":
            self.end(STATUS_OWNER_GONE)
        if self.at_eof == "mine":
            self.end_mine()
        self.unwatch(0)
        self.unwatch(1)
        close(0, 1)
        self.bulk.clear()
        self.wire.clear()
        self.bulk_size = 0
        for job in list(self.jobs.values()):
            job.abort()
        for command in list(self.commands.values()):
            command.stdin.close()
            for stream in command.streams:
                stream.finish()

    def on_start(self, channel: int, payload: bytes) -> None:
        flags, window, spec, code = START_HEAD.unpack_from(payload)
        try:
            handle = self.pool.pop() if self.pool else self.fork()
        except OSError as error:
            self.send(FAILED, channel, pack(">BI", NO_PROCESS, error.errno or 0))
            return
        command = Command(self, channel, handle, bool(flags & 1), window, spec + code)
        handle.command = self.commands[channel] = command
        command.ctl.write(BODY_HEAD.pack(flags, spec, code))
        command.data(payload[START_HEAD.size :])
        self.refill_soon(0.005)

    def on_data(self, channel: int, payload: bytes) -> None:
        command = self.commands.get(channel)
        job = self.jobs.get(channel)
        if command:
            command.data(payload)
        elif job:
            job.inbox.append(payload)
            self.ready.add(channel)

    def on_eof(self, channel: int, _payload: bytes) -> None:
        command = self.commands.get(channel)
        job = self.jobs.get(channel)
        if command:
            command.stdin.end()
        elif job:
            job.ending = True
            self.ready.add(channel)

    def on_credit(self, channel: int, payload: bytes) -> None:
        target = self.commands.get(channel) or self.jobs.get(channel)
        if target:
            target.credit += unpack_from(">I", payload)[0]
            if isinstance(target, Command):
                target.update()
            else:
                self.ready.add(channel)

    def on_kill(self, channel: int, _payload: bytes) -> None:
        command = self.commands.get(channel)
        if command:
            command.kill()
        else:
            self.send(KILLED, channel, b"t")

    def on_file(self, kind: int, channel: int, payload: bytes) -> None:
        job = self.jobs[channel] = Job(self, channel)
        if kind in (READ, LIST):
            job.credit, payload = unpack_from(">I", payload)[0], payload[4:]
        begin = (job.read, job.write, job.list, job.stat, job.mkdir, job.remove)[kind - READ]
        job.steps = begin(payload)
        self.ready.add(channel)

    def step_jobs(self) -> None:
        for channel in list(self.ready):
            job = self.jobs.get(channel)
            if job is None or not job.step():
                self.ready.discard(channel)

    def on_abort(self, channel: int, _payload: bytes) -> None:
        job = self.jobs.get(channel)
        if job:
            job.abort()

    def on_detach(self, channel: int, _payload: bytes) -> None:
        self.at_eof = "nothing"
        self.send(DETACHED, channel)

    # processes

    def fork(self) -> Handle:
        """Fork a supervisor that waits for its command."""
        ends: list[int] = []
        try:
            for _ in range(4):
                ends += os.pipe()
            self.top_fd = max(self.top_fd, *ends)
            pid = os.fork()
        except OSError:
            close(*ends)
            raise
        ctl, ctl_in, stdin, stdin_in, stdout, stdout_in, stderr, stderr_in = ends
        if pid == 0:
            self.become_supervisor(ctl, (stdin, stdout_in, stderr_in))
        close(ctl, stdin, stdout_in, stderr_in)
        for fd in (ctl_in, stdin_in, stdout, stderr):
            os.set_blocking(fd, False)
        handle = self.handles[pid] = Handle(pid, ctl_in, stdin_in, stdout, stderr)
        return handle

    def become_supervisor(self, ctl: int, stdio: tuple[int, int, int]) -> NoReturn:
        status = STATUS_CRASH
        try:
            os.dup2(ctl, 0)  # away with the host's pipes; held, so that no other descriptor becomes 0 or 1
            os.dup2(ctl, 1)
            low = 3
            for fd in sorted((ctl, self.report_in, *stdio)):
                os.closerange(low, fd)
                low = fd + 1
            os.closerange(low, self.top_fd + 1)
            if resource and self.files_limit:
                resource.setrlimit(resource.RLIMIT_NOFILE, self.files_limit)
            Supervisor(self.native, ctl, self.report_in, stdio).run()
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        finally:
            os._exit(status)

    def refill_soon(self, seconds: float) -> None:
        self.later(seconds, self.refill)

    def refill(self) -> None:
        try:
            while len(self.pool) < POOL:
                self.pool.append(self.fork())
        except OSError:
            pass  # the next command says so

    def on_pipes(self, _events: int) -> None:
        for fd, _ in self.pipes.poll(0):
            source = self.sources.get(fd)
            if source:
                source.read()

    def on_signal(self, _events: int) -> None:
        drain(self.wake)
        self.reap()

    def on_report(self, _events: int = 0) -> None:
        try:
            data = os.read(self.report, REPORT.size * 256)
        except BlockingIOError:
            return
        for kind, pid, first, second in REPORT.iter_unpack(data):
            handle = self.handles.get(pid)
            command = handle.command if handle else None
            if command:
                if kind == 115:  # s
                    command.has_started(first)
                elif kind == 120:  # x
                    command.has_exited(first)
                elif kind == 107:  # k
                    command.killed(bool(first))
                elif kind == 102:  # f
                    command.fail(first, second)

    def reap(self) -> None:
        gone = []
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                gone.append((pid, status))
        except ChildProcessError:
            pass
        if gone:
            self.on_report()  # what a supervisor said comes before its end
        for pid, status in gone:
            handle = self.handles.pop(pid, None)
            leader = self.leaders.pop(pid, None)
            if leader:
                leader.has_exited(status)
                leader.forget_if_over()
            elif handle and handle.command:
                handle.command.supervisor_ended()
            elif handle:
                self.pool.remove(handle)
                close(handle.ctl, handle.stdin, handle.stdout, handle.stderr)

    def strays(self) -> set[int]:
        """Return processes that came to the agent (or the first process) because who started them is gone."""
        root = self.pid if self.native or self.pid == 1 else 1
        found = children(root) if HAS_CHILDREN_FILE else parents().get(root, [])
        return {pid for pid in found if pid not in self.handles and pid not in self.leaders and pid != self.pid}

    def others_lived(self, command: Command) -> bool:
        return self.last_over > command.begun or any(
            other is not command and other.handle for other in self.commands.values()
        )

    def count_events(self) -> tuple[int, int]:
        """Return how many OOM kills and refused forks the sandbox has seen."""
        values = []
        for fd, (name, _) in zip(self.counters, COUNTERS):
            data = b"\n" + os.pread(fd, 4096, 0) if fd >= 0 else b""
            _, found, rest = data.partition(b"\n" + name)
            values.append(int(rest.split(None, 1)[0]) if found else 0)
        return values[0], values[1]

    def end(self, status: int) -> NoReturn:
        """End everything this agent started, and itself; as the first process that ends the sandbox."""
        if self.pid != 1:
            until = time.monotonic() + KILL_TIME
            seen, _ = freeze(self.pid, until)
            for pid in seen:
                send_signal(pid, signal.SIGKILL)
            while self.native and sweep(self.pid, signal.SIGKILL) and time.monotonic() < until:
                self.reap_quietly()
        os._exit(status)

    def reap_quietly(self) -> None:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        time.sleep(0.001)

    def end_mine(self) -> NoReturn:
        """End the commands that still run; what successful ones left behind lives on, it belongs to the sandbox."""
        for command in self.commands.values():
            handle = command.handle
            if handle and command.exited:
                command.ctl.write(b"L")
            elif handle:
                for pid in (*freeze(handle.pid, time.monotonic() + 1)[0], handle.pid):
                    send_signal(pid, signal.SIGKILL)
        os._exit(STATUS_OWNER_GONE)


COUNTERS = (
    (b"oom_kill ", ("/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events")),
    (b"max ", ("/sys/fs/cgroup/pids/pids.events", "/sys/fs/cgroup/pids.events")),
)


def open_counter(name: bytes, paths: tuple[str, ...]) -> int:
    for path in paths:
        if name in slurp(path):
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    return -1


# --- boot


def close_memory(native: Native | None, reborn: bool, again: Callable[[], bytes]) -> str:
    """Make this process's memory and descriptors unreadable to others of its user, before any of their code runs."""
    if native:
        try:
            native.prctl(4, 0)  # PR_SET_DUMPABLE
        except OSError:
            return "open"
        return "prctl"
    if reborn:
        return "memfd"
    try:  # a program that its user may execute and not read is not dumpable
        program = os.memfd_create("python", os.MFD_CLOEXEC)
        write_all(program, slurp("/proc/self/exe"))
        sealed = os.open("/proc/self/fd/%d" % program, os.O_RDONLY | os.O_CLOEXEC)
        os.close(program)
        os.fchmod(sealed, 0o111)
        rest = os.memfd_create("agent", 0)
        write_all(rest, again())
        os.lseek(rest, 0, 0)
        arguments = [*slurp("/proc/self/cmdline").split(b"\0")[:5], b"%d" % rest]
        os.execve("/proc/self/fd/%d" % sealed, arguments, os.environ)
    except (OSError, AttributeError):
        return "open"


def ignore_signals() -> None:
    """Commands of the same user may send any signal; only SIGKILL and SIGSTOP can't be ignored (as PID 1 they can)."""
    for number in signal.valid_signals():
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            try:
                signal.signal(number, signal.SIG_IGN)
            except OSError:
                pass
    signal.signal(signal.SIGCHLD, lambda *_: None)


def install_filter(native: Native | None) -> str:
    if native is None:
        return "this Python has no ctypes"
    program = filter_program(os.uname().machine)
    if program is None:
        return "no filter for this processor"
    try:
        native.install_filter(program)
    except OSError as error:
        return os.strerror(error.errno or 0)
    return "on"


def probe(native: Native | None) -> list[int]:
    """Try, in a child, what no command may do; per attempt 0 = it worked, -1 = not tried, else the refusal's errno.

    Attempts: the agent's memory, a vsock socket, io_uring, an x32 call, a 32-bit call (last: it may be fatal, -11).
    """
    result, result_in = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        for attempt in attempts(native, parent):
            os.write(result_in, pack(">i", attempt))
        os._exit(0)
    os.close(result_in)
    data = read_exactly(result, 20)
    os.close(result)
    _, status = os.waitpid(pid, 0)
    found = [value for (value,) in Struct(">i").iter_unpack(data)]
    return (found + [-(status & 0x7F)] + [-1] * 5)[:5] if status else found


def attempts(native: Native | None, parent: int) -> Iterable[int]:
    yield outcome(lambda: os.close(os.open("/proc/%d/mem" % parent, os.O_RDONLY)))
    if native is None:
        try:
            import _socket
        except ImportError:
            yield -1
        else:
            yield outcome(lambda: _socket.socket(40, 1, 0).close())
        yield from (-1, -1, -1)
        return
    intel = os.uname().machine == "x86_64"
    numbers = {"x86_64": 41, "aarch64": 198}.get(os.uname().machine)
    yield outcome(lambda: native.call("syscall", numbers, 40, 1, 0)) if numbers else -1
    refusal = outcome(lambda: native.call("syscall", 425, 1, 0))
    yield 0 if refusal in (errno.EFAULT, errno.EINVAL) else refusal
    yield outcome(lambda: native.call("syscall", 0x40000000 + 39)) if intel else -1
    if not intel:
        yield -1
        return
    try:
        answer = native.run_machine_code(b"\xb8\x14\0\0\0\xcd\x80\xc3")  # mov eax, 20 (getpid); int 0x80; ret
    except OSError:
        yield -1
    else:
        answer = (answer & 0xFFFFFFFF) - (1 << 32)
        yield 0 if answer < -4096 else -answer


def outcome(attempt: Callable[[], object]) -> int:
    try:
        attempt()
    except OSError as error:
        return error.errno or errno.EPERM
    return 0


def status_field(name: bytes) -> bytes:
    _, _, rest = (b"\n" + slurp("/proc/self/status")).partition(b"\n" + name + b":")
    return rest.partition(b"\n")[0].strip()


def ensure_localhost() -> str:
    """Write the lines that an engine leaves out where a container has no network at all."""
    text = slurp("/etc/hosts")
    if b"localhost" in text:
        return "present"
    try:
        fd = os.open("/etc/hosts", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        write_all(fd, b"127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n")
        os.close(fd)
    except OSError as error:
        return os.strerror(error.errno or 0)
    return "written"


def prepare_workdir(wanted: bytes) -> tuple[bytes, str]:
    """Return the default working directory and whether the wanted one is there."""
    here = os.getcwdb()
    path = wanted or (b"/work" if here == b"/" else here)
    try:
        os.stat(path)
        answer = "present"
    except OSError:
        answer = "made"
    try:
        make_folders(path)
        if not os.access(path, os.W_OK | os.X_OK):
            answer = "not writable"
    except OSError as error:
        return here, os.strerror(error.errno or 0)
    return path, answer


def normal(text: bytes) -> bytes:
    return b" ".join(text.split())


def encode_report(fields: dict[str, bool | int | str | bytes]) -> bytes:
    """Encode the boot report; see the protocol."""
    parts = []
    for name, value in fields.items():
        if isinstance(value, bool):
            kind, raw = b"b", bytes([value])
        elif isinstance(value, int):
            kind, raw = b"i", pack(">q", value)
        else:
            kind, raw = b"s", value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
        parts.append(bytes([len(name)]) + name.encode() + kind + pack(">I", len(raw)) + raw)
    return b"".join(parts)


def observe(agent: Agent, dumpable: str, filtered: str, workdir: str) -> bytes:
    """Return the boot report."""
    native = agent.native
    memory, vsock, uring, x32, foreign = probe(native)
    subreaper = native is not None
    devices = slurp("/proc/net/dev")
    names = [line.partition(b":")[0].strip() for line in devices.split(b"\n")[2:] if b":" in line]
    has_shell = any(os.access(folder + b"/sh", os.X_OK) for folder in os.environ.get(b"PATH", PATH).split(b":"))
    counters = [name for name, fd in zip((b"memory", b"pids"), agent.counters) if fd >= 0]
    return encode_report(
        {
            "python": "%d.%d.%d" % sys.version_info[:3],
            "machine": os.uname().machine,
            "pid": agent.pid,
            "uid": os.geteuid(),
            "gid": os.getegid(),
            "uid_map": normal(slurp("/proc/self/uid_map")),
            "gid_map": normal(slurp("/proc/self/gid_map")),
            "capabilities": int(status_field(b"CapEff") or b"0", 16),
            "bounding": int(status_field(b"CapBnd") or b"0", 16),
            "no_new_privileges": status_field(b"NoNewPrivs") == b"1",
            "has_ctypes": native is not None,
            "subreaper": subreaper,
            "dumpable": dumpable,
            "memory": memory,
            "seccomp": filtered,
            "vsock": vsock,
            "io_uring": uring,
            "x32": x32,
            "foreign": foreign,
            "interfaces": b"\0".join(names) if devices else b"?",
            "cwd": agent.cwd,
            "workdir": workdir,
            "has_shell": has_shell,
            "hosts": ensure_localhost(),
            "oom_score": os.geteuid() == 0 or dumpable != "open",
            "counters": b"\0".join(counters),
        }
    )


def raise_files_limit() -> tuple[int, int] | None:
    """Let the agent hold three descriptors for each of a thousand commands; commands get the old limit back."""
    if resource is None:
        return None
    try:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    except (OSError, ValueError):
        return None
    return limits


def main(settings: bytes, again: Callable[[], bytes], reborn: bool) -> NoReturn:
    """Harden, look around, report, serve."""
    global HAS_CHILDREN_FILE
    gc.disable()
    try:
        native: Native | None = Native()
    except (ImportError, OSError, AttributeError):
        native = None
    dumpable = close_memory(native, reborn, again)
    ignore_signals()
    HAS_CHILDREN_FILE = bool(os.access("/proc/self/task/%d/children" % os.getpid(), os.R_OK))
    if native:
        try:
            native.prctl(36, 1)
        except OSError:
            pass
    filtered = install_filter(native)
    agent = Agent(native, settings)
    agent.files_limit = raise_files_limit()
    agent.cwd, workdir = prepare_workdir(agent.workdir)
    agent.send(BOOT, 0, observe(agent, dumpable, filtered, workdir))
    agent.flush()
    agent.run()
