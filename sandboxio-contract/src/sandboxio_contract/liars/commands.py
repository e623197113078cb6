"""Liars on the stub whose commands and files are not quite what was asked for, and an honest stub that talks much."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import anyio
from sandboxio.errors import ConfigurationError
from sandboxio.file_scripts import READ, WRITE
from sandboxio.port import Chunk, Command, Exit, Killed

from sandboxio_contract.liars.local import POLL, StubProcess, StubSession
from sandboxio_contract.liars.stub import StubBackend
from sandboxio_contract.liars.stubs import Adapter
from sandboxio_contract.liars.world import Record, World

KEPT = 65_536
"""Bytes of code that are passed on by who cuts it."""
FULL = 1_000_000
"""Bytes that nobody has read, by which a command stands still."""
DELAY = 0.4


class _MergesProcess(StubProcess):
    async def receive(self) -> Chunk | None:
        chunk = await super().receive()
        return replace(chunk, stream="stdout") if chunk else None


class _MergesSession(StubSession):
    drives = _MergesProcess


class _Merges(StubBackend):
    drives = _MergesSession


class _BlanksSession(StubSession):
    async def start(self, command: Command) -> StubProcess:
        if command.argv[0] == "sh":  # whose arguments core's own scripts count
            return await super().start(command)
        return await super().start(replace(command, argv=tuple(part for part in command.argv if part)))


class _Blanks(StubBackend):
    drives = _BlanksSession


class _MistakesProcess(StubProcess):
    async def wait(self) -> Exit:
        ended = await super().wait()
        return Exit(1) if ended.signal else ended


class _MistakesSession(StubSession):
    drives = _MistakesProcess


class _Mistakes(StubBackend):
    drives = _MistakesSession


class _StaysSession(StubSession):
    async def start(self, command: Command) -> StubProcess:
        is_there = command.cwd is not None and await anyio.Path(command.cwd).is_dir()
        return await super().start(replace(command, cwd=None) if is_there else command)


class _Stays(StubBackend):
    drives = _StaysSession


class _PersistsSession(StubSession):
    def __init__(self, world: World, record: Record) -> None:
        super().__init__(world, record)
        self._last: dict[str, str] = {}

    async def start(self, command: Command) -> StubProcess:
        self._last = {**self._last, **command.env}
        return await super().start(replace(command, env=self._last))


class _Persists(StubBackend):
    drives = _PersistsSession


class _LingersProcess(StubProcess):
    async def kill(self) -> Killed:
        return "tree"


class _LingersSession(StubSession):
    drives = _LingersProcess


class _Lingers(StubBackend):
    drives = _LingersSession


class _TrimsSession(StubSession):
    async def start(self, command: Command) -> StubProcess:
        first = {name: value.split("\n")[0] for name, value in command.env.items()}
        return await super().start(replace(command, env=first))


class _Trims(StubBackend):
    drives = _TrimsSession


class _PosesSession(StubSession):
    def started(self, argv: list[str], env: Mapping[str, str], cwd: str, *, stdin: bool) -> StubProcess:
        made = super().started(argv, env, cwd, stdin=stdin)
        if made.process is None:
            made.shows_also("stdout")
        return made


class _Poses(StubBackend):
    drives = _PosesSession


class _CutsCodeSession(StubSession):
    async def start(self, command: Command) -> StubProcess:
        return await super().start(replace(command, code=command.code and command.code[:KEPT]))


class _CutsCode(StubBackend):
    drives = _CutsCodeSession


class _RetriesSession(StubSession):
    """Takes an answer that is slow for one that was lost, and asks again."""

    async def start(self, command: Command) -> StubProcess:
        if not command.stdin and command.cwd != "/":  # where core's own scripts run, which notice
            lost = await super().start(command)
            with anyio.move_on_after(DELAY):
                await lost.wait()
            await lost.kill()
        return await super().start(command)


class _Retries(StubBackend):
    drives = _RetriesSession


class _DropsProcess(StubProcess):
    async def receive(self) -> Chunk | None:
        chunk = await super().receive()
        await anyio.sleep(2 * POLL)  # who is cancelled here has lost it
        return chunk


class _DropsSession(StubSession):
    drives = _DropsProcess


class _Drops(StubBackend):
    drives = _DropsSession


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


class _SwellsSession(StubSession):
    drives = _SwellsProcess


class _Swells(StubBackend):
    drives = _SwellsSession


class _WaitsProcess(StubProcess):
    def is_over(self) -> bool:
        return False


class _WaitsSession(StubSession):
    drives = _WaitsProcess


class _Waits(StubBackend):
    drives = _WaitsSession


class _ReapsProcess(StubProcess):
    async def wait(self) -> Exit:
        ended = await super().wait()
        await self.kill()
        return ended


class _ReapsSession(StubSession):
    drives = _ReapsProcess


class _Reaps(StubBackend):
    drives = _ReapsSession


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


class _TalkativeSession(StubSession):
    """Its provider's errors hold all that was sent: core is to keep that to itself."""

    async def start(self, command: Command) -> StubProcess:
        try:
            return await super().start(command)
        except ConfigurationError as error:
            error.add_note(f"the request was {dict(command.env)}")
            raise error from _Request(dict(command.env))


class _Request(Exception):
    def __init__(self, sent: Any) -> None:
        super().__init__(f"a request was refused: {sent}")


class _Talkative(StubBackend):
    drives = _TalkativeSession


stub_talkative = Adapter("stub-talkative", _Talkative)
liar_merges = Adapter("liar-merges", _Merges)
liar_blanks = Adapter("liar-blanks", _Blanks)
liar_mistakes = Adapter("liar-mistakes", _Mistakes)
liar_stays = Adapter("liar-stays", _Stays)
liar_persists = Adapter("liar-persists", _Persists)
liar_lingers = Adapter("liar-lingers", _Lingers)
liar_trims = Adapter("liar-trims", _Trims)
liar_poses = Adapter("liar-poses", _Poses)
liar_cuts_code = Adapter("liar-cuts-code", _CutsCode)
liar_retries = Adapter("liar-retries", _Retries)
liar_drops = Adapter("liar-drops", _Drops)
liar_queues = Adapter("liar-queues", _Queues)
liar_swells = Adapter("liar-swells", _Swells)
liar_waits = Adapter("liar-waits", _Waits)
liar_reaps = Adapter("liar-reaps", _Reaps)
liar_lines = Adapter("liar-lines", _Lines)
liar_gathers = Adapter("liar-gathers", _Gathers)
