"""Awaited HTTP for what the SDK can't do without a thread: attached streams, long waits, cancellable pulls.

One connection per request. Requests that end with their answer go out as HTTP/1.0, so that a Go server answers
without chunks and closes; upgrades are HTTP/1.1 (moby's hijack).
"""

import json
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from http import HTTPStatus
from typing import Protocol
from urllib.parse import quote, urlencode

import anyio
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSStream

from sandboxio_docker.endpoint import Endpoint
from sandboxio_docker.ssh import connect_ssh

_TIMES = (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
KEEP_ALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *((socket.IPPROTO_TCP, int(getattr(socket, name)), value) for name, value in _TIMES if hasattr(socket, name)),
)
"""Socket options: an idle attached stream must survive proxies, and a dead peer must be noticed: owner death rests on it."""
MAX_HEAD = 64 * 1024
"""Bytes of an answer's head, or of an error's text, that are read at most."""
CHUNK = 256 * 1024
"""Bytes that one read takes at most; a unix socket of Linux holds about as many."""


class EngineAnswer(Exception):
    """The engine refused a request: its HTTP status and its message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


class Closable(Protocol):
    """What holds a connection."""

    async def aclose(self) -> None:
        """Close it; this does not wait for anything."""
        ...


class Answer:
    """An answer whose head was read; its body, or the upgraded connection, is still to come."""

    def __init__(self, stream: ByteStream, status: int, headers: Mapping[str, str], rest: bytes) -> None:
        self.status = status
        self.headers = headers
        self._stream = stream
        self._rest = rest

    async def receive(self) -> bytes:
        """Return what comes next; empty at the end. Cancelling loses nothing."""
        if self._rest:
            rest, self._rest = self._rest, b""
            return rest
        try:
            return await self._stream.receive(CHUNK)
        except anyio.EndOfStream:
            return b""

    def has_ended(self) -> bool:
        """Whether the other side ended it, and nothing is left to be received; takes nothing and never waits."""
        if self._rest:
            return False
        try:
            with self._stream.extra(SocketAttribute.raw_socket).dup() as copy:
                return not copy.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    async def send(self, data: bytes) -> None:
        """Write to the upgraded connection."""
        await self._stream.send(data)

    async def send_eof(self) -> None:
        """End the writing side; the engine closes the program's stdin.

        TLS ends as a whole, but the connection below it has two sides: the docker command does the same (moby's
        ``client/hijack.go``, its ``CloseWrite`` "on the underlying connection"; seen to work with Docker 20.10, 2026-11).
        """
        stream = self._stream.transport_stream if isinstance(self._stream, TLSStream) else self._stream
        await stream.send_eof()

    async def aclose(self) -> None:
        """Close the connection at once."""
        await anyio.aclose_forcefully(self._stream)

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Iterate over the lines of the body."""
        held = b""
        while data := await self.receive():
            *whole, held = (held + data).split(b"\n")
            for line in whole:
                yield line
        if held.strip():
            yield held

    async def refuse(self) -> EngineAnswer:
        """Read the text of an error answer and return it as an exception."""
        length = int(self.headers.get("content-length", MAX_HEAD))
        text = b""
        while len(text) < min(length, MAX_HEAD) and (data := await self.receive()):
            text += data
        try:
            message = str(json.loads(text)["message"])
        except (ValueError, KeyError, TypeError):
            message = text.decode("utf-8", "replace").strip()
        return EngineAnswer(self.status, message)


async def ask(
    endpoint: Endpoint,
    method: str,
    path: str,
    query: Mapping[str, str] | None = None,
    body: object = None,
    *,
    headers: Mapping[str, str] | None = None,
    upgrade: bool = False,
) -> Answer:
    """Send one request and read the head of its answer.

    :param path: below the API version; quoted here.
    :param body: sent as JSON; ``None``: no body.
    :raises EngineAnswer: the engine refused it.
    :raises OSError: no engine there.
    """
    stream = await _connect(endpoint)
    try:
        await stream.send(_request(endpoint, method, path, query, body, headers or {}, upgrade))
        answer = await _head(stream)
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise await answer.refuse()
    except BaseException:
        # Whatever happened, cancellation included: nobody else holds this connection.
        await anyio.aclose_forcefully(stream)
        raise
    return answer


def _request(
    endpoint: Endpoint,
    method: str,
    path: str,
    query: Mapping[str, str] | None,
    body: object,
    headers: Mapping[str, str],
    upgrade: bool,
) -> bytes:
    target = f"/v{endpoint.api_version}{quote(path)}" + (f"?{urlencode(query)}" if query else "")
    content = b"" if body is None else json.dumps(body).encode()
    host = endpoint.base_url.partition("://")[2] if endpoint.is_network else "docker"
    fields = {"Host": host, "Content-Type": "application/json", "Content-Length": str(len(content)), **headers}
    if upgrade:
        fields |= {"Connection": "Upgrade", "Upgrade": "tcp"}
    head = [f"{method} {target} HTTP/1.{1 if upgrade else 0}", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join([*head, "", ""]).encode() + content


async def close_all(*connections: Closable) -> None:
    """Close each, whatever the others do; a pending cancellation must not leave the second one open."""
    with anyio.CancelScope(shield=True):
        async with AsyncExitStack() as stack:
            for connection in connections:
                stack.push_async_callback(connection.aclose)


async def _head(stream: ByteStream) -> Answer:
    data = b""
    while b"\r\n\r\n" not in data:
        if len(data) > MAX_HEAD:
            raise EngineAnswer(HTTPStatus.BAD_GATEWAY, "the answer's head does not end")
        try:
            data += await stream.receive(CHUNK)
        except anyio.EndOfStream:
            raise EngineAnswer(HTTPStatus.BAD_GATEWAY, "the engine closed the connection without an answer") from None
    head, _, rest = data.partition(b"\r\n\r\n")
    first, *fields = head.decode("latin-1").split("\r\n")
    parts = first.split(" ", 2)
    if len(parts) < 2 or not parts[0].startswith("HTTP/") or not parts[1].isdigit():
        raise EngineAnswer(HTTPStatus.BAD_GATEWAY, f"no HTTP answer: {first[:80]!r}")
    pairs = (field.partition(":") for field in fields)
    return Answer(stream, int(parts[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}, rest)


async def _connect(endpoint: Endpoint) -> ByteStream:
    if endpoint.socket_path is not None:
        return await anyio.connect_unix(endpoint.socket_path)
    if endpoint.ssh_command is not None:
        return await connect_ssh(endpoint.ssh_command)
    host, port = endpoint.address
    if not endpoint.is_tls:
        plain = await anyio.connect_tcp(host, port)
        _keep_alive(plain.extra(SocketAttribute.raw_socket))
        return plain
    # The engine may drop a TLS connection without a closing handshake when a container ends.
    secure = await anyio.connect_tcp(
        host, port, ssl_context=_tls_context(endpoint), tls_standard_compatible=False, tls_hostname=host
    )
    _keep_alive(secure.extra(SocketAttribute.raw_socket))
    return secure


def _keep_alive(raw: socket.socket) -> None:
    for option in KEEP_ALIVE:
        raw.setsockopt(*option)


def _tls_context(endpoint: Endpoint) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=endpoint.ca)
    if not endpoint.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if endpoint.cert and endpoint.key:
        context.load_cert_chain(endpoint.cert, endpoint.key)
    return context
