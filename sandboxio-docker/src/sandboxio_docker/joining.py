"""Open a further session with a container that runs: it changes nothing there, and its end is not the sandbox's end.

What is started here starts where other code may have run: that may have replaced the interpreter, the tools, or end what
is started. So nothing that this session's agent says is taken for more than what any command says.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
from sandboxio.agent.bootstrap import agent_argv
from sandboxio.agent.session import AgentSession, AgentUnfit
from sandboxio.errors import ConnectError, PolicyNotEnforced, SandboxError, SandboxGone
from sandboxio.port import Command, Killed, Observation, ProcessDriver, Session

from sandboxio_docker import labels
from sandboxio_docker.attach import AgentStream, start_exec
from sandboxio_docker.config import DockerConfig
from sandboxio_docker.ending import Ending
from sandboxio_docker.endpoint import Endpoint
from sandboxio_docker.engine import Engine
from sandboxio_docker.errors import is_gone
from sandboxio_docker.exec_session import ExecSession
from sandboxio_docker.hardening import Hardening
from sandboxio_docker.observation import ENDED, disk_to_watch
from sandboxio_docker.opening import confirm_runtime, wanted
from sandboxio_docker.planning import DEFAULT_CWD, default_cwd
from sandboxio_docker.provision import OVERDUE
from sandboxio_docker.reaper import Reaper
from sandboxio_docker.session import DockerSession, Driver, boot, check_inside
from sandboxio_docker.wire import close_all

SETTLE = 1.5
"""Seconds in which the engine says that a container ended, after the end of what ran in it was seen."""
LOOK_EVERY = 0.05
"""Seconds between two looks meanwhile."""


class Joining:
    """Opens a further session with one container of ours.

    :param seen: the container as it was observed. :param inspected: the engine's own description of it.
    """

    def __init__(
        self, engine: Engine, endpoint: Endpoint, reaper: Reaper, seen: Observation, inspected: Mapping[str, Any]
    ) -> None:
        assert seen.expires_at is not None
        self._engine = engine
        self._endpoint = endpoint
        self._reaper = reaper
        self._seen = seen
        self._inspected = inspected
        self._labels: Mapping[str, str] = inspected["Config"]["Labels"]
        self._expires_at = seen.expires_at
        self._disk_to_watch = disk_to_watch(inspected)
        self._ending = Ending(engine, reaper, seen.sandbox_id, seen.name, seen.expires_at, owner_elsewhere=True)

    async def open(self, config: DockerConfig) -> Session:
        """Open it over the transport that the container was made for.

        :raises PolicyNotEnforced: a policy does not hold inside, or holds only as its maker accepted.
        :raises ConnectError: no second agent can be started.
        """
        self._refuse_unaccepted(config)
        joined = await self._engine.call(lambda _: self._join(), lane="end")
        try:
            await self._ending.watch(self._endpoint)
            return await self._opened(config)
        except BaseException:
            await close_all(self._ending)
            if joined:
                self._reaper.forget(self._seen.name)
            raise

    @property
    def _denied(self) -> bool:
        return self._seen.applied["network.egress"] == "deny"

    def _refuse_unaccepted(self, config: DockerConfig) -> None:
        if self._denied and labels.ACCEPTS_VSOCK in self._labels and not config.accept_vsock:
            raise PolicyNotEnforced(
                f"the sandbox {self._seen.sandbox_id[:12]} was made where vsock sockets may be possible, which no network"
                ' namespace confines: its egress="deny" has that hole',
                hint="accept it as its maker did: DockerConfig(accept_vsock=True), docker://?accept_vsock=1",
            )

    def _join(self) -> bool:
        # Late by what a sweep allows, too: the owner's clock may differ from ours, and its lifetime is its owner's.
        deadline = self._expires_at + OVERDUE
        speaks = self._labels.get(labels.TRANSPORT) == "agent"
        return self._reaper.join(self._seen.name, self._seen.sandbox_id, deadline, self._disk_to_watch, speaks)

    async def _opened(self, config: DockerConfig) -> Session:
        ident, chosen = self._seen.sandbox_id, Hardening.from_labels(self._labels)
        if chosen is None:
            raise ConnectError(
                "what this sandbox was made with can't be read from its labels",
                hint="connect with the version that made it",
            )
        workdir = chosen.workdir(str(self._inspected["Config"].get("WorkingDir") or ""))
        if self._labels.get(labels.TRANSPORT) == "exec":
            session = ExecSession(self._engine, self._endpoint, ident, self._ending, chosen.user, first=False)
            cwd = default_cwd(workdir)
            await session.settle(cwd, make=cwd == DEFAULT_CWD)
            return session
        agent = await self._second_agent(workdir)
        try:
            check_inside(agent.report, chosen, denied=self._denied, vsock_accepted=config.accept_vsock)
            await confirm_runtime(self._engine, self._endpoint, ident, chosen, agent)
        except BaseException as error:
            await close_all(agent)
            if isinstance(error, AgentUnfit):
                raise _no_agent(error) from error
            raise
        return JoinedSession(agent, self._ending, self._engine.native(ident), self._lives)

    async def _second_agent(self, workdir: str) -> AgentSession:
        argv = list(agent_argv())
        ident = self._seen.sandbox_id
        exec_id = await self._engine.call(lambda client: client.exec_create(ident, argv, stdin=True)["Id"])
        stream = AgentStream(await start_exec(self._endpoint, exec_id))
        try:
            watch = self._disk_to_watch is not None
            return await boot(stream, self._expires_at, wanted(workdir), first=False, watch_disk=watch)
        except AgentUnfit as error:
            if not await self._lives():
                raise SandboxGone("the container ended", reason=await self._ending.reason()) from error
            raise _no_agent(error) from error

    async def _lives(self) -> bool:
        """Whether the container runs; with its first process all others end, and the engine says so a moment later."""
        deadline = time.monotonic() + SETTLE
        while await self._runs():
            if time.monotonic() > deadline:
                return True
            await anyio.sleep(LOOK_EVERY)
        return False

    async def _runs(self) -> bool:
        try:
            answer = await self._engine.call(lambda client: client.inspect_container(self._seen.sandbox_id), lane="end")
        except Exception as error:
            if is_gone(error):
                return False
            raise
        return answer["State"]["Status"] not in ENDED


class JoinedSession(DockerSession):
    """A session by a second agent: it can be lost while the sandbox lives on."""

    def __init__(
        self, agent: AgentSession, ending: Ending, native: object, lives: Callable[[], Awaitable[bool]]
    ) -> None:
        super().__init__(agent, ending, native)
        self._lives = lives
        self._lost = False

    async def start(self, command: Command) -> ProcessDriver:
        """Start a command."""
        self._ending.busy()
        return _JoinedDriver(await self.explained(self.agent.start(command)), self)

    def info(self) -> Mapping[str, object]:
        """Return what the agent says of itself; a kill ends the sandbox."""
        return {**super().info(), "kill": "sandbox"}

    async def detach(self) -> None:
        """Let what runs live on without this connection; the sandbox is its owner's, or nobody's."""
        await self.explained(self.agent.detach())

    async def why(self, gone: SandboxGone) -> SandboxError:
        """Return what the end of the agent means: code of its user may have ended it."""
        self._lost = self._lost or await self._lives()
        if not self._lost:
            return await super().why(gone)
        return ConnectError(
            "the connection's agent in the sandbox ended, the sandbox lives: code in it may have killed that agent",
            hint="connect() again, or kill the sandbox",
        )


class _JoinedDriver(Driver):
    """A command of a second agent."""

    async def kill(self) -> Killed:
        """Have the sandbox ended in its place: what could say that a tree is gone may be what code put in its place."""
        return "sandbox"


def _no_agent(unfit: AgentUnfit) -> ConnectError:
    return ConnectError(
        f"no second agent could be started in the sandbox: {unfit.reason}",
        hint="code in it may have changed or used up what an agent needs; kill it and create another",
    )
