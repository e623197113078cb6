"""Frames from and to the host."""

from __future__ import annotations

import posix as os
import select

from .loop import Loop
from .wire import CHUNK, DETACH, HEADER, START

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BULK_LIMIT = 262144  # output that waits for the host: above it no pipe is read
URGENT_LIMIT = 1048576  # answers that wait for the host: above it no request is read


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
            if not self.wire:
                if not self.urgent and not self.bulk:
                    self.unwatch(1)
                    return
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
                self.on_host_lost()
                return
            while self.wire and count >= len(self.wire[0]):
                count -= len(self.wire.pop(0))
            if self.wire:
                self.wire[0] = memoryview(self.wire[0])[count:]

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
