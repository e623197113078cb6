"""Liars on the stub whose commands and files are not quite what was asked for, and an honest stub that talks much."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import anyio
from sandboxio.errors import ConfigurationError
from sandboxio.port import Command, Exit

from sandboxio_contract.liars.local import StubProcess, StubSession
from sandboxio_contract.liars.stub import StubBackend, running
from sandboxio_contract.liars.stubs import Adapter
from sandboxio_contract.liars.world import Record, World

KEPT = 65_536
"""Bytes of code that are passed on by who cuts it."""
DELAY = 0.4


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
liar_blanks = Adapter("liar-blanks", _Blanks)
liar_mistakes = Adapter("liar-mistakes", running(_MistakesProcess))
liar_stays = Adapter("liar-stays", _Stays)
liar_persists = Adapter("liar-persists", _Persists)
liar_trims = Adapter("liar-trims", _Trims)
liar_poses = Adapter("liar-poses", _Poses)
liar_cuts_code = Adapter("liar-cuts-code", _CutsCode)
liar_retries = Adapter("liar-retries", _Retries)
