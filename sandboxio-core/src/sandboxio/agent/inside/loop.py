"""Waiting for descriptors and for time; no thread, and nothing to do while nothing happens."""

from __future__ import annotations

import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Loop:
    """Calls handlers of ready descriptors and actions that are due."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline  # when the next turn must have come at the latest
        self.main = select.epoll()
        self.handlers: dict[int, Callable[[int], None]] = {}
        self.timers: list[tuple[float, Callable[[], None]]] = []

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

    def turn(self, idle: bool) -> None:
        """Wait until something is ready, or only look if there is other work, and handle it."""
        until = min([self.deadline] + [when for when, _ in self.timers]) if idle else 0
        for fd, events in self.main.poll(min(max(until - time.monotonic(), 0), 3600)):
            handler = self.handlers.get(fd)
            if handler:
                handler(events)

    def run_timers(self) -> None:
        """Do what is due."""
        if self.timers:
            now = time.monotonic()
            due = [action for when, action in self.timers if when <= now]
            self.timers = [timer for timer in self.timers if timer[0] > now]
            for action in due:
                action()
