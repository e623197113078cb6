"""The recorder: it passes everything on, writes down what was asked, and holds where it was told to."""

import http.client
import socket
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar

import pytest
from sandboxio_contract.ground.wire import Call, Wire


class Provider(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    committed: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.answer(b"read")

    def do_POST(self) -> None:
        if self.headers.get("Upgrade") == "tcp":
            self.wfile.write(b"HTTP/1.1 101 Upgraded\r\n\r\n")
            while block := self.rfile.read1(100):
                self.wfile.write(block.upper())
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.committed.append(self.path)
        self.answer(b"made " + body)

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the base class
        pass


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    Provider.committed = []
    server = Server(str(tmp_path / "provider.sock"), Provider)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    with Wire(str(tmp_path / "provider.sock")) as one:
        yield one
    server.shutdown()
    server.server_close()


class Client(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("provider", timeout=5)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(5)
        self.sock.connect(self._path)


def ask(client: Client, method: str, path: str, body: bytes | None = None) -> bytes:
    client.request(method, path, body)
    return client.getresponse().read()


def test_it_passes_requests_on_over_one_connection_and_names_them_without_version_and_query(wire: Wire) -> None:
    client = Client(wire.address)
    assert ask(client, "POST", "/v1.41/containers/create?name=x", b"b" * 200_000) == b"made " + b"b" * 200_000
    assert ask(client, "GET", "/v1.41/containers/json") == b"read"
    assert wire.calls == (Call("POST", "/containers/create"), Call("GET", "/containers/json"))
    assert [call.changes for call in wire.calls] == [True, False]
    client.close()


def test_an_upgraded_connection_is_raw_from_then_on(wire: Wire) -> None:
    with socket.socket(socket.AF_UNIX) as raw:
        raw.settimeout(5)
        raw.connect(wire.address)
        raw.sendall(b"POST /attach HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nearly")
        seen = b""
        while b"EARLY" not in seen:
            seen += raw.recv(1000)
        raw.sendall(b"GET / HTTP/1.1\r\n\r\n")
        while b"GET / HTTP/1.1" not in seen:
            seen += raw.recv(1000)
    assert wire.calls == (Call("POST", "/attach"),)


@pytest.mark.parametrize("place, committed", [("before send", []), ("after commit", ["/make"])])
def test_a_gate_holds_a_request_before_or_after_the_provider_carried_it_out(
    wire: Wire, place: Any, committed: list[str]
) -> None:
    gate = wire.gate(lambda call: call.path == "/make", place)
    answers: list[bytes] = []
    client = Client(wire.address)
    waiting = threading.Thread(target=lambda: answers.append(ask(client, "POST", "/make", b"1")))
    waiting.start()
    assert gate.reached.wait(5)
    assert Provider.committed == committed
    assert answers == []
    other = Client(wire.address)
    assert ask(other, "GET", "/look") == b"read"  # other requests are not held
    gate.open()
    waiting.join(5)
    assert answers == [b"made 1"]
    client.close()
    other.close()


def test_cutting_breaks_open_connections(wire: Wire) -> None:
    client = Client(wire.address)
    ask(client, "GET", "/look")
    wire.cut()
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        ask(client, "GET", "/look")
    client.close()
