"""Sessions and commands in memory."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import anyio
from sandboxio.port import Chunk, Command, Exit, Killed, ProcessDriver
from sandboxio.testing.gates import Gates


@dataclass
class Program:
    """What a command does.

    :param chunks: what it prints.
    :param hangs: whether it goes on after that until it is killed.
    :param endless: whether it prints the last chunk again and again, without ever waiting.
    :param killed: what a kill answers.
    :param reads: how many bytes of stdin it takes before it stops reading; ``None``: all.
    """

    chunks: Sequence[Chunk] = ()
    exit: Exit = field(default_factory=lambda: Exit(0))
    hangs: bool = False
    endless: bool = False
    killed: Killed = "tree"
    reads: int | None = None


class StubDriver:
    """One command."""

    def __init__(self, gates: Gates, program: Program, command: Command) -> None:
        self.command = command
        self.program = program
        self.received = b""
        self.stdin_closed = False
        self.alive = True
        self.kills = 0
        self._gates = gates
        self._left = deque(program.chunks)
        self._ended = anyio.Event()
        if not program.hangs and not program.endless:
            self.alive = False
            self._ended.set()

    async def receive(self) -> Chunk | None:
        if self.program.endless and self.alive:
            return self.program.chunks[-1]
        await self._gates.wire("receive", lambda: None)
        if self._left:
            return self._left.popleft()
        await self._ended.wait()
        return None

    async def send(self, data: bytes) -> None:
        await self._gates.wire("send", lambda: None)
        room = len(data) if self.program.reads is None else self.program.reads - len(self.received)
        self.received += data[: max(0, room)]
        if room < len(data) and self.alive:
            await self._ended.wait()

    async def close_stdin(self) -> None:
        def close() -> None:
            self.stdin_closed = True

        await self._gates.wire("close_stdin", close)

    async def wait(self) -> Exit:
        await self._gates.wire("wait", lambda: None)
        await self._ended.wait()
        return self.program.exit

    async def kill(self) -> Killed:
        def kill() -> None:
            self.kills += 1
            self.alive = False
            self._ended.set()

        await self._gates.wire("kill", kill)
        return self.program.killed

    def end(self) -> None:
        self.alive = False
        self._ended.set()


class StubSession:
    """One connection."""

    def __init__(self, gates: Gates, programs: Mapping[str, Callable[[Command], Program]]) -> None:
        self.native: object = object()
        self.drivers: list[StubDriver] = []
        self.closed = 0
        self.detached = False
        self.facts: dict[str, object] = {"transport": "stub"}
        self._gates = gates
        self._programs = programs

    async def start(self, command: Command) -> ProcessDriver:
        def start() -> StubDriver:
            program = self._programs[command.argv[0]](command)
            driver = StubDriver(self._gates, program, command)
            self.drivers.append(driver)
            return driver

        return await self._gates.wire("start", start)

    async def detach(self) -> None:
        def detach() -> None:
            self.detached = True

        await self._gates.wire("detach", detach)

    async def aclose(self) -> None:
        def close() -> None:
            self.closed += 1

        await self._gates.wire("aclose", close)

    def info(self) -> Mapping[str, object]:
        return self.facts
