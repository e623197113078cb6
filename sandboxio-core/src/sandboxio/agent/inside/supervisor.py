"""The process that stands between the agent and one command."""

from __future__ import annotations

import errno
import posix as os
import select
import time

from .launch import StartError, become, prefer_to_end, put_behind, spawn
from .native import SUBREAPER, Native
from .trees import KILL_TIME, freeze, kill, sweep
from .wire import (
    BAD_CWD,
    BODY_HEAD,
    CHUNK,
    LOST,
    NO_PROCESS,
    REPORT,
    close,
    drain,
    pipe_that_wakes,
    read_exactly,
    write_all,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

MESSAGES = STARTED, FAILED, EXITED, KILLED = b"sfxk"


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
            put_behind(self.leader)
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
