"""An engine's answer, taken apart: just enough of HTTP/1.1."""

import json
import socket
import time
from dataclasses import dataclass

ANSWER_LIMIT = 16 * 1024 * 1024  # bytes; an inspect answer has kilobytes
CHUNK = 65_536


class EngineAway(Exception):
    """The engine can't be reached, or what answers is not an engine."""


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


def read_all(connection: socket.socket, deadline: float) -> bytes:
    """Return an answer as it came."""
    # Up to the end of the connection, or of the answer where its length is known: some proxies keep the connection.
    received = bytearray()
    while not _complete(received):
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        connection.settimeout(remaining)
        piece = connection.recv(CHUNK)
        if not piece:
            break
        received += piece
        if len(received) > ANSWER_LIMIT:
            problem = f"an answer of more than {ANSWER_LIMIT} bytes"
            raise ValueError(problem)
    return bytes(received)


def read_head(connection: socket.socket, deadline: float) -> tuple[int, bytes]:
    """Return the status, and what came after the head."""
    received = b""
    while b"\r\n\r\n" not in received:
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        piece = connection.recv(CHUNK)
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


def parse(received: bytes) -> Answer:
    """Take a whole answer apart.

    :raises ValueError: it is not whole, or no HTTP.
    """
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
