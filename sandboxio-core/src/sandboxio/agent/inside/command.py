"""The agent's side of one command: its credit, its end, and ending it."""

from __future__ import annotations

import time

from .pipes import Sink, Source
from .trees import KILL_TIME, are_gone, freeze, have_fallen, kill, send_signal
from .wire import (
    BY_US,
    EXIT,
    FAILED,
    GONE,
    GRANT,
    KILLED,
    LEAST_COST,
    LOST,
    NO_FORK,
    OOM,
    STARTED,
    U32,
    UNKNOWN,
    WINDOW,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal

    from .keeper import Keeper
    from .worker import Worker
else:
    import _signal as signal

PATIENCE = 1.0  # seconds that a supervisor may take to kill; user code may have stopped it


class Command:
    """One command from its start until nothing of it is left."""

    def __init__(self, agent: Keeper, channel: int, window: int, worker: Worker, pipes: tuple[int, int, int]) -> None:
        self.agent = agent
        self.channel = channel
        self.credit = window
        self.worker: Worker | None = worker
        self.orphaned = False  # its supervisor ended before it did
        self.body_left = self.taken = self.leader = 0
        self.started = self.exited = self.killing = False
        self.stdin = Sink(agent, pipes[0], self.grant, self.stdin_broken)
        self.streams = (Source(self, pipes[1], 0), Source(self, pipes[2], 1))
        self.begun = time.monotonic()
        self.events = agent.counters.read()
        self.strays: set[int] = set()
        if not agent.native:
            self.strays = agent.strays()

    def grant(self, count: int) -> None:
        """Let the host send as much as was passed on."""
        self.taken += count
        if self.taken >= WINDOW // 4 and not self.exited:
            self.agent.send(GRANT, self.channel, U32.pack(self.taken))
            self.taken = 0

    def stdin_broken(self) -> None:
        """Tell the host that nobody reads stdin."""
        if not self.exited:
            self.agent.send(GONE, self.channel)

    def data(self, payload: bytes) -> None:
        """Take the body first, then stdin."""
        body = payload[: self.body_left]
        if body:
            self.body_left -= len(body)
            if self.worker:
                self.worker.ctl.write(body)
        if len(body) < len(payload):
            self.stdin.write(payload[len(body) :])

    def deliver(self, kind: int, data: bytes) -> None:
        """Send output, which uses up credit."""
        self.credit -= max(len(data), LEAST_COST)
        self.agent.send_bulk(kind, self.channel, data)
        if self.credit <= 0:
            self.update()

    def update(self) -> None:
        """Listen to the pipes or not, after the credit changed."""
        for stream in self.streams:
            stream.update()

    def has_started(self, leader: int) -> None:
        """Go on after the supervisor said so; 0: the program could not be executed."""
        self.started = True
        self.leader = leader
        self.agent.send(STARTED, self.channel, U32.pack(leader))
        self.update()

    def fail(self, stage: int, number: int) -> None:
        """Say that there will be no command."""
        self.started = self.exited = True
        self.agent.send(FAILED, self.channel, bytes([stage]) + U32.pack(number))
        self.stdin.close()
        for stream in self.streams:
            stream.ended = True
            stream.update()

    def has_exited(self, status: int, flags: int = 0) -> None:
        """Go on after the command itself ended."""
        self.exited = True
        if not self.killing:
            self.agent.last_ended = time.monotonic()
        oom, refused = self.agent.counters.read()
        flags |= (OOM if oom > self.events[0] else 0) | (NO_FORK if refused > self.events[1] else 0)
        flags |= BY_US if self.killing else 0
        self.agent.send(EXIT, self.channel, U32.pack(status) + bytes([flags]))
        self.stdin.close()
        for stream in self.streams:
            stream.command_ended()

    def kill(self) -> None:
        """End the command's tree and say what became of it."""
        self.killing = True
        worker = self.worker
        if worker is None:
            self.kill_from_outside()
        elif self.body_left:  # the supervisor still waits for what it should start
            kill([worker.pid])
        else:
            worker.reusable = False  # it may see this order when it has done with the command
            worker.ctl.write(b"K")
            send_signal(worker.pid, signal.SIGCONT)
            self.agent.later(PATIENCE, self.kill_from_outside)

    def kill_from_outside(self) -> None:
        """Kill without the supervisor, which is gone or does not answer."""
        if self.killing:
            before = self.agent.strays()
            certain = not self.orphaned or not before
            root = self.worker.pid if self.worker else self.leader if self.orphaned and not self.exited else 0
            if root:
                send_signal(root, signal.SIGSTOP)
                seen, complete = freeze(root, time.monotonic() + KILL_TIME)
                seen.add(root)
                kill(seen)
                certain = are_gone(seen) and certain and complete and not have_fallen(self.agent.strays, before)
            self.killed(certain)

    def killed(self, certain: bool) -> None:
        """Say that the tree is gone; its output ends with what was delivered."""
        if self.killing:
            self.killing = False
            certain = certain and (bool(self.agent.native) or self.agent.kill_strays(self))
            for stream in self.streams:
                stream.finish()
            self.agent.send(KILLED, self.channel, b"t" if certain else b"s")
            self.agent.last_ended = time.monotonic()
            self.forget_if_over()

    def supervisor_ended(self) -> None:
        """Go on without it: whatever it supervised is the agent's own child now, if the agent is a reaper."""
        self.worker = None
        if not self.started:
            self.agent.kill_unknown()
            self.fail(LOST, 0)
        elif not self.exited:
            self.orphaned = True
            if self.leader in self.agent.ended:
                self.has_exited(self.agent.ended[self.leader])
            elif self.leader in self.agent.strays():
                self.agent.leaders[self.leader] = self
            else:
                self.has_exited(signal.SIGKILL, UNKNOWN)
        self.agent.known |= self.agent.strays()
        if self.killing:
            self.kill_from_outside()
        self.forget_if_over()

    def released(self) -> None:
        """Go on after the supervisor found that nothing descends from the command any more."""
        self.worker = None
        self.killed(True)
        self.forget_if_over()

    def forget_if_over(self) -> None:
        """Give up what nothing will be heard of any more."""
        if self.exited and not self.worker and all(stream.fd < 0 for stream in self.streams):
            self.agent.commands.pop(self.channel, None)
