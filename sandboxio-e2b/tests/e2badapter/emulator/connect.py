"""Connect's wire form with the JSON codec: unary answers, streams of frames, errors."""

import json
import struct
from typing import Any

from aiohttp import web

DATA, END = 0, 2
STATUS = {
    "canceled": 499,
    "invalid_argument": 400,
    "deadline_exceeded": 504,
    "not_found": 404,
    "already_exists": 409,
    "permission_denied": 403,
    "resource_exhausted": 429,
    "unauthenticated": 401,
    "unavailable": 503,
    "internal": 500,
    "unimplemented": 501,
}


class Failed(Exception):
    """An error in Connect's words."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    @property
    def data(self) -> dict[str, str]:
        """Its JSON form."""
        return {"code": self.code, "message": self.message}

    def response(self) -> web.Response:
        """Return the answer to a unary call."""
        return web.json_response(self.data, status=STATUS[self.code])


def frame(data: Any, flag: int = DATA) -> bytes:
    """Return one piece of a stream."""
    body = json.dumps(data).encode()
    return struct.pack(">BI", flag, len(body)) + body


def end_frame(error: Failed | None = None) -> bytes:
    """Return the piece that ends a stream."""
    return frame({"error": error.data} if error else {}, END)


def unframe(body: bytes) -> list[Any]:
    """Return the messages of a stream that was sent whole. :raises Failed: it is none."""
    found: list[Any] = []
    while body:
        if len(body) < 5:
            raise Failed("invalid_argument", "protocol error: incomplete envelope")
        flag, length = struct.unpack_from(">BI", body)
        if len(body) < 5 + length:
            raise Failed("invalid_argument", "protocol error: promised more bytes than came")
        if flag == DATA:
            found.append(json.loads(body[5 : 5 + length]))
        body = body[5 + length :]
    return found
