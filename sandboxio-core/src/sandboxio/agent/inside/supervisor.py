"""The process that stands between the agent and one command."""

from __future__ import annotations

import errno
import posix as os
import select
import time

from .native import DUMPABLE, SUBREAPER, Native
from .trees import KILL_TIME, freeze, kill, sweep
from .wire import (
    BAD_CWD,
    BAD_USER,
    BODY_HEAD,
    CHUNK,
    LOST,
    NO_PROCESS,
    REPORT,
    close,
    drain,
    pipe_that_wakes,
    read_exactly,
    slurp,
    write_all,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

PATH = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MESSAGES = STARTED, FAILED, EXITED, KILLED = b"sfxk"


class StartError(Exception):
    """A command can't be started; not for want of its program."""

    def __init__(self, stage: int, number: int) -> None:
        super().__init__(stage, number)
        self.stage = stage
        self.number = number


def accounts(path: str) -> list[list[bytes]]:
    """Return the usable lines of the user or group database."""
    lines = [line.split(b":") for line in slurp(path).split(b"\n")]
    return [line for line in lines if len(line) > 3 and line[2].isdigit()]


def find_user(text: bytes) -> tuple[int, list[int], bytes]:
    """Return user id, groups (the first is primary) and home of ``user`` or ``user:group``, names or numbers."""
    name, _, group = text.partition(b":")
    home = b"/"
    for line in accounts("/etc/passwd"):
        if name in (line[0], line[2]) and len(line) > 5:
            name, user, group, home = line[0], line[2], group or line[3], line[5]
            break
    else:
        user, group = name, group or name
    groups = []
    for line in accounts("/etc/group"):
        if group == line[0]:
            group = line[2]
        if name in line[3].split(b","):
            groups.append(int(line[2]))
    if not (user.isdigit() and group.isdigit()):
        raise StartError(BAD_USER, errno.ENOENT)
    return int(user), [int(group), *groups], home


def become(text: bytes, native: Native | None) -> bytes | None:
    """Switch to a user; return the home directory if that changed anything."""
    user, groups, home = find_user(text)
    if (user, groups[0]) == (os.geteuid(), os.getegid()):
        return None
    try:
        os.setgroups(groups)
        os.setgid(groups[0])
        os.setuid(user)
    except OSError as error:
        raise StartError(BAD_USER, error.errno or errno.EPERM) from None
    if native:
        native.prctl(DUMPABLE, 0)  # the switch may have changed it
    return home


def find_program(name: bytes, path: bytes) -> bytes:
    """Return where a program is; like a shell, something that can't be executed only if nothing better is there."""
    if b"/" in name:
        return name
    second = b""
    for folder in path.split(b":"):
        full = (folder or b".") + b"/" + name
        try:
            if os.stat(full).st_mode & 0o170000 == 0o100000 and os.access(full, os.X_OK):
                return full
            second = second or full
        except OSError:
            pass
    if not second:
        raise OSError(errno.ENOENT, "")
    return second


def spawn(argv: list[bytes], env: dict[bytes, bytes]) -> int:
    """Start a program in a session of its own, all signals as a program expects them."""
    program = find_program(argv[0], env.get(b"PATH", PATH))
    reset = [number for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP)]
    try:
        return os.posix_spawn(program, argv, env, setsigmask=(), setsigdef=reset, setsid=True)
    except NotImplementedError:
        return os.posix_spawn(program, argv, env, setsigmask=(), setsigdef=reset, setpgroup=0)


def raise_oom_score(pid: str) -> None:
    """Make a process (and what it starts) the kernel's choice before the agent; only its user or root may."""
    fd = os.open("/proc/%s/oom_score_adj" % pid, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, b"500")
    finally:
        os.close(fd)


def prefer_to_end(pid: str) -> None:
    """Raise the score where that is allowed; the boot report says where it is not."""
    try:
        raise_oom_score(pid)
    except OSError:
        pass


class Supervisor:
    """It lives until the command and all that descends from it ended."""

    def __init__(self, native: Native | None, ctl: int, report: int, stdio: tuple[int, int, int]) -> None:
        self.native = native
        self.ctl = ctl
        self.report = report
        self.stdio = stdio
        self.pid = os.getpid()
        self.leader = 0
        self.code = -1
        self.feed = -1  # the pipe that code goes through where memory can't be a file
        os.setsid()
        if native:
            native.prctl(SUBREAPER, 1)
        self.wake, wake = pipe_that_wakes()
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        prefer_to_end("self")

    def say(self, kind: int, first: int, second: int = 0) -> None:
        """Tell the agent; one write, so that the messages of all supervisors stay whole in one pipe."""
        os.write(self.report, REPORT.pack(kind, self.pid, first, second))

    def run(self) -> None:
        """Wait for a command, start it, see to its end."""
        head = read_exactly(self.ctl, BODY_HEAD.size)
        if len(head) < BODY_HEAD.size:
            return
        flags, spec_size, code_size = BODY_HEAD.unpack(head)
        spec = read_exactly(self.ctl, spec_size)
        if len(spec) < spec_size:
            return
        try:
            self.start(spec.split(b"\0"), code_size, bool(flags & 1))
        except StartError as failure:
            self.say(FAILED, failure.stage, failure.number)
        except OSError as error:
            self.say(FAILED, NO_PROCESS, error.errno or 0)
        if self.leader:
            self.say(STARTED, self.leader)
            self.feed_code(code_size)
            self.watch()

    def start(self, fields: list[bytes], code_size: int, keep_stdin: bool) -> None:
        """Start the command; what a shell would say of a program that can't be executed goes to its stderr."""
        cwd, user, count = fields[0], fields[1], int(fields[2])
        argv, extra = fields[3 : 3 + count], fields[3 + count :]
        env = dict(os.environ)
        home = become(user, self.native) if user else None
        if home is not None:
            env[b"HOME"] = home
        for item in extra:
            name, _, env[name] = item.partition(b"=")
        try:
            os.chdir(cwd)
        except OSError as error:
            raise StartError(BAD_CWD, error.errno or errno.ENOENT) from None
        if code_size:
            path = self.hold_code(code_size)
            argv = [path if item == b"{code}" else item for item in argv]
        self.take_stdio(keep_stdin)
        try:
            self.leader = spawn(argv, env)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.ENOMEM):
                raise
            self.say(STARTED, 0)
            write_all(2, b"sandboxio: %s: %s\n" % (argv[0][:2048], os.strerror(error.errno or 0).encode()))
            self.say(EXITED, (127 if error.errno in (errno.ENOENT, errno.ENOTDIR) else 126) << 8)
        finally:
            close(0, 1, 2, self.code, *self.stdio)
        if self.leader:
            prefer_to_end(str(self.leader))

    def take_stdio(self, keep_stdin: bool) -> None:
        """Make the pipes 0, 1 and 2; a command without stdin gets the null device, or an empty pipe without one."""
        for number, fd in enumerate(self.stdio):
            os.dup2(fd, number, True)
        if not keep_stdin:
            try:
                null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return
            os.dup2(null, 0, True)
            os.close(null)

    def hold_code(self, size: int) -> bytes:
        """Take the code to where the interpreter can read it by a path; nothing is written to the file system."""
        if hasattr(os, "memfd_create"):
            self.code = os.memfd_create("code", 0)
            while size:
                part = os.read(self.ctl, min(size, CHUNK))
                if not part:
                    raise StartError(LOST, errno.EPIPE)
                write_all(self.code, part)
                size -= len(part)
            os.lseek(self.code, 0, 0)
        else:
            self.code, self.feed = os.pipe()
            os.set_inheritable(self.code, True)
        return b"/proc/self/fd/%d" % self.code

    def feed_code(self, size: int) -> None:
        """Pass the code on through a pipe. Should the command never read it, the agent ends both from outside."""
        if self.feed < 0:
            return
        try:
            while size:
                part = os.read(self.ctl, min(size, CHUNK))
                size = size - len(part) if part else 0
                write_all(self.feed, part)
        except OSError:  # the command ended or read no more of it
            read_exactly(self.ctl, size)
        os.close(self.feed)

    def watch(self) -> None:
        """Wait for ends and for orders."""
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
        """Carry out K (kill) or L (let live); true if nothing is left to do. No order at all: the agent is gone."""
        if order[:1] == b"L":
            return True
        done = self.kill_all()
        if order:
            self.say(KILLED, done)
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
                self.say(EXITED, status)

    def kill_all(self) -> bool:
        """End every descendant; false if that could not be done in time."""
        until = time.monotonic() + KILL_TIME
        kill(freeze(self.pid, until)[0])
        poll = select.poll()
        poll.register(self.wake, select.POLLIN)
        while self.reap():
            if time.monotonic() > until:
                return False
            sweep(self.pid, signal.SIGKILL)
            poll.poll(2)
            drain(self.wake)
        return True
