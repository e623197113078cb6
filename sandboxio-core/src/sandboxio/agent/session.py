"""The session that an agent serves."""

from collections.abc import AsyncIterator, Mapping

from anyio.abc import ByteStream

from sandboxio.agent.report import BootReport
from sandboxio.port import Command, FileInfo, ProcessDriver


class AgentUnfit(Exception):
    """No agent could be started over this stream, or it can't do what it must; ``reason`` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class AgentSession:
    """A `Session` with `HasFiles`, over one agent.

    When the connection ends, whoever waits gets `SandboxGone` (reason ``"unknown"``; core finds out the true one).

    :ivar report: what the agent saw at boot.
    :ivar native: the adapter's own object; ``None`` until the adapter sets it.
    """

    report: BootReport
    native: object

    async def start(self, command: Command) -> ProcessDriver:
        """Start a command; see `sandboxio.port.Session.start`."""
        raise NotImplementedError

    def info(self) -> Mapping[str, object]:
        """Return ``transport``, ``kill`` (``"tree"`` or ``"sandbox"``), ``pid``, and the boot report as ``boot``."""
        raise NotImplementedError

    async def detach(self) -> None:
        """Tell the agent that only the lifetime ends the sandbox from now on; returns when it has confirmed."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Close the stream; repeating it does nothing. An owner-bound agent then ends itself and all it started."""
        raise NotImplementedError

    def read(self, path: str) -> AsyncIterator[bytes]:
        """Iterate over a regular file's content."""
        raise NotImplementedError

    async def write(
        self, path: str, chunks: AsyncIterator[bytes], *, mode: int | None = None, modified: float | None = None
    ) -> None:
        """Write a file whole or not at all, making missing parents; ``mode`` and ``modified`` are set before it appears."""
        raise NotImplementedError

    async def list(self, path: str) -> list[FileInfo]:
        """Return a directory's entries."""
        raise NotImplementedError

    async def stat(self, path: str) -> FileInfo:
        """Return what is known about one path, links followed."""
        raise NotImplementedError

    async def mkdir(self, path: str, *, parents: bool) -> None:
        """Make a directory; with ``parents`` an existing one is no error."""
        raise NotImplementedError

    async def remove(self, path: str, *, recursive: bool) -> None:
        """Remove a file or link, with ``recursive`` a tree; links are never followed."""
        raise NotImplementedError


async def open_agent(
    stream: ByteStream,
    *,
    lifetime: float,
    owner_bound: bool = True,
    workdir: str | None = None,
    boot_timeout: float = 10,
) -> AgentSession:
    """Send the agent over ``stream`` (stdin and stdout of `agent_argv`, nothing else in it) and wait for its report.

    ``stream`` belongs to the session from then on; if this raises or is cancelled it is closed.

    :param lifetime: seconds until the agent ends itself and all it started (as PID 1: the sandbox).
    :param owner_bound: true for a sandbox's first agent: the end of ``stream`` ends everything. False for a further
        one: the end of ``stream`` ends only the commands that still run over it.
    :param workdir: default working directory, made if missing; ``None``: the agent's own, or ``/work`` if that is ``/``.
    :param boot_timeout: seconds to wait for the boot report.
    :raises AgentUnfit: no boot report in time, the program ended before it, or what came is none.
    """
    raise NotImplementedError
