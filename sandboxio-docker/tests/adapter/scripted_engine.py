"""An engine on a unix socket that answers as a test tells it, and records what it was asked."""

import json
import re
import socketserver
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

Answer = tuple[int, Any]
CONTAINER = "c" * 64

INFO: dict[str, Any] = {
    "MemoryLimit": True,
    "SwapLimit": True,
    "CpuCfsQuota": True,
    "PidsLimit": True,
    "OSType": "linux",
    "Driver": "overlay2",
    "DriverStatus": [["Backing Filesystem", "extfs"]],
    "DockerRootDir": "/var/lib/docker",
    "SecurityOptions": ["name=seccomp,profile=default"],
    "DefaultRuntime": "runc",
    "Runtimes": {"runc": {}},
    "NCPU": 4,
    "MemTotal": 8 * 2**30,
}


@dataclass
class Asked:
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    closed: threading.Event = field(default_factory=threading.Event)


class ScriptedEngine:
    """Answers `rules` first, the usual answers else; `log` is what was asked, in order."""

    def __init__(self, path: Path) -> None:
        self.host = f"unix://{path}"
        self.log: list[Asked] = []
        self.released = threading.Event()
        self._rules: list[tuple[str, str, Callable[[Asked], Answer]]] = []
        self._server = _Server(str(path), _Handler)
        self._server.engine = self
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, method: str, pattern: str, status: int, body: Any = None) -> None:
        """Answer requests whose path matches; the latest rule wins."""
        self.do(method, pattern, lambda _: (status, body))

    def do(self, method: str, pattern: str, act: Callable[[Asked], Answer]) -> None:
        self._rules.insert(0, (method, pattern, act))

    def stall(self, method: str, pattern: str) -> None:
        """Accept such requests and do not answer before `close`."""

        def wait(_: Asked) -> Answer:
            self.released.wait(30)
            return 500, {"message": "late"}

        self.do(method, pattern, wait)

    def hold(self, method: str, pattern: str) -> None:
        """Take over such connections, and end them neither by itself nor when the client ends its side."""
        self.do(method, pattern, lambda _: (101, None))

    def asked(self, method: str, pattern: str = "") -> list[Asked]:
        return [one for one in self.log if one.method == method and re.search(pattern, one.path)]

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def reply(self, asked: Asked) -> Answer:
        self.log.append(asked)
        for method, pattern, act in self._rules:
            if method == asked.method and re.search(pattern, asked.path):
                return act(asked)
        return usual(asked)


def usual(asked: Asked) -> Answer:
    path = asked.path
    if path == "/version":
        return 200, {"ApiVersion": "1.41", "MinAPIVersion": "1.12"}
    if path == "/info":
        return 200, INFO
    if path.startswith("/images/"):
        return 200, {"Id": "sha256:1", "Config": {"WorkingDir": "", "User": "", "Volumes": None}}
    if path in ("/containers/json", "/networks"):
        return 200, []
    if path == "/containers/create":
        return 201, {"Id": CONTAINER, "Warnings": []}
    if asked.method == "DELETE":
        return 204, None
    if asked.method == "PUT":
        return 200, None
    return 404, {"message": f"No such container: {path}"}


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64
    engine: ScriptedEngine

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self) -> str:
        return "test"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Be silent."""

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        body = raw if self.command == "PUT" else json.loads(raw) if raw else None
        path = re.sub(r"^/v1\.\d+", "", unquote(parts.path))
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        status, answer = cast("_Server", self.server).engine.reply(Asked(self.command, path, query, body))
        streamed = cast("tuple[object, ...]", answer) if isinstance(answer, tuple) else None
        lines = None if streamed is None else [json.dumps(line) for line in streamed]
        content = b"" if answer is None else ("\n".join(lines) if lines is not None else json.dumps(answer)).encode()
        self.send_response(status)
        if status == HTTPStatus.SWITCHING_PROTOCOLS:
            self.end_headers()
            cast("_Server", self.server).engine.released.wait(30)
            return
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_HEAD(self) -> None:
        """Answer a ping, as asked first through ssh."""
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 - the base class's names
