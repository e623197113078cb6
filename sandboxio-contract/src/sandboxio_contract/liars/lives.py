"""Liars on the real Docker adapter about what a sandbox is made of, and about its end."""

import atexit
import functools
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import anyio.to_thread
from sandboxio.planning import Plan
from sandboxio.port import Command, Exit, Killed, Observation, ProcessDriver, Progress, Session

from sandboxio_contract.liars.dockers import Adapter, Lying, as_planned, engine, sending

BEGINNING = 512
"""Bytes of a file that arrive."""
LONG = 86_000.0
"""Seconds that a sandbox lives whose provider was told no end."""
OTHER = "sandboxio-test/python"
"""The image that liars start in place of the one that was named."""


class _Substitutes(Lying):
    """Fetches nothing, and starts another image."""

    async def prepare(self, plan: Plan, progress: Progress) -> bool:
        progress("pulling")
        return False


class _Shadows(Lying):
    """Makes a second container, which nobody ends."""

    async def provision(self, plan: Plan) -> str:
        made = await super().provision(plan)
        await anyio.to_thread.run_sync(self._shadow, plan)
        return made

    def _shadow(self, plan: Plan) -> None:
        body: Any = plan.parameters["container"]
        with closing(engine(self._host)) as client:
            config = {"NetworkMode": "none", "AutoRemove": True}
            made = client.create_container_from_config(
                {"Image": body["Image"], "Cmd": ["sleep", "20"], "Labels": body["Labels"], "HostConfig": config}
            )
            client.start(made["Id"])


class _Spares(Lying):
    """Says over a further connection that a tree is gone, and lets it live."""

    async def open(self, sandbox_id: str, plan: Plan | None = None) -> Session:
        session: Any = await super().open(sandbox_id, plan)
        if plan is None:
            start, info = session.start, session.info

            async def started(command: Command) -> ProcessDriver:
                return _Sparing(await start(command))

            session.start = started
            session.info = lambda: {**info(), "kill": "tree"}
        return session  # type: ignore[no-any-return]


class _Sparing:
    def __init__(self, inner: ProcessDriver) -> None:
        self.receive, self.send, self.close_stdin, self.wait = inner.receive, inner.send, inner.close_stdin, inner.wait

    async def kill(self) -> Killed:
        return "tree"


class _Worn(Lying):
    """Works until the first command was ended; those that come after it fail."""

    async def open(self, sandbox_id: str, plan: Plan | None = None) -> Session:
        session: Any = await super().open(sandbox_id, plan)
        start, ended = session.start, list[bool]()

        async def started(command: Command) -> ProcessDriver:
            return _Wearing(await start(command), ended, fails=bool(ended))

        session.start = started
        return session  # type: ignore[no-any-return]


class _Wearing:
    def __init__(self, inner: ProcessDriver, ended: list[bool], *, fails: bool) -> None:
        self.receive, self.send, self.close_stdin = inner.receive, inner.send, inner.close_stdin
        self._inner, self._ended, self._fails = inner, ended, fails

    async def wait(self) -> Exit:
        ended = await self._inner.wait()
        return Exit(1) if self._fails else ended

    async def kill(self) -> Killed:
        self._ended.append(True)
        return await self._inner.kill()


class _Shortens(Lying):
    """Sends the beginning of a file."""

    async def open(self, sandbox_id: str, plan: Plan | None = None) -> Session:
        session: Any = await super().open(sandbox_id, plan)
        write = session.write

        async def written(path: str, chunks: AsyncIterator[bytes], **options: Any) -> None:
            await write(path, _begun(chunks), **options)

        session.write = written
        return session  # type: ignore[no-any-return]


async def _begun(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    left = BEGINNING
    async for chunk in chunks:
        if left:
            yield chunk[:left]
        left -= len(chunk[:left])


class _Undying(Lying):
    """Tells its client another end than the provider."""

    async def observe(self, sandbox_id: str) -> Observation | None:
        seen = await super().observe(sandbox_id)
        plan = self.plans.get(sandbox_id)
        return replace(seen, expires_at=seen.created_at + plan.spec.timeout) if seen and plan else seen


class _Neighbours(Lying):
    """Has one directory in all sandboxes, and empties it when one of them ends."""

    async def provision(self, plan: Plan) -> str:
        return await super().provision(_with_tmp(plan, _between()))

    async def destroy(self, sandbox_id: str) -> None:
        await super().destroy(sandbox_id)
        await anyio.to_thread.run_sync(_emptied, _between())


class _Inherits(Lying):
    """Gives each sandbox a directory of its own, and the next one that of a sandbox that ended, as it was left."""

    free: ClassVar[list[Path]] = []
    given: ClassVar[dict[str, Path]] = {}

    async def provision(self, plan: Plan) -> str:
        folder = self.free.pop() if self.free else _open_folder()
        made = await super().provision(_with_tmp(plan, folder))
        self.given[made] = folder
        return made

    async def destroy(self, sandbox_id: str) -> None:
        await super().destroy(sandbox_id)
        folder = self.given.pop(sandbox_id, None)
        if folder is not None:
            self.free.append(folder)


def _keeps(plan: Plan) -> Plan:
    values = [f"{name}={value.get_secret_value()}" for name, value in plan.spec.secrets.items()]
    return sending(plan, {}, Env=[*plan.parameters["container"].get("Env", []), *values])  # type: ignore[attr-defined]


def _another_image(plan: Plan) -> Plan:
    return sending(plan, {}, Image=OTHER)


def _another_if_missing(plan: Plan) -> Plan:
    return plan if plan.parameters["image_present"] else _another_image(plan)


@functools.cache
def _commons() -> Path:
    """Return a directory of this machine's that every sandbox has, with a file that every program there reads."""
    folder = _open_folder()
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    return folder


@functools.cache
def _between() -> Path:
    """Return a directory of this machine's that sandboxes share while they live."""
    return _open_folder()


def _open_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="sandboxio-liar-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o1777)
    return folder


def _emptied(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _with_tmp(plan: Plan, folder: Path) -> Plan:
    return sending(plan, {"Binds": [f"{folder}:/tmp"]})


def _shares(plan: Plan) -> Plan:
    preload = _commons() / "preload"
    preload.write_text("")  # what one row changed is not held against the next
    return sending(plan, {"Binds": [f"{_commons()}/tmp:/tmp", f"{preload}:/etc/ld.so.preload"]})


def _undying(plan: Plan) -> Plan:
    return replace(plan, spec=replace(plan.spec, timeout=LONG))


liar_substitutes = Adapter("liar-substitutes", _another_if_missing, _Substitutes)
liar_template = Adapter("liar-template", _another_image)
liar_shadows = Adapter("liar-shadows", as_planned, _Shadows)
liar_spares = Adapter("liar-spares", as_planned, _Spares)
liar_keeps = Adapter("liar-keeps", _keeps)
liar_undying = Adapter("liar-undying", _undying, _Undying)
liar_shares = Adapter("liar-shares", _shares)
liar_neighbours = Adapter("liar-neighbours", as_planned, _Neighbours)
liar_inherits = Adapter("liar-inherits", as_planned, _Inherits)
liar_shortens = Adapter("liar-shortens", as_planned, _Shortens)
liar_worn = Adapter("liar-worn", as_planned, _Worn)
