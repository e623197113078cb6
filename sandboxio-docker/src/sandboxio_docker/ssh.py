"""Engines behind ssh: a connection pool for the SDK, and a stream for what is awaited. One ssh program per connection."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
from anyio.abc import ByteStream, UNIXSocketStream
from docker.transport.basehttpadapter import BaseHTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool

from sandboxio_docker.reaper.ssh import (
    CONNECT_S,
    FIRST_PAUSE_S,
    PING,
    SILENT,
    SshFailed,
    Tunnel,
    check_greeting,
    dial,
)

LAST_WORDS_S = 1.0
"""Seconds to wait for the exit code of a program whose pipes are closed already."""


class _Connection(HTTPConnection):
    """One connection of the SDK."""

    def __init__(self, *args: Any, command: Sequence[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._command = command
        self._ssh: Tunnel | None = None

    def connect(self) -> None:
        """Start ssh; a waiting caller's own deadline bounds it."""
        self._ssh = dial(self._command, self.timeout if isinstance(self.timeout, (int, float)) else CONNECT_S)
        self.sock = self._ssh.sock

    def close(self) -> None:
        """Close the socket. An answer may still be read from its copy: ssh ends when that is closed too."""
        super().close()
        tunnel, self._ssh = self._ssh, None
        if tunnel is not None:
            tunnel.leave()


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection  # pyright: ignore[reportAssignmentType] - as urllib3's own subclasses are


class SshAdapter(BaseHTTPAdapter):
    """Serves the SDK's requests.

    :param command: the program to be run, see `Endpoint.ssh_command`.
    :param size: how many connections are kept.
    """

    def __init__(self, command: Sequence[str], size: int) -> None:
        super().__init__()
        self._pool = _Pool("localhost", maxsize=size, command=command)

    def get_connection(self, url: str | bytes, proxies: Any = None) -> HTTPConnectionPool:
        """Return the one pool."""
        return self._pool

    def request_url(self, request: Any, proxies: Any) -> str:
        """Return the path alone: there is no host to be named."""
        return str(request.path_url)

    def close(self) -> None:
        """Close what is kept."""
        super().close()
        self._pool.close()


class SshStream(ByteStream):
    """One awaited connection; the program ends with it, and its bad end is no end of the data."""

    def __init__(self, stream: UNIXSocketStream, tunnel: Tunnel) -> None:
        self._stream = stream
        self._tunnel = tunnel

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """Name the socket to ssh."""
        return self._stream.extra_attributes

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return the next bytes.

        :raises BrokenResourceError: ssh lost the connection, in its own words.
        """
        try:
            return await self._stream.receive(max_bytes)
        except anyio.BrokenResourceError:
            raise anyio.BrokenResourceError(self._tunnel.words() or SILENT) from None
        except anyio.EndOfStream:
            if await self._code() != 0:
                raise anyio.BrokenResourceError(self._tunnel.words() or SILENT) from None
            raise

    async def send(self, item: bytes) -> None:
        """Write."""
        await self._stream.send(item)

    async def send_eof(self) -> None:
        """End the writing side: ssh passes it on, and so does what it runs there."""
        await self._stream.send_eof()

    async def aclose(self) -> None:
        """Close the connection and end the program; the other side then sees its end."""
        try:
            await self._stream.aclose()
        finally:
            self._tunnel.end()

    async def _code(self) -> int | None:
        with anyio.move_on_after(LAST_WORDS_S):
            while self._tunnel.code is None:
                await anyio.sleep(0.01)
        return self._tunnel.code


async def connect_ssh(command: Sequence[str]) -> SshStream:
    """Return a connection on which an engine has answered.

    :raises SshFailed: with ssh's own words.
    """
    deadline, pause = anyio.current_time() + CONNECT_S, FIRST_PAUSE_S
    while True:
        try:
            with anyio.fail_after(deadline - anyio.current_time()):
                return await _dial(command)
        except SshFailed as error:
            if not error.is_busy or anyio.current_time() + pause > deadline:
                raise
        await anyio.sleep(pause)
        pause *= 2


async def _dial(command: Sequence[str]) -> SshStream:
    tunnel = Tunnel(command)
    try:
        stream = SshStream(await UNIXSocketStream.from_socket(tunnel.sock), tunnel)
    except BaseException:
        tunnel.sock.close()
        tunnel.end()
        raise
    try:
        await stream.send(PING)
        head = b""
        while not check_greeting(head, tunnel):
            head += await stream.receive()
    except (anyio.BrokenResourceError, anyio.EndOfStream):
        failure = tunnel.failure()
        await anyio.aclose_forcefully(stream)
        raise failure from None
    except BaseException:
        await anyio.aclose_forcefully(stream)
        raise
    return stream
