"""The agent: requests of the host, output and ends of commands, file operations, the lifetime; one loop, no thread."""

from __future__ import annotations

import posix as os
import select
import sys
import time
from _struct import unpack_from

from .command import Command
from .supervisor import EXITED, FAILED, KILLED, STARTED, Supervisor
from .trees import KILL_TIME, children, freeze, kill, sweep
from .wire import (
    ABORT,
    CHUNK,
    CREDIT,
    DATA,
    DETACH,
    DETACHED,
    EOF,
    HEADER,
    KILL,
    NO_PROCESS,
    READ,
    REMOVE,
    REPORT,
    START,
    START_HEAD,
    STATUS_CRASH,
    STATUS_LIFETIME,
    STATUS_OWNER_GONE,
    STATUS_PROTOCOL,
    U32,
    close,
    drain,
    pipe_that_wakes,
    slurp,
)
from .wire import FAILED as START_FAILED
from .wire import KILLED as TREE_KILLED

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from typing import Any, NoReturn

    from .files import Job
    from .native import Native
    from .pipes import Source
else:
    import _signal as signal

BULK_LIMIT = 262144  # output that waits for the host: above it no pipe is read
URGENT_LIMIT = 1048576  # answers that wait for the host: above it no request is read
POOL = 1  # supervisors that wait for a command
REFILL_PAUSE = 0.005  # seconds after a start; forking at once would delay that command
COUNTERS = (
    (b"oom_kill ", ("/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events")),
    (b"max ", ("/sys/fs/cgroup/pids/pids.events", "/sys/fs/cgroup/pids.events")),
)


def open_counter(name: bytes, paths: tuple[str, str]) -> int:
    """Open what counts events of the sandbox's cgroup, -1 if there is nothing of the kind."""
    for path in paths:
        if name in slurp(path):
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    return -1


class Agent:
    """The whole of it. What comes from the host is handled in the order in which it came."""

    def __init__(self, native: Native | None, settings: bytes) -> None:
        lifetime, bound = unpack_from(">d?", settings)
        self.deadline = time.monotonic() + lifetime
        self.wanted_workdir = settings[9:]
        self.native = native
        self.pid = os.getpid()
        # What the end of stdin ends: everything, the commands that run, or nothing.
        self.at_eof = "all" if bound else "nothing" if self.pid == 1 else "mine"
        self.files_limit: tuple[int, int] | None = None
        self.host_there = True
        self.inbox = bytearray()
        self.urgent = bytearray()
        self.bulk: list[bytes] = []
        self.bulk_size = 0
        self.wire: list[Any] = []
        self.commands: dict[int, Command] = {}  # by channel
        self.supervised: dict[int, Command] = {}  # by the supervisor's process
        self.pool: list[Command] = []
        self.leaders: dict[int, Command] = {}  # of commands whose supervisor is gone
        self.last_forgotten = 0.0
        self.jobs: dict[int, Job] = {}
        self.ready: set[int] = set()
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.sources: dict[int, Source] = {}
        self.handlers: dict[int, Callable[[int], None]] = {}
        self.counters = [open_counter(name, paths) for name, paths in COUNTERS]
        self.main = select.epoll()
        self.pipes = select.epoll()
        self.wake, wake = pipe_that_wakes()
        self.report, self.report_in = os.pipe()
        for fd in (0, 1, self.report):
            os.set_blocking(fd, False)
        self.top_fd = self.report_in + 64
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self.watch(self.wake, select.EPOLLIN, self.on_signal)
        self.watch(self.report, select.EPOLLIN, self.on_report)
        self.requests: dict[int, Callable[[int, bytes], None]] = {
            START: self.on_start,
            DATA: self.on_data,
            EOF: self.on_eof,
            CREDIT: self.on_credit,
            KILL: self.on_kill,
            ABORT: self.on_abort,
            DETACH: self.on_detach,
        }

    def watch(self, fd: int, events: int, handler: Callable[[int], None]) -> None:
        """Call ``handler`` when ``fd`` is ready."""
        if fd not in self.handlers:
            self.handlers[fd] = handler
            self.main.register(fd, events)

    def unwatch(self, fd: int) -> None:
        """Call nobody any more."""
        if self.handlers.pop(fd, None):
            self.main.unregister(fd)

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Call ``action`` after a while."""
        self.timers.append((time.monotonic() + seconds, action))

    def run(self) -> NoReturn:
        """Serve until the end."""
        self.refill()
        while True:
            self.regulate()
            for fd, events in self.main.poll(self.patience()):
                handler = self.handlers.get(fd)
                if handler:
                    handler(events)
            self.flush()
            self.run_timers()
            if self.ready and self.bulk_size < BULK_LIMIT:
                self.step_jobs()
                self.flush()

    def patience(self) -> float:
        """Return how long the loop may sleep."""
        if self.ready and self.bulk_size < BULK_LIMIT:
            return 0
        until = min([self.deadline] + [when for when, _ in self.timers])
        return min(max(until - time.monotonic(), 0), 3600)

    def run_timers(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        if now >= self.deadline:
            self.end(STATUS_LIFETIME)
        if self.timers:
            due = [action for when, action in self.timers if when <= now]
            self.timers = [timer for timer in self.timers if timer[0] > now]
            for action in due:
                action()

    def regulate(self) -> None:
        """Take in only what can be passed on: a host that does not read must not make this process grow."""
        if self.bulk_size < BULK_LIMIT:
            self.watch(self.pipes.fileno(), select.EPOLLIN, self.on_pipes)
        else:
            self.unwatch(self.pipes.fileno())
        if len(self.urgent) < URGENT_LIMIT and self.host_there:
            self.watch(0, select.EPOLLIN, self.on_host)
        else:
            self.unwatch(0)

    def send(self, kind: int, channel: int, payload: bytes = b"") -> None:
        """Send what goes before all waiting output."""
        if self.host_there:
            self.urgent += HEADER.pack(len(payload), channel, kind) + payload

    def send_bulk(self, kind: int, channel: int, payload: bytes) -> None:
        """Send in the order of output."""
        if self.host_there:
            self.bulk += (HEADER.pack(len(payload), channel, kind), payload)
            self.bulk_size += HEADER.size + len(payload)

    def flush(self) -> None:
        """Write what the host takes; the rest waits until it takes more."""
        while self.host_there:
            if not self.wire:
                self.wire = [bytes(self.urgent), *self.bulk[:4]]
                self.urgent.clear()
                self.bulk_size -= sum(map(len, self.bulk[:4]))
                del self.bulk[:4]
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
            if self.wire:
                self.wire[0] = memoryview(self.wire[0])[count:]
            elif not self.urgent and not self.bulk:
                self.unwatch(1)
                return

    def nothing(self, _events: int) -> None:
        """The loop flushes at every turn; it only had to turn."""

    def on_host(self, _events: int) -> None:
        """Read what the host sent and handle the frames that are complete."""
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
                    self.on_file(channel, kind, payload)
                else:
                    self.requests[kind](channel, payload)
        del self.inbox[:start]

    def host_lost(self) -> None:
        """End, or go on alone."""
        if self.at_eof == "all":
            self.end(STATUS_OWNER_GONE)
        if self.at_eof == "mine":
            self.end_mine()
        self.host_there = False
        self.unwatch(0)
        self.unwatch(1)
        close(0, 1)
        self.bulk_size = 0
        self.bulk.clear()
        self.wire.clear()
        self.urgent.clear()
        for job in list(self.jobs.values()):
            job.abort()
        for command in list(self.commands.values()):
            command.stdin.close()
            for stream in command.streams:
                stream.finish()

    def on_start(self, channel: int, payload: bytes) -> None:
        """Give a command to a waiting supervisor."""
        try:
            command = self.pool.pop() if self.pool else self.fork()
        except OSError as error:
            self.send(START_FAILED, channel, bytes([NO_PROCESS]) + U32.pack(error.errno or 0))
            return
        self.commands[channel] = command
        command.begin(channel, *START_HEAD.unpack_from(payload))
        command.data(payload[START_HEAD.size :])
        self.later(REFILL_PAUSE, self.refill)

    def on_file(self, channel: int, kind: int, payload: bytes) -> None:
        """Begin a file operation."""
        from .files import Job

        self.jobs[channel] = Job(self, channel, kind, payload)
        self.ready.add(channel)

    def step_jobs(self) -> None:
        """Let every file operation go one step on."""
        for channel in list(self.ready):
            job = self.jobs.get(channel)
            if job is None or not job.step():
                self.ready.discard(channel)

    def on_data(self, channel: int, payload: bytes) -> None:
        """Pass on a part of a body, of stdin, or of a file; for what is over by now it is dropped."""
        if channel in self.commands:
            self.commands[channel].data(payload)
        elif channel in self.jobs:
            self.jobs[channel].inbox.append(payload)
            self.ready.add(channel)

    def on_eof(self, channel: int, _payload: bytes) -> None:
        """End stdin, or a file."""
        if channel in self.commands:
            self.commands[channel].stdin.end()
        elif channel in self.jobs:
            self.jobs[channel].ending = True
            self.ready.add(channel)

    def on_credit(self, channel: int, payload: bytes) -> None:
        """Allow more output."""
        (count,) = U32.unpack(payload)
        if channel in self.commands:
            self.commands[channel].credit += count
            self.commands[channel].update()
        elif channel in self.jobs:
            self.jobs[channel].credit += count
            self.ready.add(channel)

    def on_kill(self, channel: int, _payload: bytes) -> None:
        """End a command's tree; one of which nothing is left has ended."""
        if channel in self.commands:
            self.commands[channel].kill()
        else:
            self.send(TREE_KILLED, channel, b"t")

    def on_abort(self, channel: int, _payload: bytes) -> None:
        """Give up a file operation, if it goes on."""
        if channel in self.jobs:
            self.jobs[channel].abort()

    def on_detach(self, channel: int, _payload: bytes) -> None:
        """Live on without the host."""
        self.at_eof = "nothing"
        self.send(DETACHED, channel)

    def on_pipes(self, _events: int) -> None:
        """Read from commands."""
        for fd, _ in self.pipes.poll(0):
            source = self.sources.get(fd)
            if source:
                source.read()

    def fork(self) -> Command:
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
        command = self.supervised[pid] = Command(self, pid, ctl_in, (stdin_in, stdout, stderr))
        return command

    def become_supervisor(self, ctl: int, stdio: tuple[int, int, int]) -> NoReturn:
        """Let go of all that is the agent's, and wait."""
        status = STATUS_CRASH
        try:
            os.dup2(ctl, 0)  # instead of the host's pipes; held, so that no other descriptor becomes 0 or 1
            os.dup2(ctl, 1)
            low = 3
            for fd in sorted((ctl, self.report_in, *stdio)):
                os.closerange(low, fd)
                low = fd + 1
            os.closerange(low, self.top_fd + 1)
            if self.files_limit:
                import resource

                resource.setrlimit(resource.RLIMIT_NOFILE, self.files_limit)
            Supervisor(self.native, ctl, self.report_in, stdio).run()
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        finally:
            os._exit(status)

    def refill(self) -> None:
        """Have a supervisor waiting; if there can't be one, the next command says so."""
        try:
            while len(self.pool) < POOL:
                self.pool.append(self.fork())
        except OSError:
            pass

    def on_report(self, _events: int = 0) -> None:
        """Hear what supervisors say."""
        try:
            data = os.read(self.report, REPORT.size * 256)
        except BlockingIOError:
            return
        for kind, pid, first, second in REPORT.iter_unpack(data):
            command = self.supervised.get(pid)
            if command is None:
                continue
            if kind == STARTED:
                command.has_started(first)
            elif kind == EXITED:
                command.has_exited(first)
            elif kind == KILLED:
                command.killed(bool(first))
            elif kind == FAILED:
                command.fail(first, second)

    def on_signal(self, _events: int) -> None:
        """Some child ended, or user code says so."""
        drain(self.wake)
        self.reap()

    def reap(self) -> None:
        """Take in what ended."""
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
            leader = self.leaders.pop(pid, None)
            command = self.supervised.pop(pid, None)
            if leader:
                leader.has_exited(status)
                leader.forget_if_over()
            elif command in self.pool:
                self.pool.remove(command)
                command.close()
            elif command:
                command.supervisor_ended()

    def forget(self, channel: int) -> None:
        """Drop a command that is over."""
        if self.commands.pop(channel, None):
            self.last_forgotten = time.monotonic()

    def strays(self) -> set[int]:
        """Return processes that fell to the agent, or to the first process, because who started them is gone."""
        root = self.pid if self.native or self.pid == 1 else 1
        known = {self.pid, *self.supervised, *self.leaders}
        return {pid for pid in children(root) if pid not in known}

    def kill_strays(self, command: Command) -> bool:
        """Without a subreaper: end what fell to the first process, if it can only be this command's; else false."""
        if not self.strays() - command.strays:
            return True
        others = [other for other in self.commands.values() if other is not command and other.supervised]
        if others or command.strays or self.pid != 1 or self.last_forgotten > command.begun:
            return False
        until = time.monotonic() + KILL_TIME
        while time.monotonic() < until:
            kill(freeze(self.pid, until, self.supervised)[0])
            self.reap()
            if not self.strays():
                return True
            time.sleep(0.001)
        return False

    def count_events(self) -> tuple[int, int]:
        """Return how many OOM kills and refused forks the sandbox has seen."""
        values = []
        for fd, (name, _) in zip(self.counters, COUNTERS):
            data = b"\n" + os.pread(fd, 4096, 0) if fd >= 0 else b""
            rest = data.partition(b"\n" + name)[2].split(None, 1)
            values.append(int(rest[0]) if rest else 0)
        return values[0], values[1]

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
        os._exit(status)

    def end_mine(self) -> NoReturn:
        """End the commands that still run; what successful ones left behind belongs to the sandbox and lives on."""
        for command in self.commands.values():
            if command.supervised and command.exited:
                command.ctl.write(b"L")
            elif command.supervised:
                kill([*freeze(command.pid, time.monotonic() + KILL_TIME)[0], command.pid])
        os._exit(STATUS_OWNER_GONE)
