"""The port for one E2B account."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING

import anyio
from sandboxio.bridge import Bridge
from sandboxio.errors import SandboxError, SandboxGone
from sandboxio.planning import Plan
from sandboxio.port import Facts, Observation
from sandboxio.spec import SandboxSpec

from sandboxio_e2b import errors, observation
from sandboxio_e2b.config import DEFAULT_TEMPLATE, E2BConfig
from sandboxio_e2b.info import INFO
from sandboxio_e2b.planning import CREATE_ID, MANAGED, make_plan
from sandboxio_e2b.sdk import Account
from sandboxio_e2b.session import E2BSession

if TYPE_CHECKING:
    from e2b import AsyncSandbox


class E2BBackend:
    """One account. The SDK runs in core's bridge, so callers may be on any loop."""

    info = INFO
    plan = staticmethod(make_plan)
    no_process = ()

    def __init__(self, config: E2BConfig) -> None:
        self._account = Account(config)
        self._bridge = Bridge()
        self._made: dict[str, AsyncSandbox] = {}

    async def probe(self, spec: SandboxSpec) -> Facts:
        """Ask for the template's size: those are the sandbox's caps."""
        name = spec.template or DEFAULT_TEMPLATE
        found = await self._bridge.call(lambda: self._account.template(name))
        size = {"cpu": float(found.cpu_count), "memory_mb": found.memory_mb, "disk_mb": found.disk_size_mb}
        return Facts({"template": {"id": found.template_id, **size}}, INFO.baseline.maxima)

    async def provision(self, plan: Plan) -> str:
        """Make the sandbox. What a given-up creation makes late is ended by the bridge."""
        try:
            made = await self._bridge.call(lambda: self._account.create(plan.parameters))
        except anyio.get_cancelled_exc_class():
            self._bridge.leave(lambda: self._account.end_what_was_made(plan.create_id, CREATE_ID))
            raise
        self._made[made.sandbox_id] = made
        return made.sandbox_id

    async def find(self, create_id: str) -> str | None:
        """Return the id of the sandbox that carries ``create_id`` in its metadata."""
        async with aclosing(self._bridge.iterate(lambda: self._account.listed({CREATE_ID: create_id}))) as found:
            async for one in found:
                return one.sandbox_id
        return None

    async def observe(self, sandbox_id: str) -> Observation | None:
        """Return what E2B says of a sandbox; asking has no effect on it."""
        detail = await self._bridge.call(lambda: self._account.detail(sandbox_id))
        return None if detail is None else observation.observed(detail)

    async def open(self, sandbox_id: str, plan: Plan | None = None) -> E2BSession:
        """Open a session, without resuming or extending anything."""
        return await self._bridge.call(lambda: self._open(self._made.pop(sandbox_id, None), sandbox_id))

    async def list(self, labels: Mapping[str, str]) -> AsyncIterator[Observation]:
        """Iterate over ours with these labels, running and paused."""
        wanted = {MANAGED: "true", **labels}
        async with aclosing(self._bridge.iterate(lambda: self._account.listed(wanted))) as found:
            async for one in found:
                seen = observation.listed(one)
                if labels.items() <= seen.labels.items():
                    yield seen

    async def destroy(self, sandbox_id: str) -> None:
        """End a sandbox, running or paused."""
        self._made.pop(sandbox_id, None)
        await self._bridge.call(lambda: self._account.kill(sandbox_id))

    async def limit_hit(self, sandbox_id: str, since: float) -> str | None:
        """Return nothing: E2B does not tell what a cap ended."""
        return None

    def map_error(self, error: BaseException) -> SandboxError | None:
        """Translate what the SDK and what lies below it raise."""
        return errors.map_error(error)

    def secret_values(self) -> Iterable[str]:
        """Return the tokens of sandboxes that were made and not opened yet."""
        return [
            token
            for one in tuple(self._made.values())
            for token in (one.connection_config.sandbox_headers.get("X-Access-Token"), one.traffic_access_token)
            if token
        ]

    async def aclose(self) -> None:
        """Give up the thread; sandboxes live on."""
        await self._bridge.aclose()

    async def _open(self, sandbox: "AsyncSandbox | None", sandbox_id: str) -> E2BSession:
        from e2b.envd.client_async import create_rpc_client
        from e2b.envd.process.process_connect import ProcessClient

        if sandbox is None:
            detail = await self._account.detail(sandbox_id)
            if detail is None or detail.state.value != "running":
                raise SandboxGone("E2B knows no such sandbox that runs")
            sandbox = await self._account.attach(detail)
        rpc = create_rpc_client(ProcessClient, sandbox.envd_api_url, sandbox.connection_config)
        return E2BSession(self._bridge, sandbox, rpc, self)
