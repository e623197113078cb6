"""Sessions and commands of the fake."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import anyio

from sandboxio.errors import SandboxGone
from sandboxio.port import Chunk, Command, Exit, Killed, ProcessDriver
from sandboxio.testing.files import FakeFiles
from sandboxio.testing.gates import Gates
from sandboxio.testing.programs import Answer

if TYPE_CHECKING:
    from sandboxio.testing.backend import FakeSandbox

KILLED = 137
POLL = 0.005
"""Seconds between looks at what another thread may change."""


class FakeDriver:
    """One command.

    :ivar received: what came over stdin.
    :ivar kills: how often it was killed.
    """

    def __init__(self, gates: Gates, command: Command, answer: Answer, gone: Callable[[], SandboxGone | None]) -> None:
        self.command = command
        self.received = b""
        self.stdin_closed = False
        self.kills = 0
        self.alive = answer.hangs
        self._gates = gates
        self._gone = gone
        self._exit = Exit(answer.exit_code, answer.exit_code - 128 if answer.exit_code > 128 else None, answer.limit)
        pieces = (Chunk("stdout", _bytes(answer.stdout)), Chunk("stderr", _bytes(answer.stderr)))
        self._left = deque(piece for piece in pieces if piece.data)

    async def receive(self) -> Chunk | None:
        """Return the next piece of output."""
        await self._gates.wire("receive", lambda: None)
        if self._left:
            return self._left.popleft()
        await self._ended()
        return None

    async def send(self, data: bytes) -> None:
        """Take what is written to stdin."""

        def take() -> None:
            self.received += data

        await self._gates.wire("send", take)

    async def close_stdin(self) -> None:
        """Note that stdin ended."""

        def close() -> None:
            self.stdin_closed = True

        await self._gates.wire("close_stdin", close)

    async def wait(self) -> Exit:
        """Wait for the end."""
        await self._gates.wire("wait", lambda: None)
        await self._ended()
        self._left.clear()
        return Exit(KILLED, KILLED - 128) if self.kills else self._exit

    async def kill(self) -> Killed:
        """End the command."""

        def kill() -> None:
            self.kills += 1
            self.alive = False

        await self._gates.wire("kill", kill)
        return "tree"

    async def _ended(self) -> None:
        # Polled: a test may end it, or its sandbox, from another thread.
        while self.alive:
            if gone := self._gone():
                raise gone
            await anyio.sleep(POLL)


class FakeSession(FakeFiles):
    """One connection to a fake sandbox; it has files of its own, in memory."""

    def __init__(self, gates: Gates, sandbox: "FakeSandbox", begin: Callable[[Command], Answer]) -> None:
        super().__init__(gates, sandbox.tree, sandbox.check_alive)
        self.native: object = sandbox
        self._gates = gates
        self._sandbox = sandbox
        self._begin = begin

    async def start(self, command: Command) -> ProcessDriver:
        """Start a command: find its answer."""

        def start() -> FakeDriver:
            self._sandbox.check_alive()
            driver = FakeDriver(self._gates, command, self._begin(command), self._sandbox.gone)
            self._sandbox.drivers.append(driver)
            return driver

        return await self._gates.wire("start", start)

    def network_denials(self) -> int:
        """Return what a test says was blocked."""
        return self._sandbox.denials

    async def aclose(self) -> None:
        """Close the connection."""
        await self._gates.wire("aclose", lambda: None)

    def info(self) -> Mapping[str, object]:
        """Return ``transport``, ``kill``, ``cwd``."""
        return {"transport": "fake", "kill": "tree", "cwd": "/work"}


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text
