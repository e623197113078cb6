"""The least HTTP client that can destroy a container: one request a connection, a deadline over all of it.

Not `http.client`: its timeouts are per read, so that an engine that drips bytes could hold a thread for ever, and
with what it imports the reaper would need twice the memory.
"""

import json
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

ANSWER_LIMIT = 16 * 1024 * 1024  # bytes; an inspect answer has kilobytes
CONNECT_S = 5.0
SSH_CONNECT_S = 12.0  # a login takes a second where all is well, and a name's lookup there may take several
_CHUNK = 65_536


class EngineAway(Exception):
    """The engine can't be reached, or what answers is not an engine."""


class EngineVanished(EngineAway):
    """Not only the engine's socket is gone, but the directory it was in: that engine was removed, not stopped."""


class EngineSlow(EngineAway):
    """The engine took the request and didn't answer in time: what it asked for may still happen."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One complete answer of the engine."""

    status: int
    body: bytes

    @property
    def ok(self) -> bool:
        """Whether the engine did what was asked."""
        return 200 <= self.status < 300

    def json(self) -> object:
        """Read the body.

        :raises EngineAway: it is not JSON.
        """
        try:
            return json.loads(self.body)
        except ValueError as error:
            problem = "the answer is not JSON"
            raise EngineAway(problem) from error


@dataclass(frozen=True, slots=True)
class Where:
    """Where the engine listens: the first of these three that is given.

    :param path: a unix socket.
    :param command: a program whose stdin and stdout are the connection (ssh).
    :param host: with ``port``; ``tls`` and what follows are file names, and whether to verify.
    """

    path: str | None = None
    command: Sequence[str] | None = None
    host: str = ""
    port: int = 0
    tls: bool = False
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    verify: bool = True


class Engine:
    """One engine, used by several threads at once; it holds no connection between requests."""

    def __init__(self, where: Where) -> None:
        """Read the TLS files now: the owner may have put them into a directory that doesn't outlive it.

        Reach the engine now where that takes ssh: nothing else shows that the owner's keys serve this process as well.

        :raises OSError: a TLS file can't be read or used, or ssh doesn't get through.
        """
        self._where = where
        if where.command is not None:
            self._connect(SSH_CONNECT_S).close()
        self._tls = _tls_context(where) if where.tls else None

    def request(self, method: str, path: str, timeout: float) -> Answer:
        """Send one request without a body and return the whole answer, within ``timeout`` seconds.

        The path carries no API version: the engine may be upgraded, and refuse the old version, while we hold claims.

        :raises EngineSlow: the request was sent and not answered in time.
        :raises EngineVanished: there is nothing that could come back.
        :raises EngineAway: no connection, or no HTTP.
        """
        deadline = time.monotonic() + timeout
        host = self._where.host or "docker"
        head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        try:
            connection = self._connect(timeout)
        except (OSError, ValueError) as error:
            problem = f"no connection: {error}"
            raise (EngineVanished if self._has_vanished() else EngineAway)(problem) from error
        with connection:
            try:
                connection.sendall(head.encode("ascii"))
                return _parse(_read_all(connection, deadline))
            except TimeoutError as error:
                problem = f"no answer to {method} {path} within {timeout} s"
                raise EngineSlow(problem) from error
            except (OSError, ValueError) as error:
                problem = f"connection lost: {error}"
                raise EngineAway(problem) from error

    def listen(self, path: str, timeout: float) -> tuple[socket.socket, bytes] | None:
        """Have the engine go on sending: return the connection, which never waits, and what came with the answer's head.

        :return: ``None`` if the engine refuses.
        :raises EngineAway: no connection, no HTTP, or no answer within ``timeout`` seconds.
        """
        deadline = time.monotonic() + timeout
        host = self._where.host or "docker"
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n"
        )
        try:
            connection = self._connect(timeout)
        except (OSError, ValueError) as error:
            problem = f"no connection: {error}"
            raise EngineAway(problem) from error
        try:
            connection.sendall(head.encode("ascii"))
            status, received = _read_head(connection, deadline)
            if status not in (101, 200):
                connection.close()
                return None
            connection.setblocking(False)
        except (OSError, ValueError) as error:
            connection.close()
            problem = f"connection lost: {error}"
            raise EngineAway(problem) from error
        return connection, received

    def _has_vanished(self) -> bool:
        path = self._where.path
        return path is not None and not os.path.isdir(os.path.dirname(path) or "/")  # noqa: PTH112, PTH120 - pathlib costs memory

    def _connect(self, longest: float) -> socket.socket:
        timeout = min(longest, CONNECT_S if self._where.command is None else SSH_CONNECT_S)
        if self._where.path is not None:
            plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            plain.settimeout(timeout)
            try:
                plain.connect(self._where.path)
            except BaseException:
                plain.close()
                raise
            return plain
        if self._where.command is not None:
            return _through(self._where.command, timeout)
        plain = socket.create_connection((self._where.host, self._where.port), timeout)
        if self._tls is None:
            return plain
        try:
            encrypted: socket.socket = self._tls.wrap_socket(plain, server_hostname=self._where.host)
            return encrypted
        except BaseException:
            plain.close()
            raise


def read_now(connection: socket.socket) -> bytes | None:
    """Return what came over a connection that never waits: ``None`` = nothing now, no bytes = it ended."""
    try:
        return connection.recv(_CHUNK)
    except BlockingIOError:
        return None
    except OSError as error:
        # TLS says it in its own way, and `ssl` is imported only where it is used.
        return None if type(error).__name__ == "SSLWantReadError" else b""


def _through(command: Sequence[str], timeout: float) -> socket.socket:
    from .ssh import Connection, dial  # with `subprocess`, which costs memory

    return Connection(dial(command, timeout))


def quote(text: str) -> str:
    """Return ``text`` as it may stand in a query."""
    safe = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~"
    return "".join(chr(byte) if byte in safe else f"%{byte:02X}" for byte in text.encode())


def _tls_context(where: Where):  # type: ignore[no-untyped-def]  # noqa: ANN202 - ssl costs memory: only where needed
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # which verifies, the host's name too
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not where.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif where.ca is not None:
        context.load_verify_locations(where.ca)
    else:
        context.load_default_certs()  # some megabytes
    if where.cert is not None:
        context.load_cert_chain(where.cert, where.key)
    return context


def _read_all(connection: socket.socket, deadline: float) -> bytes:
    # Up to the end of the connection, or of the answer where its length is known: some proxies keep the connection.
    received = bytearray()
    while not _complete(received):
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        connection.settimeout(remaining)
        piece = connection.recv(_CHUNK)
        if not piece:
            break
        received += piece
        if len(received) > ANSWER_LIMIT:
            problem = f"an answer of more than {ANSWER_LIMIT} bytes"
            raise ValueError(problem)
    return bytes(received)


def _read_head(connection: socket.socket, deadline: float) -> tuple[int, bytes]:
    """Return the status, and what came after the head."""
    received = b""
    while b"\r\n\r\n" not in received:
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        piece = connection.recv(_CHUNK)
        if not piece or len(received) > ANSWER_LIMIT:
            problem = "the connection ended within the answer's head"
            raise ValueError(problem)
        received += piece
    head, _, rest = received.partition(b"\r\n\r\n")
    return _head(head)[0], rest


def _complete(received: bytearray) -> bool:
    end = received.find(b"\r\n\r\n")
    if end < 0:
        return False
    status, headers = _head(bytes(received[:end]))
    if status == 204:
        return True
    if "content-length" in headers:
        return len(received) - end - 4 >= int(headers["content-length"])
    return headers.get("transfer-encoding") == "chunked" and received.endswith(b"\r\n0\r\n\r\n")


def _parse(received: bytes) -> Answer:
    head, separator, body = received.partition(b"\r\n\r\n")
    if not separator:
        problem = "the connection ended within the answer's head"
        raise ValueError(problem)
    status, headers = _head(head)
    if headers.get("transfer-encoding") == "chunked":
        return Answer(status, _unchunk(body))
    if "content-length" in headers and status != 204:
        length = int(headers["content-length"])
        if len(body) < length:
            problem = "the connection ended within the answer's body"
            raise ValueError(problem)
        body = body[:length]
    return Answer(status, body)


def _head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    protocol, _, rest = first.partition(" ")
    if not protocol.startswith("HTTP/1."):
        problem = "what answers does not speak HTTP"
        raise ValueError(problem)
    pairs = (line.partition(":") for line in lines)
    return int(rest[:3]), {name.strip().lower(): value.strip().lower() for name, _, value in pairs}


def _unchunk(body: bytes) -> bytes:
    pieces: list[bytes] = []
    while True:
        size_text, separator, body = body.partition(b"\r\n")
        if not separator:
            problem = "the connection ended within a chunk"
            raise ValueError(problem)
        size = int(size_text.partition(b";")[0], 16)
        if size == 0:
            return b"".join(pieces)
        if size < 0 or len(body) < size + 2:
            problem = "the connection ended within a chunk"
            raise ValueError(problem)
        pieces.append(body[:size])
        body = body[size + 2 :]
