"""Frames from and to the host."""

from __future__ import annotations

import posix as os
import select
import time

from .loop import Loop
from .wire import BREATH, CHUNK, DETACH, HEADER, START

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BULK_LIMIT = 262144  # output that waits for the host: above it no pipe is read
URGENT_LIMIT = 1048576  # answers that wait for the host: above it no request is read
AT_ONCE = 8  # parts of output in one system call; an urgent answer waits for no more than those


class Link(Loop):
    """The loop with the host at 0 and 1. A host that does not read neither blocks this process nor makes it grow."""

    def __init__(self, deadline: float) -> None:
        super().__init__(deadline)
        self.host_there = True
        self.inbox = bytearray()
        self.urgent = bytearray()
        self.bulk: list[bytes] = []
        self.bulk_size = 0
        self.wire: list[Any] = []
        os.set_blocking(0, False)
        os.set_blocking(1, False)

    @property
    def congested(self) -> bool:
        """Whether no more output should be taken in."""
        return self.bulk_size >= BULK_LIMIT

    def regulate(self) -> None:
        """Listen to the host only while it takes the answers."""
        if self.host_there and len(self.urgent) < URGENT_LIMIT:
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
            if len(self.wire) < 2:  # a short rest by itself would cost as much as a long one
                self.refill_wire()
            if not self.wire:
                self.unwatch(1)
                return
            try:
                count = os.writev(1, self.wire)
            except BlockingIOError:
                self.watch(1, select.EPOLLOUT, self.on_room)
                return
            except OSError:
                self.on_host_lost()
                return
            while self.wire and count >= len(self.wire[0]):
                count -= len(self.wire.pop(0))
            if self.wire:
                self.wire[0] = memoryview(self.wire[0])[count:]

    def refill_wire(self) -> None:
        """Add what is to be written next to what is left of a frame."""
        if self.urgent:
            self.wire.append(bytes(self.urgent))
            self.urgent.clear()
        self.wire += self.bulk[:AT_ONCE]
        self.bulk_size -= sum(map(len, self.bulk[:AT_ONCE]))
        del self.bulk[:AT_ONCE]

    def on_room(self, _events: int) -> None:
        """Let the host's side take more of a flood first; the loop flushes at every turn."""
        if self.bulk:
            time.sleep(BREATH)

    def on_host(self, _events: int) -> None:
        """Read what the host sent and handle the frames that are complete."""
        try:
            data = os.read(0, 2 * CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.on_host_lost()
            return
        self.inbox += data
        start, end = 0, len(self.inbox)
        with memoryview(self.inbox) as view:
            while end - start >= HEADER.size:
                size, channel, kind = HEADER.unpack_from(view, start)
                if size > CHUNK or not START <= kind <= DETACH:
                    self.on_nonsense()
                if end - start - HEADER.size < size:
                    break
                start += HEADER.size + size
                self.on_frame(kind, channel, bytes(view[start - size : start]))
        del self.inbox[:start]

    def drop_host(self) -> None:
        """Close the host's pipes and forget what was meant for it."""
        self.host_there = False
        for fd in (0, 1):
            self.unwatch(fd)
            os.close(fd)
        self.bulk_size = 0
        for queue in (self.bulk, self.wire, self.urgent):
            queue.clear()

    def on_frame(self, kind: int, channel: int, payload: bytes) -> None:
        """Carry out a request."""
        raise NotImplementedError

    def on_nonsense(self) -> None:
        """End, since what came is no frame."""
        raise NotImplementedError

    def on_host_lost(self) -> None:
        """End, or go on alone."""
        raise NotImplementedError
