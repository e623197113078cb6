"""The session that an agent serves."""

import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict
from struct import pack
from typing import NoReturn

import anyio
from anyio.abc import ByteStream

from sandboxio.agent.bootstrap import first_bytes
from sandboxio.agent.connection import AgentConnection
from sandboxio.agent.process import AgentProcess, StartFailure
from sandboxio.agent.protocol import Answer, Frame, ProtocolViolation, Request
from sandboxio.agent.report import BootReceiver, BootReport
from sandboxio.agent.transfers import Transfer, decode_entries, encode_path, send_all
from sandboxio.errors import (
    CapabilityNotSupported,
    ConfigurationError,
    ExecutionError,
    FileSystemError,
    ResourceLimitExceeded,
    SandboxGone,
)
from sandboxio.port import Command, FileInfo, ProcessDriver

_BAD_CWD, _BAD_USER, _NO_PROCESS = 1, 2, 3
_ENOENT, _EAGAIN, _ENOMEM = 2, 11, 12
_MAX_LISTING = 64 * 1024 * 1024
_DEFAULT_MODE = 0xFFFFFFFF


class AgentUnfit(Exception):
    """No agent could be started over this stream, or it can't do what it must; ``reason`` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class AgentSession:
    """A `Session` with `HasTrees`, over one agent.

    When the connection ends, whoever waits gets `SandboxGone` (reason ``"unknown"``; core finds out the true one).

    :ivar report: what the agent saw at boot.
    :ivar native: the adapter's own object; ``None`` until the adapter sets it.
    :ivar user_hint: what makes ``run(user=…)`` possible; adapters know it better.
    :ivar kept_by_owner: why the sandbox can't outlive its owner, where an adapter's can't; `detach` is refused with it.
    """

    def __init__(self, connection: AgentConnection, report: BootReport) -> None:
        self._connection = connection
        self.report = report
        self.native: object = None
        self.kept_by_owner: str | None = None
        self.user_hint = "give the agent the capabilities SETUID, SETGID and KILL, or leave user= out"

    async def start(self, command: Command) -> ProcessDriver:
        """Start a command; see `sandboxio.port.Session.start`."""
        _check(command)
        process = AgentProcess(self._connection, stdin=command.stdin)
        try:
            await process.start(command, command.cwd or self.report.cwd)
        except StartFailure as failure:
            _refuse(command, failure, self.user_hint)
        return process

    def info(self) -> Mapping[str, object]:
        """Return ``transport``, ``kill`` (``"tree"`` or ``"sandbox"``), ``pid``, and the boot report as ``boot``, plain data.

        Where ``kill`` is ``"sandbox"`` a tree is still killed exactly unless one of its processes fell to the first
        process while another command was alive.
        """
        kill = "tree" if self.report.subreaper else "sandbox"
        return {"transport": "agent", "kill": kill, "pid": self.report.pid, "boot": asdict(self.report)}

    async def detach(self) -> None:
        """Tell the agent that only the lifetime ends the sandbox from now on; returns when it has confirmed.

        :raises CapabilityNotSupported: it can't outlive its owner.
        """
        if self.kept_by_owner is not None:
            hint = "keep its owner running, or use a backend whose sandboxes can outlive their owner, such as Docker"
            raise CapabilityNotSupported(f"detach() is not offered: {self.kept_by_owner}", hint=hint)
        receiver = _Confirmation()
        channel = self._connection.open(receiver)
        self._connection.post(Request.DETACH, channel)
        await self._connection.until(lambda: receiver.came, channel)

    async def aclose(self) -> None:
        """Close the stream; repeating it does nothing. An owner-bound agent then ends itself and all it started."""
        await self._connection.aclose()

    async def read(self, path: str) -> AsyncIterator[bytes]:
        """Iterate over a regular file's content."""
        transfer = Transfer(self._connection, path)
        transfer.ask_for_output(Request.READ, encode_path(path))
        try:
            while (data := await transfer.receive()) is not None:
                yield data
        finally:
            transfer.abandon()

    async def write(
        self, path: str, chunks: AsyncIterator[bytes], *, mode: int | None = None, modified: float | None = None
    ) -> None:
        """Write a file whole or not at all, making missing parents; ``mode`` and ``modified`` are set before it appears."""
        bits = _DEFAULT_MODE if mode is None else mode & 0o7777
        head = pack(">Id", bits, float("nan") if modified is None else modified)
        transfer = Transfer(self._connection, path)
        transfer.ask(Request.WRITE, head + encode_path(path))
        await send_all(transfer, chunks)

    async def list(self, path: str) -> list[FileInfo]:
        """Return a directory's entries."""
        transfer = Transfer(self._connection, path)
        transfer.ask_for_output(Request.LIST, encode_path(path))
        entries: list[FileInfo] = []
        size = 0
        try:
            while (page := await transfer.receive()) is not None:
                size += len(page)
                if size > _MAX_LISTING:
                    message = f"{path}: too many entries for one listing"
                    raise FileSystemError(message)
                entries += decode_entries(page, path)
        except ProtocolViolation as violation:
            await self._broken(violation)
        finally:
            transfer.abandon()
        return entries

    async def stat(self, path: str) -> FileInfo:
        """Return what is known about one path, links followed."""
        answer = await self._ask(Request.STAT, encode_path(path), path)
        try:
            (entry,) = decode_entries(answer, None)
        except (ProtocolViolation, ValueError) as violation:
            await self._broken(violation)
        return FileInfo(path, entry.size, entry.is_dir, entry.is_symlink, entry.mode, entry.modified)

    async def mkdir(self, path: str, *, parents: bool) -> None:
        """Make a directory; with ``parents`` an existing one is no error."""
        await self._ask(Request.MKDIR, bytes([parents]) + encode_path(path), path)

    async def read_link(self, path: str) -> str:
        """Return what a link holds, as it is."""
        return (await self._ask(Request.READLINK, encode_path(path), path)).decode("utf-8", "surrogateescape")

    async def make_link(self, path: str, target: str) -> None:
        """Make a link that holds ``target``, in place of a file or link of that name."""
        await self._ask(Request.LINK, target.encode("utf-8", "surrogateescape") + b"\0" + encode_path(path), path)

    async def set_attributes(self, path: str, *, mode: int, modified: float) -> None:
        """Set permission bits and time."""
        await self._ask(Request.SET, pack(">Id", mode & 0o7777, modified) + encode_path(path), path)

    async def remove(self, path: str, *, recursive: bool) -> None:
        """Remove a file or link, with ``recursive`` a tree; links are never followed."""
        await self._ask(Request.REMOVE, bytes([recursive]) + encode_path(path), path)

    async def _ask(self, kind: Request, payload: bytes, path: str) -> bytes:
        transfer = Transfer(self._connection, path)
        transfer.ask(kind, payload)
        try:
            return await transfer.result()
        finally:
            transfer.abandon()

    async def _broken(self, violation: Exception) -> NoReturn:
        """End a conversation in which the other side can't be believed any more."""
        await self._connection.aclose()
        message = f"the sandbox's agent broke the protocol: {violation}"
        raise SandboxGone(message, reason="unknown") from violation


class _Confirmation:
    came = False

    def take(self, frame: Frame) -> bool:
        if frame.kind is not Answer.DETACHED:
            message = f"a frame {frame.kind.name} instead of a confirmation"
            raise ProtocolViolation(message)
        self.came = True
        return True


def _check(command: Command) -> None:
    """Refuse what no process can be given."""
    if not command.argv or not command.argv[0]:
        message = "a command needs a program"
        raise ConfigurationError(message, hint="pass run(['program', 'argument'])")
    texts = [*command.argv, *command.env.values(), command.cwd or "", command.user or ""]
    if any("\0" in text for text in texts):
        message = "a NUL character can't be part of an argument, a variable, a directory or a user"
        raise ConfigurationError(message, hint="pass it over stdin or a file")
    if any(not name or "=" in name or "\0" in name for name in command.env):
        message = "the name of an environment variable is empty or has '=' or NUL in it"
        raise ConfigurationError(message, hint="correct the names in env=")


def _refuse(command: Command, failure: StartFailure, user_hint: str) -> NoReturn:
    """Raise what a start that failed means to the caller."""
    text = os.strerror(failure.number)
    if failure.stage == _BAD_CWD:
        message = f"the working directory {command.cwd!r} can't be used: {text}"
        raise ConfigurationError(message, hint="make it first with files.mkdir(), or pass another cwd=")
    if failure.stage == _BAD_USER:
        if failure.number == _ENOENT:
            message = f"the user {command.user!r} is unknown in the sandbox"
            raise ConfigurationError(message, hint="name one of its /etc/passwd, or pass a number")
        message = f"the sandbox can't run commands as {command.user!r}: {text}"
        raise ConfigurationError(message, hint=user_hint)
    if failure.stage == _NO_PROCESS and failure.number in (_EAGAIN, _ENOMEM):
        limit = "pids" if failure.number == _EAGAIN else "memory_mb"
        message = f"the sandbox can't start another process: {text}"
        raise ResourceLimitExceeded(message, limit=limit, value=None)
    message = f"the command could not be started: {text if failure.number else 'its supervisor was ended'}"
    raise ExecutionError(message, hint="run it once more; if that repeats, see Sandbox.info() and the sandbox's caps")


async def open_agent(
    stream: ByteStream,
    *,
    lifetime: float,
    owner_bound: bool = True,
    workdir: str | None = None,
    watch_disk: bool = False,
    same_python: bool = False,
    boot_timeout: float = 10,
) -> AgentSession:
    """Send the agent over ``stream`` (stdin and stdout of `agent_argv`, nothing else in it) and wait for its report.

    ``stream`` belongs to the session from then on; if this raises or is cancelled it is closed.

    :param lifetime: seconds until the agent ends itself and all it started (as PID 1: the sandbox).
    :param owner_bound: true for a sandbox's first agent: the end of ``stream`` ends everything. False for a further
        one: the end of ``stream`` ends only the commands that still run over it.
    :param workdir: default working directory, made if missing; ``None``: the agent's own, or ``/work`` if that is ``/``.
    :param watch_disk: whether a sandbox's first agent says on its stderr, while the sandbox is in use, what deleted
        files that are still open hold of the disk (``sandboxio: busy MIB``, or ``busy full`` if there are too many
        descriptors to look at), and ``sandboxio: idle`` when no process is left. A further agent has the first one look.
    :param same_python: whether the interpreter there is this very one, which saves compiling the agent.
    :param boot_timeout: seconds to wait for the boot report.
    :raises AgentUnfit: no boot report in time, the program ended before it, or what came is none.
    """
    connection = AgentConnection(stream)
    receiver = BootReceiver()
    connection.expect_boot(receiver)
    first = first_bytes(
        lifetime=lifetime, owner_bound=owner_bound, workdir=workdir, watch_disk=watch_disk, same_python=same_python
    )
    connection.post_raw(first)
    reason = f"no boot report within {boot_timeout:g} s"
    try:
        with anyio.move_on_after(boot_timeout):
            await connection.until(lambda: receiver.report is not None, 0)
    except SandboxGone as gone:
        reason = "it ended before its boot report" if gone.__cause__ is None else f"no boot report: {gone.message}"
    except BaseException:
        await _close(connection)
        raise
    if receiver.report is None:
        await _close(connection)
        raise AgentUnfit(reason)
    return AgentSession(connection, receiver.report)


async def _close(connection: AgentConnection) -> None:
    with anyio.CancelScope(shield=True), anyio.move_on_after(1):
        await connection.aclose()
