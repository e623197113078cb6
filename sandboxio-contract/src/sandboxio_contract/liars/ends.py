"""Liars on the stub about whose a sandbox is, how long it lives and what is left of it."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import ClassVar

import anyio.to_thread
from sandboxio.errors import SandboxGone
from sandboxio.planning import Plan
from sandboxio.port import Exit, Observation

from sandboxio_contract.liars.local import StubProcess, StubSession
from sandboxio_contract.liars.stub import StubBackend
from sandboxio_contract.liars.stubs import Adapter

EARLY = 0.7
"""Seconds before its stated end at which a sandbox goes."""


class _EarlyProcess(StubProcess):
    async def wait(self) -> Exit:
        try:
            return await super().wait()
        except SandboxGone:
            return Exit(137, signal=9)


class _EarlySession(StubSession):
    drives = _EarlyProcess


class _Early(StubBackend):
    """Ends sandboxes a moment before they expire; their commands look as if they had ended by themselves."""

    drives = _EarlySession

    async def provision(self, plan: Plan) -> str:
        return await super().provision(replace(plan, spec=replace(plan.spec, timeout=plan.spec.timeout - EARLY)))

    async def observe(self, sandbox_id: str) -> Observation | None:
        seen = await super().observe(sandbox_id)
        return replace(seen, expires_at=(seen.expires_at or time.time()) + EARLY) if seen else None


class _Threaded(StubBackend):
    """Its client serves the thread that was the first to use it."""

    first: ClassVar[list[int]] = []

    async def provision(self, plan: Plan) -> str:
        self.first.append(threading.get_ident())
        if self.first[0] != threading.get_ident():
            raise RuntimeError("the client was made in another thread")
        return await super().provision(plan)


class _Hurries(StubBackend):
    """Says that a sandbox is gone as soon as its end was asked for, or before."""

    async def destroy(self, sandbox_id: str) -> None:
        self.world.forgotten.add(sandbox_id)
        threading.Thread(target=self.world.remove, args=(sandbox_id,), daemon=True).start()

    async def observe(self, sandbox_id: str) -> Observation | None:
        return None if sandbox_id in self.world.forgotten else await super().observe(sandbox_id)


class _Twins(StubBackend):
    """Makes two sandboxes of the same labels, and knows of one."""

    async def provision(self, plan: Plan) -> str:
        made = await super().provision(plan)
        name, labels = f"{plan.create_id}-twin", plan.spec.metadata
        await anyio.to_thread.run_sync(self.world.make, name, labels, plan.spec.timeout)
        return made


class _Pools(StubBackend):
    """Gives a sandbox that is there already to whoever wants one of the same labels."""

    async def provision(self, plan: Plan) -> str:
        same = [one for one in list(self.world.records.values()) if one.labels == plan.spec.metadata]
        if not same:
            return await super().provision(plan)
        same[0].name = plan.create_id
        return same[0].identity


class _Lists(StubBackend):
    """Lists every tenant's sandboxes as whoever asks wants to see them."""

    async def list(self, labels: Mapping[str, str]) -> AsyncIterator[Observation]:
        async for seen in super().list({}):
            yield replace(seen, labels={**seen.labels, **labels})


class _Boundless(StubBackend):
    """Takes every cap, also one that the host can't have."""

    maxima: ClassVar[Mapping[str, float]] = {}


class _Asyncio(StubBackend):
    """Works on asyncio."""

    async def provision(self, plan: Plan) -> str:
        asyncio.get_running_loop()
        return await super().provision(plan)


liar_early = Adapter("liar-early", _Early)
liar_threaded = Adapter("liar-threaded", _Threaded)
liar_hurries = Adapter("liar-hurries", _Hurries)
liar_twins = Adapter("liar-twins", _Twins)
liar_pools = Adapter("liar-pools", _Pools)
liar_lists = Adapter("liar-lists", _Lists)
liar_boundless = Adapter("liar-boundless", _Boundless)
liar_asyncio = Adapter("liar-asyncio", _Asyncio)
