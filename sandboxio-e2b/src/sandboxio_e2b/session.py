"""One sandbox's commands, over envd."""

import secrets
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

import anyio
from sandboxio.bridge import Bridge
from sandboxio.errors import ConfigurationError
from sandboxio.exec_command import ExecCommand, SandboxOfCommand
from sandboxio.exec_session import SHELL, check_names
from sandboxio.port import CODE_PATH, Command

from sandboxio_e2b.sdk import understood
from sandboxio_e2b.streams import E2BProcess, Event, Output, Stdin, events

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from e2b import AsyncSandbox
    from e2b.envd.process.process_connect import ProcessClient
    from e2b.envd.process.process_pb import StartRequest

CWD = "/home/user"
SCRATCH = "/tmp"  # noqa: S108 - in the sandbox
SOON = 2.0
"""Seconds beyond core's own bound after which envd itself ends what it started."""


class E2BSession:
    """A `Session`. envd's kill ends the process that it started and none of those below, so a kill here ends the sandbox."""

    def __init__(
        self, bridge: Bridge, sandbox: "AsyncSandbox", rpc: "ProcessClient", program: SandboxOfCommand
    ) -> None:
        self.native: object = sandbox
        self._bridge, self._sandbox, self._rpc, self._program = bridge, sandbox, rpc, program
        self._running: set[ExecCommand] = set()

    async def start(self, command: Command) -> ExecCommand:
        """Start a command; see `sandboxio.port.Session.start`.

        A shell in the sandbox says when it is there and how it ended: envd tells an end only when nobody, be it a background
        child, holds the streams any more, and does not tell a missing program from one that exits with 127.
        """
        check_names(command.env)
        word = secrets.token_hex(16)
        began = await self._begin(command, word)
        started = ExecCommand(began, f"\x1e{word}".encode(), self._program, self._sandbox.sandbox_id, self._running)
        try:
            await started.settle(command)
        except BaseException:
            await started.aclose()
            raise
        return started

    async def read_content(self, path: str) -> AsyncIterator[bytes]:
        """Iterate over a file's content, over envd's own way for files."""

        async def download() -> "AsyncGenerator[bytes]":
            reader = await understood(self._sandbox.files.read(path, format="stream"))
            async with aclosing(reader):
                async for data in reader:
                    yield bytes(data)

        async with aclosing(self._bridge.iterate(download)) as content:
            async for data in content:
                yield data

    async def write_content(self, path: str, chunks: AsyncIterator[bytes]) -> None:
        """Write a file's content, over envd's own way for files; it is asked for piece by piece, and sent once."""

        async def upload(content: AsyncIterator[bytes]) -> None:
            # Without a deadline of the SDK's: core has its own, and a large file takes its time.
            files = cast("Any", self._sandbox.files)  # its types leave one open
            await understood(files.write(path, content, request_timeout=0, use_octet_stream=True))

        await self._bridge.feed(chunks, upload)

    async def aclose(self) -> None:
        """Let go of what runs here; the sandbox lives on."""
        for one in tuple(self._running):
            await one.aclose()

    async def detach(self) -> None:
        """Give it up: the provider alone ends it, when its lifetime does."""

    def info(self) -> Mapping[str, object]:
        """Return what a kill ends, and where commands start."""
        return {"transport": "envd", "kill": "sandbox", "cwd": CWD}

    def secret_values(self) -> Iterable[str]:
        """Return the tokens that the provider gave out for this sandbox."""
        config = self._sandbox.connection_config
        return [
            one for one in (config.sandbox_headers.get("X-Access-Token"), self._sandbox.traffic_access_token) if one
        ]

    async def _begin(self, command: Command, word: str) -> E2BProcess:
        from e2b.exceptions import AuthenticationException

        stdin = command.stdin or command.code is not None
        request, headers = self._request(command, word, stdin=stdin)
        seconds = None if command.timeout is None else command.timeout + SOON

        def make() -> "AsyncGenerator[Event]":
            return events(self._rpc, request, headers, seconds)

        output = Output(self._bridge.iterate(make))
        try:
            pid = await output.start()
        except AuthenticationException as error:
            await output.aclose()
            if command.user is None:
                raise
            raise ConfigurationError(
                f"the sandbox has no user {command.user!r}", hint="name one that it has"
            ) from error
        except anyio.EndOfStream as error:
            await output.aclose()
            raise ConnectionResetError("envd ended the stream before the command had started") from error
        except BaseException:
            await output.aclose()
            raise
        return E2BProcess(output, Stdin(self._bridge, self._rpc, pid) if stdin else None)

    def _request(self, command: Command, word: str, *, stdin: bool) -> "tuple[StartRequest, dict[str, str]]":
        from base64 import b64encode

        from e2b.envd.process import process_pb

        path = f"{SCRATCH}/.{word}"
        argv = [path if part == CODE_PATH else part for part in command.argv]
        length = "" if command.code is None else str(len(command.code))
        config = process_pb.ProcessConfig(
            cmd="/bin/sh",
            args=["-c", SHELL, "sh", word, command.cwd or CWD, length, path, *argv],
            envs=dict(command.env),
            cwd="/",
        )
        user = (
            {}
            if command.user is None
            else {"Authorization": f"Basic {b64encode(f'{command.user}:'.encode()).decode()}"}
        )
        return process_pb.StartRequest(process=config, stdin=stdin), user
