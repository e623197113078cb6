"""The agent: the host's requests, carried out in the order in which they came."""

from __future__ import annotations

import posix as os
import time
from struct import error as StructError  # noqa: N812
from struct import unpack_from

from .keeper import Keeper
from .trees import send_signal
from .wire import (
    ABORT,
    CREDIT,
    DATA,
    DETACH,
    DETACHED,
    EOF,
    FAILED,
    KILL,
    KILLED,
    LINK,
    NO_PROCESS,
    READ,
    REMOVE,
    START,
    START_HEAD,
    STATUS_LIFETIME,
    STATUS_OWNER_GONE,
    STATUS_PROTOCOL,
    U32,
    WRITE,
    drain,
    leave,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from typing import NoReturn

    from .disk import Watch
    from .files import Job
    from .launch import Score
    from .native import Native
else:
    import _signal as signal

FIRST_LOOK = 2.0  # seconds after something began


class Agent(Keeper):
    """All of it."""

    def __init__(self, native: Native | None, score: Score, settings: bytes) -> None:
        lifetime, bound, self.watches = unpack_from(">d??", settings)
        super().__init__(native, score, time.monotonic() + lifetime)
        self.workdir = settings[10:]
        # What the end of stdin ends: everything, the commands that run, or nothing.
        self.at_eof = "all" if bound else "nothing" if os.getpid() == 1 else "mine"
        self.jobs: dict[int, Job] = {}
        self.ready: set[int] = set()
        self.stirred = False  # somebody may have written since the disk was said to be idle
        self.said_of_disk = b""
        self.disk: Watch | None = None
        self.requests: dict[int, Callable[[int, bytes], None]] = {
            START: self.on_start,
            DATA: self.on_data,
            EOF: self.on_eof,
            CREDIT: self.on_credit,
            KILL: self.on_kill,
            ABORT: self.on_abort,
            DETACH: self.on_detach,
        }

    def run(self) -> NoReturn:
        """Serve until the end."""
        self.refill()
        if self.watches:
            os.set_blocking(2, False)
            drain(self.wake)  # the end of the boot's probe is no use of the sandbox
        while True:
            self.regulate()
            self.turn(not self.ready or self.congested)
            self.flush()
            if time.monotonic() >= self.deadline:
                self.end(STATUS_LIFETIME)
            self.run_timers()
            if self.ready and not self.congested:
                self.step_jobs()
                self.flush()
            if not (self.host_there or self.commands or self.pid == 1):
                leave(STATUS_OWNER_GONE)  # a further agent that was let go of has seen its commands to their end

    def on_frame(self, kind: int, channel: int, payload: bytes) -> None:
        """Carry out a request."""
        try:
            if READ <= kind <= REMOVE:
                self.on_file(channel, kind, payload)
            else:
                self.requests[kind](channel, payload)
        except StructError:
            self.on_nonsense()

    def on_nonsense(self) -> None:
        """End: whoever is there, it is not the host."""
        self.end(STATUS_PROTOCOL)

    def on_host_lost(self) -> None:
        """End, or go on alone; what commands print is dropped then."""
        if self.at_eof == "all":
            self.end(STATUS_OWNER_GONE)
        if self.at_eof == "mine":
            self.end_mine()
        self.drop_host()
        for job in list(self.jobs.values()):
            job.abort()
        for command in list(self.commands.values()):
            command.stdin.close()
            for stream in command.streams:
                stream.finish()

    def on_start(self, channel: int, payload: bytes) -> None:
        """Give a command to a waiting supervisor."""
        flags, window, spec, code = START_HEAD.unpack_from(payload)
        try:
            command = self.begin(channel, bool(flags & 1), window, spec, code)
        except OSError as error:
            self.send(FAILED, channel, bytes([NO_PROCESS]) + U32.pack(error.errno or 0))
        else:
            command.data(payload[START_HEAD.size :])
            self.stir()

    def on_signal(self, events: int) -> None:
        """Some child ended, a further agent has something to do, or user code says so."""
        super().on_signal(events)
        self.stir()

    def stir(self) -> None:
        """Have the disk looked at, by the first agent: something may be written from now on."""
        if self.watches and self.pid != 1:
            send_signal(1, signal.SIGCHLD)
        elif self.watches and not self.stirred:
            self.stirred = True
            self.say_of_disk(b"busy 0")
            self.later(FIRST_LOOK, self.look_at_disk)

    def look_at_disk(self) -> None:
        """Begin to look; a short use of the sandbox never comes so far."""
        from .disk import Watch

        self.disk = self.disk or Watch(self)
        self.disk.begin()

    def say_of_disk(self, words: bytes) -> bool:
        """Tell whoever enforces the cap, unless that was said; false if nobody takes it now.

        What deleted files hold is said again and again: who listens may have begun only now.
        """
        if words != self.said_of_disk or words not in (b"idle", b"busy 0"):
            try:
                os.write(2, b"sandboxio: %s\n" % words)
            except BlockingIOError:
                return False
            except OSError:  # there is nobody
                pass
            self.said_of_disk = words
        return True

    def on_file(self, channel: int, kind: int, payload: bytes) -> None:
        """Begin a file operation."""
        from .files import Job

        self.jobs[channel] = Job(self, channel, kind, payload)
        self.ready.add(channel)
        if kind in (WRITE, LINK):
            self.stir()

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
            self.send(KILLED, channel, b"t")

    def on_abort(self, channel: int, _payload: bytes) -> None:
        """Give up a file operation, if it goes on."""
        if channel in self.jobs:
            self.jobs[channel].abort()

    def on_detach(self, channel: int, _payload: bytes) -> None:
        """Live on without the host."""
        self.at_eof = "nothing"
        self.send(DETACHED, channel)
