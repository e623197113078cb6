"""Liars on the stub whose streams and files are not quite what went in or came out, or that do not end what they should."""

from dataclasses import replace

import anyio
from sandboxio.file_scripts import READ, WRITE
from sandboxio.port import Chunk, Command, Exit, Killed

from sandboxio_contract.liars.local import StubProcess, StubSession
from sandboxio_contract.liars.stub import StubBackend, running
from sandboxio_contract.liars.stubs import Adapter
from sandboxio_contract.liars.world import Record, World

FULL = 1_000_000
"""Bytes that nobody has read, by which a command stands still."""
DELAY = 0.4
HELD, SHORT = 0.05, 1000
"""Seconds for which a chunk of fewer bytes is held."""


class _MergesProcess(StubProcess):
    async def receive(self) -> Chunk | None:
        chunk = await super().receive()
        return replace(chunk, stream="stdout") if chunk else None


class _ShufflesProcess(StubProcess):
    def next_of(self, held: list[Chunk]) -> Chunk:
        return held.pop(-1)


class _LingersProcess(StubProcess):
    async def kill(self) -> Killed:
        return "tree"


class _DropsProcess(StubProcess):
    async def receive(self) -> Chunk | None:
        chunk = await super().receive()
        await anyio.sleep(HELD if chunk and len(chunk.data) < SHORT else 0)  # who is cancelled here has lost it
        return chunk


class _QueuesSession(StubSession):
    """Has one connection for all commands, which stands still while one of them is not read."""

    def __init__(self, world: World, record: Record) -> None:
        super().__init__(world, record)
        self._made: list[StubProcess] = []

    async def start(self, command: Command) -> StubProcess:
        if any(one.unread() > FULL for one in self._made):
            await anyio.sleep(DELAY)
        self._made.append(await super().start(command))
        return self._made[-1]


class _Queues(StubBackend):
    drives = _QueuesSession


class _SwellsProcess(StubProcess):
    most = 2**40


class _WaitsProcess(StubProcess):
    def is_over(self) -> bool:
        return False


class _ReapsProcess(StubProcess):
    async def wait(self) -> Exit:
        ended = await super().wait()
        await self.kill()
        return ended


class _LinesProcess(StubProcess):
    async def receive(self) -> Chunk | None:
        chunk = await super().receive()
        return replace(chunk, data=chunk.data.replace(b"\r\n", b"\n")) if chunk else None


class _LinesSession(StubSession):
    def driver(self, argv: list[str]) -> type[StubProcess]:
        return _LinesProcess if any(READ in part for part in argv) else StubProcess


class _Lines(StubBackend):
    drives = _LinesSession


class _GathersProcess(StubProcess):
    """Collects what goes in before it passes any of it on."""

    held: list[bytes]

    async def send(self, data: bytes) -> None:
        self.held = [*getattr(self, "held", []), data]

    async def close_stdin(self) -> None:
        for data in getattr(self, "held", []):
            await super().send(data)
        await super().close_stdin()


class _GathersSession(StubSession):
    def driver(self, argv: list[str]) -> type[StubProcess]:
        return _GathersProcess if any(WRITE in part for part in argv) else StubProcess


class _Gathers(StubBackend):
    drives = _GathersSession


liar_merges = Adapter("liar-merges", running(_MergesProcess))
liar_shuffles = Adapter("liar-shuffles", running(_ShufflesProcess))
liar_lingers = Adapter("liar-lingers", running(_LingersProcess))
liar_drops = Adapter("liar-drops", running(_DropsProcess))
liar_queues = Adapter("liar-queues", _Queues)
liar_swells = Adapter("liar-swells", running(_SwellsProcess))
liar_waits = Adapter("liar-waits", running(_WaitsProcess))
liar_reaps = Adapter("liar-reaps", running(_ReapsProcess))
liar_lines = Adapter("liar-lines", _Lines)
liar_gathers = Adapter("liar-gathers", _Gathers)
