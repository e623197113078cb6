"""Connections over TCP are kept alive, the SDK's and the awaited ones: owner death and idle streams rest on it."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from anyio import to_thread
from anyio.abc import SocketAttribute
from sandboxio_docker.endpoint import Endpoint
from sandboxio_docker.engine import connect
from sandboxio_docker.wire import _connect

pytestmark = [pytest.mark.network, pytest.mark.anyio]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        content = json.dumps({"ApiVersion": "1.41", "MinAPIVersion": "1.12"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Be silent."""


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield Endpoint(f"tcp://127.0.0.1:{server.server_port}")
        server.shutdown()


def is_kept_alive(raw: socket.socket) -> bool:
    idle = raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
    return bool(raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)) and 0 < idle <= 60


async def test_the_sdks_connections(endpoint: Endpoint) -> None:
    client: Any = await to_thread.run_sync(connect, endpoint)
    pools = client.get_adapter("http://").poolmanager.pools
    (pool,) = [pools[key] for key in pools.keys()]  # noqa: SIM118 - it is no mapping
    connection = pool.pool.get()
    assert is_kept_alive(connection.sock)
    connection.close()
    client.close()


async def test_the_awaited_connections(endpoint: Endpoint) -> None:
    stream = await _connect(endpoint)
    assert is_kept_alive(stream.extra(SocketAttribute.raw_socket))
    await stream.aclose()
