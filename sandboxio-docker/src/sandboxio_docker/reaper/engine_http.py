"""The least HTTP client that can destroy a container: one request a connection, a deadline over all of it.

Not `http.client`: its timeouts are per read, so that an engine that drips bytes could hold a thread for ever, and
with what it imports the reaper would need twice the memory.
"""

import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

from .http_answer import CHUNK, Answer, EngineAway, parse, read_all, read_head

CONNECT_S = 5.0
SSH_CONNECT_S = 12.0  # a login takes a second where all is well, and a name's lookup there may take several


class EngineVanished(EngineAway):
    """Not only the engine's socket is gone, but the directory it was in: that engine was removed, not stopped."""


class NotRunning(Exception):
    """A container is there and does not run."""


class EngineSlow(EngineAway):
    """The engine took the request and didn't answer in time: what it asked for may still happen."""


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
        try:
            connection = self._connect(timeout)
        except (OSError, ValueError) as error:
            problem = f"no connection: {error}"
            raise (EngineVanished if self._has_vanished() else EngineAway)(problem) from error
        with connection:
            try:
                connection.sendall(self._head(method, path, "Connection: close"))
                return parse(read_all(connection, deadline))
            except TimeoutError as error:
                problem = f"no answer to {method} {path} within {timeout} s"
                raise EngineSlow(problem) from error
            except (OSError, ValueError) as error:
                problem = f"connection lost: {error}"
                raise EngineAway(problem) from error

    def listen(self, container: str, timeout: float) -> tuple[socket.socket, bytes] | None:
        """Attach to the stderr of a container that runs: return the connection, which never waits, and what came by then.

        A stream that is attached to one that does not run, Docker never ends (seen with 20.10, 2026-11), and so does not
        what passes it on from another machine. So it is looked at first, over the same connection.

        :return: ``None`` if there is no such container.
        :raises NotRunning: it does not run yet, or no more.
        :raises EngineAway: no connection, no HTTP, or no answer within ``timeout`` seconds.
        """
        deadline = time.monotonic() + timeout
        try:
            connection = self._connect(timeout)
        except (OSError, ValueError) as error:
            problem = f"no connection: {error}"
            raise EngineAway(problem) from error
        try:
            connection.sendall(self._head("GET", f"/containers/{container}/json"))
            seen = parse(read_all(connection, deadline))
            if seen.ok and not _runs(seen.json()):
                raise NotRunning
            upgrade = ("Connection: Upgrade", "Upgrade: tcp")
            connection.sendall(self._head("POST", f"/containers/{container}/attach?stream=1&stderr=1", *upgrade))
            status, received = read_head(connection, deadline)
            connection.setblocking(False)
        except (OSError, ValueError) as error:
            connection.close()
            problem = f"connection lost: {error}"
            raise EngineAway(problem) from error
        except BaseException:
            connection.close()
            raise
        if status in (101, 200):
            return connection, received
        connection.close()
        return None

    def _head(self, method: str, path: str, *fields: str) -> bytes:
        host = self._where.host or "docker"
        return "\r\n".join((f"{method} {path} HTTP/1.1", f"Host: {host}", *fields, "Content-Length: 0\r\n\r\n")).encode(
            "ascii"
        )

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
        return connection.recv(CHUNK)
    except BlockingIOError:
        return None
    except OSError as error:
        # TLS says it in its own way, and `ssl` is imported only where it is used.
        return None if type(error).__name__ == "SSLWantReadError" else b""


def _runs(found: object) -> bool:
    state = found.get("State") if isinstance(found, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return isinstance(state, dict) and state.get("Running") is True  # pyright: ignore[reportUnknownMemberType]


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
