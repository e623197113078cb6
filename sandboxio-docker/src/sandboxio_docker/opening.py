"""Open the first session, by which the sandbox starts."""

import time
from collections.abc import Awaitable, Callable

from sandboxio.agent.session import AgentSession, AgentUnfit
from sandboxio.errors import ConfigurationError
from sandboxio.planning import Plan
from sandboxio.port import Facts, Session, TransportUnfit

from sandboxio_docker import gvisor
from sandboxio_docker.attach import AgentStream, attach
from sandboxio_docker.ending import Ending
from sandboxio_docker.endpoint import Endpoint
from sandboxio_docker.engine import Engine
from sandboxio_docker.exec_session import ExecSession
from sandboxio_docker.facts import image_of, unfit
from sandboxio_docker.hardening import Hardening
from sandboxio_docker.planning import DEFAULT_CWD, default_cwd
from sandboxio_docker.reaper import Reaper
from sandboxio_docker.sdk import Sdk
from sandboxio_docker.session import (
    BOOT_TIMEOUT,
    DockerSession,
    boot,
    check_report,
    is_unfit_start,
    is_unknown_user,
    said_by_engine,
)
from sandboxio_docker.wire import close_all

START_BOUND = 60.0
"""Seconds for the start of a container."""


class Opener:
    """Opens one container."""

    def __init__(
        self, engine: Engine, endpoint: Endpoint, reaper: Reaper, container_id: str, name: str, expires_at: float
    ) -> None:
        self._engine = engine
        self._endpoint = endpoint
        self._id = container_id
        self._expires_at = expires_at
        self._ending = Ending(engine, reaper, container_id, name, expires_at)

    async def first(self, plan: Plan, probe: Callable[[], Awaitable[Facts]]) -> Session:
        """Start the sandbox over the transport of its plan.

        :raises TransportUnfit: no agent can serve this image.
        """
        workdir = str(plan.parameters["workdir"])
        if plan.parameters["transport"] == "exec":
            return await self._first_exec(workdir, Hardening.of(plan.spec.config))
        began = time.monotonic()
        try:
            return await self._first_agent(plan, workdir)
        except AgentUnfit as error:
            facts = await probe()
            image = image_of(facts)
            # An agent that only came late says nothing of the image: that verdict is not kept, nor for other containers of it.
            if image and time.monotonic() - began < BOOT_TIMEOUT:
                self._engine.register.unfit[image["id"], Hardening.of(plan.spec.config)] = error.reason
            raise TransportUnfit(f"no agent in this image: {error.reason}", unfit(facts, error.reason)) from error

    async def _first_agent(self, plan: Plan, workdir: str) -> Session:
        stream = AgentStream(await attach(self._endpoint, self._id))
        try:
            await self._ending.watch(self._endpoint)
            await self._start(AgentUnfit)
            watch = plan.parameters["watch_disk_bytes"] is not None
            agent = await boot(stream, self._expires_at, wanted(workdir), first=True, watch_disk=watch)
            check_report(agent.report, plan)
            await confirm_runtime(self._engine, self._endpoint, self._id, Hardening.of(plan.spec.config), agent)
        except BaseException:
            await close_all(stream, self._ending)
            raise
        return DockerSession(agent, self._ending, self._engine.native(self._id))

    async def _first_exec(self, workdir: str, chosen: Hardening) -> Session:
        try:
            await self._ending.watch(self._endpoint)
            await self._start(_NoSleep)
            session = ExecSession(self._engine, self._endpoint, self._id, self._ending, chosen.user)
            cwd = default_cwd(workdir)
            await session.settle(cwd, make=cwd == DEFAULT_CWD)
        except BaseException:
            await close_all(self._ending)
            raise
        return session

    async def _start(self, unfit: Callable[[str], Exception]) -> None:
        try:
            await self._engine.call(lambda client: client.start(self._id), within=START_BOUND)
        except Exception as error:
            if is_unknown_user(error):
                raise ConfigurationError(
                    f"the image has no such user: {said_by_engine(error)}",
                    hint="name one of its /etc/passwd in user=, or pass a number",
                ) from error
            if is_unfit_start(error):
                raise unfit(said_by_engine(error)) from error
            raise


class _NoSleep(ConfigurationError):
    """The image has nothing that could be a sandbox's first process."""

    def __init__(self, message: str) -> None:
        super().__init__(
            f"the image needs python3 or sleep, and has neither: {message}",
            hint="name an image with one of them in template=",
        )


async def confirm_runtime(
    engine: Engine, endpoint: Endpoint, container_id: str, chosen: Hardening, agent: AgentSession
) -> None:
    """:raises PolicyNotEnforced: a runtime that had to prove itself did not."""
    if chosen.is_foreign:
        look: Callable[[Sdk], None] = lambda client: gvisor.confirm(  # noqa: E731
            client.inspect_container(container_id), agent.report, endpoint
        )
        await engine.call(look)


def wanted(workdir: str) -> str | None:
    """Return the default working directory that the agent is asked for; ``None``: its own choice."""
    return None if workdir in ("", "/") else workdir
