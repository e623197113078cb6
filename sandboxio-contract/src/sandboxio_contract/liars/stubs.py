"""The stub and its liars, as hook implementations that `sandboxio.register` can name."""

from dataclasses import replace
from typing import Any

import anyio
import anyio.to_thread
from sandboxio.errors import CapabilityNotSupported
from sandboxio.hookspecs import hookimpl
from sandboxio.planning import Enforcement, Plan
from sandboxio.policy import NetworkPolicy
from sandboxio.port import Backend, BackendInfo, Exit, Facts, Observation, Progress
from sandboxio.spec import SandboxSpec

from sandboxio_contract.liars.local import StubProcess, StubSession
from sandboxio_contract.liars.stub import StubBackend, info, running


class Adapter:
    """The hooks of one stub."""

    def __init__(self, name: str, backend: type[StubBackend]) -> None:
        self._name, self._backend = name, backend

    @hookimpl
    def sandboxio_backend_info(self) -> BackendInfo:
        """Return what it declares."""
        return replace(info(self._name), **self._backend.declares)

    @hookimpl
    def sandboxio_make_backend(self, config: object) -> Backend:
        """Make it."""
        return self._backend(self._name)


class _Forgets(StubBackend):
    async def destroy(self, sandbox_id: str) -> None:
        self.world.forgotten.add(sandbox_id)

    async def observe(self, sandbox_id: str) -> Observation | None:
        return None if sandbox_id in self.world.forgotten else await super().observe(sandbox_id)


class _PartialProcess(StubProcess):
    async def receive(self) -> Any:
        with anyio.move_on_after(0.4):
            return await super().receive()
        return None

    async def wait(self) -> Exit:
        with anyio.move_on_after(0.1):
            return await super().wait()
        await self.kill()
        return Exit(0)


class _PartialSession(StubSession):
    def driver(self, argv: list[str]) -> type[StubProcess]:
        return _PartialProcess if "sleep 30" in " ".join(argv) else StubProcess


class _Partial(StubBackend):
    drives = _PartialSession


class _Swallows(StubBackend):
    async def prepare(self, plan: Plan, progress: Progress) -> bool:
        try:
            await anyio.sleep(0.05)
        except anyio.get_cancelled_exc_class():
            return False
        return False


class _Late(StubBackend):
    def plan(self, spec: SandboxSpec, facts: Facts) -> Plan:
        honest = super().plan(replace(spec, network=NetworkPolicy()), facts)
        allow = Enforcement("network.allow", spec.network.allow, "none", "provider", "documented", strength="sni")
        items = tuple(allow if item.policy == "network.allow" and spec.network.allow else item for item in honest.items)
        return replace(honest, spec=spec, items=items)

    async def open(self, sandbox_id: str, plan: Plan | None = None) -> StubSession:
        if plan is not None and plan.spec.network.allow:
            raise CapabilityNotSupported("no allowlists here")
        return await super().open(sandbox_id, plan)


class _Chatty(StubBackend):
    def plan(self, spec: SandboxSpec, facts: Facts) -> Plan:
        self.world.look("anything")
        return super().plan(spec, facts)


class _Orphans(StubBackend):
    async def provision(self, plan: Plan) -> str:
        return await anyio.to_thread.run_sync(
            self.world.make, plan.create_id, plan.spec.metadata, plan.spec.timeout, abandon_on_cancel=True
        )

    async def find(self, create_id: str) -> str | None:
        return None


class _Immortal(StubBackend):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.world.enforces_lifetime = False


class _Twice(StubBackend):
    async def destroy(self, sandbox_id: str) -> None:
        if sandbox_id not in self.world.records:
            raise RuntimeError("no such sandbox")
        await super().destroy(sandbox_id)


class _StopsProcess(StubProcess):
    """Ends a command that has printed a mebibyte, as if that were its end."""

    seen = 0

    async def receive(self) -> Any:
        chunk = await super().receive()
        self.seen += len(chunk.data) if chunk else 0
        if self.seen > 1_000_000:
            await self.kill()
            return None
        return chunk


class _WrapsProcess(StubProcess):
    async def receive(self) -> Any:
        try:
            return await super().receive()
        except anyio.get_cancelled_exc_class() as error:
            raise RuntimeError("the request was interrupted") from error


class _HoardsProcess(StubProcess):
    """Collects all output before it returns any."""

    all: list[Any]

    async def receive(self) -> Any:
        if not hasattr(self, "all"):
            self.all = []
            while chunk := await super().receive():
                self.all.append(chunk)
        return self.all.pop(0) if self.all else None


class _Extends(StubBackend):
    async def open(self, sandbox_id: str, plan: Plan | None = None) -> StubSession:
        if plan is None:
            self.world.records[sandbox_id].expires_at += 600
        return await super().open(sandbox_id, plan)


stub = Adapter("stub", StubBackend)
liar_stops = Adapter("liar-stops", running(_StopsProcess))
liar_wraps = Adapter("liar-wraps", running(_WrapsProcess))
liar_hoards = Adapter("liar-hoards", running(_HoardsProcess))
liar_forgets = Adapter("liar-forgets", _Forgets)
liar_partial = Adapter("liar-partial", _Partial)
liar_swallows = Adapter("liar-swallows", _Swallows)
liar_late = Adapter("liar-late", _Late)
liar_chatty = Adapter("liar-chatty", _Chatty)
liar_orphans = Adapter("liar-orphans", _Orphans)
liar_immortal = Adapter("liar-immortal", _Immortal)
liar_twice = Adapter("liar-twice", _Twice)
liar_extends = Adapter("liar-extends", _Extends)
