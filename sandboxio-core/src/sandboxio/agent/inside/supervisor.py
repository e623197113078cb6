"""The process that stands between the agent and one command."""

from __future__ import annotations

import errno
import posix as os
import select
import time
from _socket import CMSG_SPACE, MSG_CMSG_CLOEXEC, socket
from struct import unpack

from .launch import StartError, prefer_to_end, put_behind, spawn
from .native import SUBREAPER, Native
from .trees import KILL_TIME, freeze, kill, sweep
from .wire import (
    BAD_CWD,
    CHUNK,
    LOST,
    NO_PROCESS,
    ORDER,
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

    from .account import Account
else:
    import _signal as signal

MESSAGES = STARTED, FAILED, EXITED, KILLED, IDLE = b"sfxki"


class Supervisor:
    """It sees to one command at a time, until all that descends from it ended."""

    def __init__(self, native: Native | None, ctl: socket, report: int, stdio: tuple[int, ...]) -> None:
        self.native = native
        self.orders = ctl
        self.ctl = ctl.fileno()
        self.report = report
        self.pid = os.getpid()
        self.stdio = [*stdio]
        self.leader = 0
        self.code = -1
        self.feed = -1  # the pipe that code goes through where memory can't be a file
        os.setsid()
        if native:
            native.prctl(SUBREAPER, 1)
        self.wake, wake = pipe_that_wakes()
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        prefer_to_end("self")

    def say(self, kind: int, first: int = 0, second: int = 0) -> None:
        """Tell the agent; one write, so that the messages of all supervisors stay whole in one pipe."""
        os.write(self.report, REPORT.pack(kind, self.pid, first, second))

    def run(self) -> None:
        """Serve one command after the other."""
        while self.serve():
            self.say(IDLE)

    def serve(self) -> bool:
        """Wait for a command, start it, see to its end; false if this process should end."""
        order, control, _, _ = self.orders.recvmsg(ORDER.size, CMSG_SPACE(12), MSG_CMSG_CLOEXEC)
        if order == b"K":  # it crossed the news that nothing is left to kill
            self.say(KILLED, 1)
            return True
        if control:
            self.stdio = [*unpack("3i", control[0][2])]
        if len(order) < ORDER.size or not self.stdio:
            return False
        _, spec_size, code_size = ORDER.unpack(order)
        spec = read_exactly(self.ctl, spec_size)
        if len(spec) < spec_size:
            return False
        self.leader, self.code = 0, -1
        try:
            self.start(spec.split(b"\0"), code_size)
        except StartError as failure:
            self.say(FAILED, failure.stage, failure.number)
        except OSError as error:
            self.say(FAILED, NO_PROCESS, error.errno or 0)
        finally:
            self.let_go()
        if not self.leader:
            return True
        self.say(STARTED, self.leader)
        put_behind(self.leader)
        self.feed_code(code_size)
        return self.watch()

    def start(self, fields: list[bytes], code_size: int) -> None:
        """Start the command; what a shell would say of a program that can't be executed goes to its stderr."""
        cwd, user, count = fields[0], fields[1], int(fields[2])
        argv, extra = fields[3 : 3 + count], fields[3 + count :]
        env = dict(os.environ)
        account = self.other_account(user) if user else None
        if account:
            env[b"HOME"] = account.home
        for item in extra:
            name, _, env[name] = item.partition(b"=")
        if not account:
            try:
                os.chdir(cwd)
            except OSError as error:
                raise StartError(BAD_CWD, error.errno or errno.ENOENT) from None
        if code_size:
            path = self.hold_code(code_size)
            argv = [path if item == b"{code}" else item for item in argv]
        for number, fd in enumerate(self.stdio):
            os.dup2(fd, number, True)
        try:
            self.leader = account.spawn(argv, env, cwd, self.native) if account else spawn(argv, env)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.ENOMEM):
                raise
            self.say(STARTED, 0)
            write_all(2, b"sandboxio: %s: %s\n" % (argv[0][:2048], os.strerror(error.errno or 0).encode()))
            self.say(EXITED, (127 if error.errno in (errno.ENOENT, errno.ENOTDIR) else 126) << 8)

    def other_account(self, user: bytes) -> Account | None:
        """Return whom a command runs as, ``None`` if that is this process's own user."""
        from .account import Account

        account = Account(user)
        if account.is_own:
            return None
        for fd in self.stdio:
            if os.fstat(fd).st_mode & 0o170000 == 0o010000:
                try:  # it is this user's pipe; programs open /dev/stderr by its name
                    os.fchmod(fd, 0o666)
                except OSError:  # gVisor doesn't let them: all but that works
                    break
        return account

    def let_go(self) -> None:
        """Close the command's descriptors; what stands in for 0 to 2 keeps others from becoming one of them."""
        close(self.code, *self.stdio)
        self.stdio = []
        for number in range(3):
            os.dup2(self.ctl, number, False)

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
            os.fchmod(self.code, 0o644)  # the command may be another user's
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

    def watch(self) -> bool:
        """Wait for ends and for orders; true when nothing descends from the command any more."""
        poll = select.poll()
        poll.register(self.ctl, select.POLLIN)
        poll.register(self.wake, select.POLLIN)
        while self.reap():
            for fd, _ in poll.poll():
                if fd == self.wake:
                    drain(self.wake)
                elif not self.obey(os.read(self.ctl, 1)):
                    return False
        return True

    def obey(self, order: bytes) -> bool:
        """Carry out K (kill) or L (let live); false if this process should end. No order: the agent is gone."""
        if order == b"L":
            return False
        done = self.kill_all()
        if order:
            self.say(KILLED, done)
        return bool(order) or not done

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
