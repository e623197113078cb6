"""The ends of a command's pipes that the agent holds; none of them may block it."""

from __future__ import annotations

import fcntl
import posix as os
import select
import sys

from .wire import CHUNK, END, OUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .command import Command
    from .keeper import Keeper

DRAIN_PAUSE = 0.01  # seconds between looks at a background child that floods output which is dropped
FIONREAD = 0x541B


class Sink:
    """The writing end of a pipe whose reader may be slow."""

    def __init__(self, agent: Keeper, fd: int, written: Callable[[int], None], broken: Callable[[], None]) -> None:
        self.agent = agent
        self.fd = fd
        self.written = written
        self.broken = broken
        self.waiting: list[bytes] = []
        self.ending = False

    def write(self, data: bytes) -> None:
        """Write now or when the reader reads; dropped if there is no reader."""
        if self.fd >= 0:
            self.waiting.append(data)
            if len(self.waiting) == 1:
                self.pump()

    def end(self) -> None:
        """Close after all that was written."""
        self.ending = True
        if not self.waiting:
            self.close()

    def pump(self, _events: int = 0) -> None:
        """Write what the pipe takes."""
        count = 0
        try:
            while self.waiting:
                done = os.write(self.fd, self.waiting[0])
                count += done
                self.waiting[:1] = [self.waiting[0][done:]] if done < len(self.waiting[0]) else []
        except BlockingIOError:
            self.agent.watch(self.fd, select.EPOLLOUT, self.pump)
        except OSError:
            self.close()
            self.broken()
            return
        if count:
            self.written(count)
        if not self.waiting:
            self.agent.unwatch(self.fd)
            if self.ending:
                self.close()

    def close(self) -> None:
        """Close now."""
        if self.fd >= 0:
            self.agent.unwatch(self.fd)
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
        self.left = CHUNK  # bytes still to deliver; counts only once the command ended
        self.ended = False  # END was sent; what still comes is dropped
        self.listening = False

    def listen(self, wanted: bool) -> None:
        """Watch the pipe or not. A pipe without credit isn't watched at all: its hang-up would be told for ever."""
        if wanted == self.listening or self.fd < 0:
            return
        self.listening = wanted
        if wanted:
            self.agent.pipes.register(self.fd, select.EPOLLIN)
            self.agent.sources[self.fd] = self
        else:
            self.agent.pipes.unregister(self.fd)
            del self.agent.sources[self.fd]

    def update(self) -> None:
        """Watch the pipe if what it holds may be passed on, or dropped."""
        self.listen(self.ended or self.command.credit > 0)

    def read(self) -> None:
        """Pass on or drop what the pipe holds, at most one chunk."""
        try:
            data = os.read(self.fd, CHUNK if self.ended else min(CHUNK, self.command.credit, self.left))
        except BlockingIOError:
            return
        if not data:
            self.finish()
            self.close()
        elif not self.ended:
            self.command.deliver(OUT + self.number, data)
            if self.command.exited:
                self.left -= len(data)
                if self.left == 0:
                    self.finish()
        elif len(data) == CHUNK:
            self.listen(False)
            self.agent.later(DRAIN_PAUSE, self.update)

    def command_ended(self) -> None:
        """Deliver what is in the pipe now and nothing after it: a background child may hold the pipe for ever."""
        if self.fd >= 0 and not self.ended:
            self.left = int.from_bytes(fcntl.ioctl(self.fd, FIONREAD, bytes(4)), sys.byteorder)
            if self.left == 0:
                self.finish()

    def finish(self) -> None:
        """Say that no more of this stream comes."""
        if not self.ended:
            self.ended = True
            self.agent.send_bulk(END, self.command.channel, bytes([self.number]))
            self.update()

    def close(self) -> None:
        """Close the pipe."""
        if self.fd >= 0:
            self.listen(False)
            os.close(self.fd)
            self.fd = -1
            self.command.forget_if_over()
