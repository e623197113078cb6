"""The Docker backend: one engine, no task, bound to no loop."""

import threading
import time
from collections.abc import AsyncIterator, Mapping

import anyio
import requests
from docker.errors import NotFound
from sandboxio.errors import SandboxError, SandboxGone
from sandboxio.planning import Plan
from sandboxio.port import Facts, Observation, Progress, Session
from sandboxio.spec import SandboxSpec

from sandboxio_docker import errors, facts, labels, networks, opening, planning, provision, pull
from sandboxio_docker.config import DockerConfig
from sandboxio_docker.engine import Engine, EngineSilent, engine_for
from sandboxio_docker.hardening import Hardening
from sandboxio_docker.info import INFO
from sandboxio_docker.joining import Joining
from sandboxio_docker.observation import ENDED, from_inspect, from_network, from_summary
from sandboxio_docker.reaper import reaper_for
from sandboxio_docker.sdk import Json, Sdk

CREATE_BOUND = 120.0
"""Seconds for one create request; the engine copies nothing then, but may be busy."""
DESTROY_BOUND = 2.5
"""Seconds that destroy waits for the removal, once it is its turn: a full layer takes longer, and is `ENDED` by then."""
LONELY = 600.0
"""Seconds after which a network without its container is a leftover, not one whose container is being made."""


class DockerBackend:
    """One configured engine; see `sandboxio.port.Backend`."""

    def __init__(self, config: DockerConfig) -> None:
        self.info = INFO
        self._config = config
        self._engine: Engine = engine_for(config.host)
        self._reaper = reaper_for(self._engine.endpoint)

    async def probe(self, spec: SandboxSpec) -> Facts:
        """Read what the engine and the image can do."""
        endpoint, register, template = self._engine.endpoint, self._engine.register, planning.template_of(spec)
        found = await self._engine.call(lambda client: facts.read(client, register, endpoint, template))
        image = facts.image_of(found)
        reason = register.unfit.get((image["id"], Hardening.of(spec.config))) if image else None
        return facts.unfit(found, reason) if reason else found

    def plan(self, spec: SandboxSpec, facts: Facts) -> Plan:
        """Translate a spec; pure."""
        return planning.make_plan(spec, facts)

    async def prepare(self, plan: Plan, progress: Progress) -> bool:
        """Pull the image if the engine does not have it."""
        if plan.parameters["image_present"]:
            return False
        await pull.ensure_image(self._engine, planning.template_of(plan.spec), progress)
        return True

    async def provision(self, plan: Plan) -> str:
        """Create the container, and its network; nothing is started."""
        abandoned = threading.Event()
        register = self._engine.register
        try:
            return await self._engine.call(
                lambda client: provision.make(client, self._reaper, register, plan, abandoned), within=CREATE_BOUND
            )
        except (anyio.get_cancelled_exc_class(), EngineSilent, requests.RequestException):
            abandoned.set()
            # The request may commit after we stopped waiting for it (docker-py #2096): from here on it is the reaper's.
            provision.condemn(self._reaper, plan.create_id)
            raise

    async def find(self, create_id: str) -> str | None:
        """Return the id of the container with exactly this name."""
        answer = await self._inspect(create_id)
        return str(answer["Id"]) if answer and answer["Name"] == f"/{create_id}" else None

    async def observe(self, sandbox_id: str) -> Observation | None:
        """Return what the engine says of one container."""
        answer = await self._inspect(sandbox_id)
        seen = from_inspect(answer) if answer else None
        return seen if seen and sandbox_id in (seen.sandbox_id, seen.name) else None

    async def open(self, sandbox_id: str, plan: Plan | None = None) -> Session:
        """Start the sandbox and open its session, or open a further one."""
        endpoint, made = await self._engine.negotiated(), self._engine.register.made.get(sandbox_id)
        if plan is not None and made is not None:
            opener = opening.Opener(self._engine, endpoint, self._reaper, sandbox_id, made.name, made.expires_at)
            return await opener.first(plan, lambda: self.probe(plan.spec))
        answer = await self._inspect(sandbox_id)
        seen = from_inspect(answer) if answer else None
        if answer is None or seen is None or seen.sandbox_id != sandbox_id:
            raise SandboxGone(f"there is no sandbox {sandbox_id!r} on this Docker engine")
        return await Joining(self._engine, endpoint, self._reaper, seen, answer).open(self._config)

    async def list(self, labels: Mapping[str, str]) -> AsyncIterator[Observation]:
        """Iterate over our containers, and over networks of ours whose container is gone."""
        for seen in await self._engine.call(_listed):
            if labels.items() <= seen.labels.items():
                yield seen

    async def destroy(self, sandbox_id: str) -> None:
        """Remove the container by force, and its network."""
        try:
            await self._engine.end(
                lambda client: provision.unmake(client, self._reaper, self._engine.register, sandbox_id),
                within=DESTROY_BOUND,
            )
        except (EngineSilent, requests.Timeout):
            seen = await self._inspect(sandbox_id)
            if seen and seen["State"]["Status"] not in ENDED:
                raise
            made = self._engine.register.made.get(sandbox_id)
            if made:
                provision.condemn(self._reaper, made.name)

    def map_error(self, error: BaseException) -> SandboxError | None:
        """Translate what the SDK, the connection or the engine raised."""
        return errors.map_error(error, self._engine.endpoint)

    async def aclose(self) -> None:
        """Nothing to give up: connections belong to the engine's one client, threads to the event loop."""

    async def _inspect(self, ident: str) -> Json | None:
        def inspect(client: Sdk) -> Json | None:
            try:
                answer: Json = client.inspect_container(ident)
            except NotFound:
                return None
            return answer

        return await self._engine.call(inspect, lane="look")


def _listed(client: Sdk) -> list[Observation]:
    """Return what is ours as the engine lists it; what is applied is not part of that."""
    found = [from_summary(summary) for summary in client.containers(all=True, filters=labels.filters())]
    known = {seen.name for seen in found if seen}
    lonely = [from_network(network) for network in networks.ours(client) if network["Name"] not in known]
    recent = time.time() - LONELY
    return [seen for seen in found if seen] + [seen for seen in lonely if seen.created_at < recent]
