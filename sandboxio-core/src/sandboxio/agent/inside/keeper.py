"""The processes of the agent: waiting supervisors, those at work, and what fell to the agent itself."""

from __future__ import annotations

import posix as os
import select
import sys
import time
from _socket import socket, socketpair

from .command import Command
from .counters import Counters
from .launch import EXPENDABLE, Score
from .link import Link
from .supervisor import EXITED, FAILED, IDLE, KILLED, STARTED, Supervisor
from .trees import DYING_TIME, KILL_TIME, children, freeze, have_fallen, kill, send_signal, sweep
from .wire import BREATH, REPORT, STATUS_CRASH, STATUS_OWNER_GONE, close, drain, leave, pipe_that_wakes
from .worker import Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import NoReturn

    from .native import Native
    from .pipes import Source
else:
    import _signal as signal

POOL = 1  # supervisors that wait for a command
POOL_MAX = 2  # of those that have done with one; a warm one serves in half the time, and keeps 0.6 MiB
FLOOD = 4  # readings in a row with next to no pause; from then on commands get to print more before each
REFILL_PAUSE = 0.005  # seconds after a start; forking at once would delay that command


def open_null() -> int:
    """Open what commands without stdin read: nothing."""
    try:
        return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        null, null_in = os.pipe()
        os.close(null_in)
        return null


class Keeper(Link):
    """Keeps the processes, and reads what commands print."""

    def __init__(self, native: Native | None, score: Score, deadline: float) -> None:
        super().__init__(deadline)
        self.score = score
        self.native = native
        self.pid = os.getpid()
        self.files_limit: tuple[int, int] | None = None
        self.commands: dict[int, Command] = {}  # by channel
        self.workers: dict[int, Worker] = {}  # by process
        self.pool: list[Worker] = []
        self.leaders: dict[int, Command] = {}  # of commands whose supervisor is gone
        self.last_ended = 0.0  # when some command did
        self.ended: dict[int, int] = {}  # the wait statuses of what was taken in last
        self.known: set[int] = set()  # strays of commands that were said to have started
        self.sources: dict[int, Source] = {}
        self.counters = Counters()
        self.pipes = select.epoll()
        self.readings = 0  # of commands' pipes, with next to no pause in between
        self.last_reading = 0.0
        self.wake, wake = pipe_that_wakes()
        self.report, self.report_in = os.pipe()
        os.set_blocking(self.report, False)
        self.null = open_null()
        self.top_fd = self.null
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self.watch(self.wake, select.EPOLLIN, self.on_signal)
        self.watch(self.report, select.EPOLLIN, self.on_report)

    def regulate(self) -> None:
        """Read from commands only while the host takes it."""
        super().regulate()
        if self.congested:
            self.unwatch(self.pipes.fileno())
        else:
            self.watch(self.pipes.fileno(), select.EPOLLIN, self.on_pipes)

    def on_pipes(self, _events: int) -> None:
        """Read from commands."""
        self.readings = self.readings + 1 if time.monotonic() - self.last_reading < 10 * BREATH else 0
        if self.readings >= FLOOD:
            time.sleep(BREATH)
        for fd, _ in self.pipes.poll(0):
            source = self.sources.get(fd)
            if source:
                source.read()
        self.last_reading = time.monotonic()

    def begin(self, channel: int, keep_stdin: bool, window: int, spec: int, code: int) -> Command:
        """Give a command to a supervisor, one that waits if there is one."""
        self.reap()  # user code may have ended one that waits
        ends: list[int] = []
        try:
            for _ in range(3 if keep_stdin else 2):
                ends += os.pipe()
            self.top_fd = max(self.top_fd, *ends)
            stdout, stdout_in, stderr, stderr_in = ends[:4]
            stdin, stdin_in = ends[4:] or (self.null, -1)
            worker = self.hand_over(spec, code, (stdin, stdout_in, stderr_in))
        except OSError:
            close(*ends)
            raise
        for fd in (stdout, stderr, stdin_in):
            if fd >= 0:
                os.set_blocking(fd, False)
        command = self.commands[channel] = Command(self, channel, window, worker, (stdin_in, stdout, stderr))
        command.body_left = spec + code
        worker.command = command
        send_signal(worker.pid, signal.SIGCONT)  # user code may have stopped it
        close(stdout_in, stderr_in, *ends[4:5])
        if not self.pool:
            self.later(REFILL_PAUSE, self.refill)
        return command

    def hand_over(self, spec: int, code: int, stdio: tuple[int, int, int]) -> Worker:
        """Give the ends of a command's pipes to a supervisor, by birth where they can't be passed to one that waits."""
        worker = self.pool.pop() if self.pool else self.fork()
        if not worker.give(spec, code, stdio):
            self.pool.append(worker)
            worker = self.fork(stdio)
            worker.give(spec, code, ())
        return worker

    def fork(self, stdio: tuple[int, ...] = ()) -> Worker:
        """Fork a supervisor that waits for a command, the ends of whose pipes it may have already."""
        ours, theirs = socketpair()
        self.top_fd = max(self.top_fd, ours.fileno(), theirs.fileno())
        ours.setblocking(False)
        self.score.set(EXPENDABLE)
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            raise
        finally:
            self.score.set(self.score.own)
        if pid == 0:
            self.become_supervisor(theirs, stdio)
        theirs.close()
        worker = self.workers[pid] = Worker(self, pid, ours.detach())
        return worker

    def become_supervisor(self, ctl: socket, stdio: tuple[int, ...]) -> NoReturn:
        """Let go of all that is the agent's, and wait."""
        status = STATUS_CRASH
        try:
            os.dup2(ctl.fileno(), 0)  # instead of the host's pipes; held, so that no other descriptor becomes 0 or 1
            os.dup2(ctl.fileno(), 1)
            low = 3
            for fd in sorted({ctl.fileno(), self.report_in, *stdio}):
                os.closerange(low, fd)
                low = fd + 1
            os.closerange(low, self.top_fd + 1)
            if self.files_limit:
                import resource

                resource.setrlimit(resource.RLIMIT_NOFILE, self.files_limit)
            Supervisor(self.native, ctl, self.report_in, stdio).run()
            status = 0
        except BaseException as error:  # noqa: BLE001 - whatever it is, this process must not go on as a second agent
            sys.excepthook(type(error), error, error.__traceback__)
        finally:
            leave(status)

    def refill(self) -> None:
        """Have a supervisor waiting; if there can't be one, the next command says so."""
        try:
            while len(self.pool) < POOL:
                self.pool.append(self.fork())
        except OSError:
            pass

    def on_report(self, _events: int = 0) -> None:
        """Hear what supervisors say."""
        data = b""
        try:
            while len(data) % (REPORT.size * 256) == 0:
                data += os.read(self.report, REPORT.size * 256)
        except BlockingIOError:
            pass
        for kind, pid, first, second in REPORT.iter_unpack(data):
            worker = self.workers.get(pid)
            command = worker.command if worker else None
            if worker is None or command is None:
                continue
            if kind == STARTED:
                command.has_started(first)
            elif kind == EXITED:
                command.has_exited(first)
            elif kind == KILLED:
                command.killed(bool(first))
            elif kind == FAILED:
                command.fail(first, second)
            elif kind == IDLE:
                self.take_back(worker, command)

    def take_back(self, worker: Worker, command: Command) -> None:
        """Let a supervisor wait for another command, or go."""
        worker.command = None
        command.released()
        if worker.reusable and len(self.pool) < POOL_MAX:
            self.pool.append(worker)
        else:
            worker.ctl.close()

    def on_signal(self, _events: int) -> None:
        """Some child ended, or user code says so."""
        drain(self.wake)
        self.reap()

    def reap(self) -> None:
        """Take in what ended."""
        gone: dict[int, int] = {}
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                gone[pid] = status
        except ChildProcessError:
            pass
        if gone:
            self.on_report()  # what a supervisor said comes before its end
            self.ended = gone
        for pid, status in gone.items():
            self.known.discard(pid)
            leader = self.leaders.pop(pid, None)
            worker = self.workers.pop(pid, None)
            if leader:
                leader.has_exited(status)
                leader.forget_if_over()
            elif worker:
                worker.ctl.close()
                if worker in self.pool:
                    self.pool.remove(worker)
                if worker.command:
                    worker.command.supervisor_ended()

    def strays(self) -> set[int]:
        """Return processes that fell to the agent, or to the first process, because who started them is gone."""
        root = self.pid if self.native or self.pid == 1 else 1
        return {*children(root)} - {self.pid, *self.workers, *self.leaders}

    def kill_unknown(self) -> None:
        """End what a supervisor left behind that was killed before it could say what it had started."""
        until = time.monotonic() + KILL_TIME
        while have_fallen(self.strays, self.known) and time.monotonic() < until:
            for pid in self.strays() - self.known:
                send_signal(pid, signal.SIGSTOP)
                kill([*freeze(pid, until)[0], pid])

    def kill_strays(self, command: Command) -> bool:
        """Without a subreaper: end what fell to the first process, if it can only be this command's; else false."""
        if not self.wait_for_strays(command.strays, DYING_TIME, None):
            return True
        others = [other for other in self.commands.values() if other.leader and not other.exited]
        if others or command.strays or self.pid != 1 or self.last_ended > command.begun:
            return False
        return not self.wait_for_strays(set(), KILL_TIME, {*self.workers})

    def wait_for_strays(self, known: set[int], seconds: float, spare: set[int] | None) -> set[int]:
        """Wait until no stray is left but ``known``; killing all but ``spare`` if that is given. Return what is left."""
        until = time.monotonic() + seconds
        while True:
            if spare is not None:
                kill(freeze(self.pid, until, spare)[0])
            self.reap()
            left = self.strays() - known
            if not left or time.monotonic() > until:
                return left
            time.sleep(0.001)

    def end(self, status: int) -> NoReturn:
        """End everything that this agent started, and itself; as first process that ends the sandbox."""
        until = time.monotonic() + KILL_TIME
        if self.pid != 1:
            kill(freeze(self.pid, until)[0])
        while self.pid != 1 and sweep(self.pid, signal.SIGKILL) and time.monotonic() < until:
            try:
                os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
        leave(status)

    def end_mine(self) -> NoReturn:
        """End the commands that still run; what successful ones left behind belongs to the sandbox and lives on."""
        for command in self.commands.values():
            worker = command.worker
            if worker and command.exited:
                worker.ctl.write(b"L")
            elif worker:
                kill([*freeze(worker.pid, time.monotonic() + KILL_TIME)[0], worker.pid])
        leave(STATUS_OWNER_GONE)
