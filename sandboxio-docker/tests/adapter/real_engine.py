"""Drive the backend against a real engine, and look at the engine with the SDK's own client."""

import contextlib
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
import docker
from sandboxio.attestation import check_observation
from sandboxio.coverage import check_plan
from sandboxio.planning import Plan
from sandboxio.port import Command, Exit, Observation, ProcessDriver, Session
from sandboxio.spec import SandboxSpec
from sandboxio_docker import facts as facts_module
from sandboxio_docker.backend import DockerBackend
from sandboxio_docker.config import DockerConfig


@dataclass
class Running:
    """One opened sandbox."""

    backend: DockerBackend
    plan: Plan
    id: str
    session: Session
    seen: Observation

    async def run(self, *argv: str, stdin: bytes | None = None, **fields: Any) -> tuple[bytes, bytes, Exit]:
        command = Command(argv, cwd=fields.pop("cwd", self.cwd), stdin=stdin is not None, **fields)
        driver = await self.session.start(command)
        if stdin is not None:
            await driver.send(stdin)
            await driver.close_stdin()
        return await finish(driver)

    @property
    def cwd(self) -> str:
        return str(self.session.info()["cwd"])


async def finish(driver: ProcessDriver) -> tuple[bytes, bytes, Exit]:
    streams = {"stdout": b"", "stderr": b""}
    while chunk := await driver.receive():
        streams[chunk.stream] += chunk.data
    return streams["stdout"], streams["stderr"], await driver.wait()


async def planned(backend: DockerBackend, spec: SandboxSpec, *, forced_exec: bool = False) -> Plan:
    facts = await backend.probe(spec)
    plan = backend.plan(spec, facts_module.unfit(facts, "forced by a test") if forced_exec else facts)
    check_plan(plan, spec)
    return plan


@contextlib.asynccontextmanager
async def running(spec: SandboxSpec, *, forced_exec: bool = False) -> AsyncGenerator[Running, None]:
    """Make, attest and open one sandbox as core does; it is gone afterwards, its network too."""
    assert isinstance(spec.config, DockerConfig)
    backend = DockerBackend(spec.config)
    plan = await planned(backend, spec, forced_exec=forced_exec)
    sandbox_id = await backend.provision(plan)
    session: Session | None = None
    try:
        seen = check_observation(plan, backend.info, sandbox_id, await backend.observe(sandbox_id))
        session = await backend.open(sandbox_id, plan)
        yield Running(backend, plan, sandbox_id, session, seen)
    finally:
        with anyio.CancelScope(shield=True):
            await backend.destroy(sandbox_id)
            if session is not None:
                await session.aclose()
            with anyio.fail_after(20):
                while await backend.observe(sandbox_id) is not None:
                    await anyio.sleep(0.05)
    with anyio.fail_after(20):
        while leftovers(plan.create_id) != ([], []):
            await anyio.sleep(0.1)


def leftovers(create_id: str) -> tuple[list[str], list[str]]:
    """Return the containers and networks that still carry this id."""
    filters = {"label": [f"io.sandboxio.create-id={create_id}"]}
    with contextlib.closing(docker.APIClient(version="auto")) as api:
        client: Any = api
        containers = client.containers(all=True, filters=filters)
        return [one["Id"] for one in containers], [one["Id"] for one in client.networks(filters=filters)]


def inspect(container_id: str) -> Mapping[str, Any]:
    with contextlib.closing(docker.APIClient(version="auto")) as api:
        client: Any = api
        answer: Mapping[str, Any] = client.inspect_container(container_id)
        return answer
