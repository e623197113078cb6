"""The session that the agent serves, and why it ended."""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping
from contextlib import aclosing
from http import HTTPStatus
from typing import TypeVar, cast

from sandboxio.agent.report import BootReport
from sandboxio.agent.session import AgentSession, AgentUnfit, open_agent
from sandboxio.errors import ConfigurationError, PolicyNotEnforced, SandboxError, SandboxGone
from sandboxio.planning import Plan
from sandboxio.port import Chunk, Command, Exit, FileInfo, Killed, ProcessDriver

from sandboxio_docker.attach import AgentStream
from sandboxio_docker.config import ROOT_USERS, SWITCH_USER
from sandboxio_docker.ending import Ending
from sandboxio_docker.errors import answer_of
from sandboxio_docker.hardening import WORK, Hardening
from sandboxio_docker.planning import accepts_vsock
from sandboxio_docker.wire import close_all

T = TypeVar("T")

BOOT_TIMEOUT = 30.0
"""Seconds for the boot report. It takes a tenth of one; of a hundred started at once on two cores 17 took over 10."""


class DockerSession:
    """An agent's session whose end is explained; has files, as the agent has.

    :ivar native: the SDK's container object.
    """

    def __init__(self, agent: AgentSession, ending: Ending, native: object) -> None:
        self.agent = agent
        agent.user_hint = f"make the sandbox with DockerConfig({_as_root(agent.report)}capabilities={SWITCH_USER})"
        self.native = native
        self._ending = ending

    async def start(self, command: Command) -> ProcessDriver:
        """Start a command."""
        self._ending.busy()
        return Driver(await self.explained(self.agent.start(command)), self)

    async def detach(self) -> None:
        """Have first the agent, then the reaper let the sandbox outlive this process."""
        await self.explained(self.agent.detach())
        await self._ending.detach()

    async def aclose(self) -> None:
        """Close the connection; the first agent then ends the sandbox, unless `detach` came before."""
        await close_all(self._ending, self.agent)

    def info(self) -> Mapping[str, object]:
        """Return what the agent says of itself, and whether a shell is there."""
        report = self.agent.report
        return {"cwd": report.cwd, "shell": report.has_shell, **self.agent.info(), "transport": "agent"}

    async def explained(self, call: Awaitable[T]) -> T:
        """Await ``call``; an end of the sandbox gets its reason."""
        try:
            return await call
        except SandboxGone as gone:
            if gone.reason != "unknown":
                raise
            raise await self.why(gone) from gone.__cause__

    async def why(self, gone: SandboxGone) -> SandboxError:
        """Return what the end of the agent means."""
        reason = await self._ending.reason()
        return SandboxGone(gone.message, reason=reason, stdout=gone.stdout_bytes, stderr=gone.stderr_bytes)

    async def read(self, path: str) -> AsyncIterator[bytes]:
        """Iterate over a regular file's content."""
        async with aclosing(cast("AsyncGenerator[bytes, None]", self.agent.read(path))) as chunks:
            while (chunk := await self.explained(anext(chunks, None))) is not None:
                yield chunk

    async def write(
        self, path: str, chunks: AsyncIterator[bytes], *, mode: int | None = None, modified: float | None = None
    ) -> None:
        """Write a file whole or not at all."""
        self._ending.busy()
        await self.explained(self.agent.write(path, chunks, mode=mode, modified=modified))

    async def list(self, path: str) -> list[FileInfo]:
        """Return a directory's entries."""
        return await self.explained(self.agent.list(path))

    async def stat(self, path: str) -> FileInfo:
        """Return what is known about one path."""
        return await self.explained(self.agent.stat(path))

    async def mkdir(self, path: str, *, parents: bool) -> None:
        """Make a directory."""
        await self.explained(self.agent.mkdir(path, parents=parents))

    async def read_link(self, path: str) -> str:
        """Return what a link holds."""
        return await self.explained(self.agent.read_link(path))

    async def make_link(self, path: str, target: str) -> None:
        """Make a link, in place of a file or link of that name."""
        self._ending.busy()
        await self.explained(self.agent.make_link(path, target))

    async def set_attributes(self, path: str, *, mode: int, modified: float) -> None:
        """Set a directory's permission bits and time."""
        await self.explained(self.agent.set_attributes(path, mode=mode, modified=modified))

    async def remove(self, path: str, *, recursive: bool) -> None:
        """Remove a file, link or tree."""
        await self.explained(self.agent.remove(path, recursive=recursive))


def _as_root(report: BootReport) -> str:
    return "" if report.uid == 0 else 'user="root", '


class Driver:
    """A command whose sandbox's end is explained."""

    def __init__(self, driver: ProcessDriver, session: DockerSession) -> None:
        self._driver = driver
        self._session = session

    async def receive(self) -> Chunk | None:
        """Return the next piece of output."""
        return await self._session.explained(self._driver.receive())

    async def send(self, data: bytes) -> None:
        """Write to stdin."""
        await self._session.explained(self._driver.send(data))

    async def close_stdin(self) -> None:
        """End stdin."""
        await self._session.explained(self._driver.close_stdin())

    async def wait(self) -> Exit:
        """Wait for the end."""
        return await self._session.explained(self._driver.wait())

    async def kill(self) -> Killed:
        """End the command."""
        return await self._session.explained(self._driver.kill())


async def boot(
    stream: AgentStream, expires_at: float, workdir: str | None, *, first: bool, watch_disk: bool = True
) -> AgentSession:
    """Start the conversation with an agent that the engine runs.

    :param first: whether it is the container's first process, whose end is the sandbox's end.
    :param watch_disk: whether the reaper listens to what the first agent says of the disk.
    :raises AgentUnfit: with what the program wrote to stderr.
    """
    lifetime = max(expires_at - time.time(), 0.01)
    try:
        return await open_agent(
            stream,
            lifetime=lifetime,
            owner_bound=first,
            workdir=workdir,
            watch_disk=watch_disk,
            boot_timeout=BOOT_TIMEOUT,
        )
    except AgentUnfit as unfit:
        said = f" ({stream.diagnosis[:500]})" if stream.diagnosis else ""
        raise AgentUnfit(f"{unfit.reason}{said}") from unfit


def check_report(report: BootReport, plan: Plan) -> None:
    """Compare what the first agent sees with the plan; see `check_inside`."""
    config, denied = plan.spec.config, plan.spec.network.egress == "deny"
    check_inside(report, Hardening.of(config), denied=denied, vsock_accepted=accepts_vsock(config))


def check_inside(report: BootReport, chosen: Hardening, *, denied: bool, vsock_accepted: bool) -> None:
    """Compare what an agent sees with the policies: extra evidence, never instead of the engine's answer.

    :param denied: whether egress is.

    :raises AgentUnfit: commands could read or change the agent.
    :raises PolicyNotEnforced: a policy does not hold inside.
    """
    # Where no other transport would do, `gvisor.confirm` refuses.
    if not report.memory_closed or not (report.descriptors_closed or chosen.is_foreign):
        raise AgentUnfit("the agent's memory and descriptors can't be closed to the commands it starts")
    _check_hardening(report, chosen)
    if not denied:
        return
    if report.interfaces is not None and set(report.interfaces) - {"lo"}:
        raise PolicyNotEnforced(f'egress="deny", but the sandbox sees the interfaces {", ".join(report.interfaces)}')
    if report.vsock != "refused" and not vsock_accepted:
        raise PolicyNotEnforced(
            f'egress="deny", but vsock sockets, which no network namespace confines, are {report.vsock} in this sandbox:'
            f" the agent's own filter is not there ({report.seccomp})",
            hint="use an image whose Python has ctypes, or accept it: DockerConfig(accept_vsock=True), docker://IMAGE?accept_vsock=1",
        )


def _check_hardening(report: BootReport, chosen: Hardening) -> None:
    if chosen.is_foreign and not report.has_ctypes:
        raise PolicyNotEnforced(
            f"this image's Python has no ctypes, so nothing inside can show that {chosen.runtime!r} is gVisor",
            hint="use an image whose Python has ctypes, or leave runtime= out",
        )
    if not report.no_new_privileges:
        raise PolicyNotEnforced("the sandbox may gain privileges")
    wanted = chosen.mask if report.uid == 0 else 0
    if report.capabilities != wanted or report.bounding & ~chosen.mask:
        raise PolicyNotEnforced(
            f"the sandbox has the capabilities {report.capabilities:#x} (at most {report.bounding:#x}), not {wanted:#x}"
        )
    name = chosen.user.partition(":")[0]
    if (name.isdigit() and report.uid != int(name)) or (chosen.user not in ROOT_USERS and report.uid == 0):
        raise PolicyNotEnforced(f"the sandbox runs as user id {report.uid}, not as {chosen.user!r}")
    if chosen.read_only and not report.read_only:
        raise PolicyNotEnforced("the sandbox's root file system can be written to")
    if chosen.read_only and report.workdir not in ("present", "made"):
        # runc keeps the mode of a directory that is there; what the image has decides.
        raise ConfigurationError(
            f"the image's own {WORK} keeps its mode, so {chosen.user or 'its user'} can't write there: {report.workdir}",
            hint=f"use an image without {WORK}, or make it writable there",
        )


def said_by_engine(error: BaseException) -> str:
    """Return the engine's own message, without the SDK's frame around it."""
    return (answer_of(error) or (0, str(error)))[1]


def is_unfit_start(error: BaseException) -> bool:
    """Whether a start failed because the image lacks the program, and not for any other reason."""
    status, message = answer_of(error) or (0, "")
    wordings = ("executable file not found", "no such file or directory", "permission denied", "exec format error")
    return status >= HTTPStatus.BAD_REQUEST and any(wording in message for wording in wordings)


def is_unknown_user(error: BaseException) -> bool:
    """Whether a start failed because the image does not have the user or group."""
    return any(wording in said_by_engine(error) for wording in ("unable to find user", "unable to find group"))
