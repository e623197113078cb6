"""An engine on a unix socket that keeps containers and networks, and misbehaves as a test tells it to."""

import json
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from sandboxio_docker.endpoint import Endpoint

HANG = -1
ATTACH = -2
OURS = "io.sandboxio.managed"
CREATE_ID = "io.sandboxio.create-id"


def labels_of(name: str) -> dict[str, str]:
    return {OURS: "1", CREATE_ID: name}


@dataclass
class Container:
    id: str
    name: str
    labels: dict[str, str]
    size: int = 0
    processes: int = 1
    runs: bool = True
    listeners: list[socket.socket] = field(default_factory=list[socket.socket])


@dataclass
class Network:
    id: str
    labels: dict[str, str]
    holds: set[str] = field(default_factory=set[str])


class FakeEngine:
    """Its methods are called by the test's thread, its answers given by threads of its own."""

    def __init__(self, path: Path, tls: ssl.SSLContext | None = None) -> None:
        self.path = path
        self.endpoint = Endpoint(f"unix://{path}")
        self._tls = tls
        self.containers: dict[str, Container] = {}
        self.networks: dict[str, Network] = {}
        self.log: list[tuple[str, str]] = []
        self.answering = threading.Event()
        self.answering.set()
        self._ended = threading.Event()
        self._scripted: dict[tuple[str, str], deque[int]] = {}
        self._changed = threading.Condition()
        self._listener: socket.socket | None = None

    def start(self) -> None:
        self.path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self.path))
        self._listen(listener)

    def start_tcp(self) -> int:
        """Listen on the loopback interface; return the port."""
        listener = socket.create_server(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        self._listen(listener)
        return port

    def _listen(self, listener: socket.socket) -> None:
        listener.listen(64)
        self._listener = listener
        threading.Thread(target=self._accept, args=[listener], daemon=True).start()

    def stop(self) -> None:
        """Refuse connections from now on."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def close(self) -> None:
        """Let go of every connection that hangs."""
        self.stop()
        self._ended.set()
        self.answering.set()

    def create(self, name: str, labels: dict[str, str] | None = None, size: int = 0) -> str:
        with self._changed:
            identity = f"c0{len(self.containers):04d}{name.encode().hex()}"[:64]
            self.containers[identity] = Container(identity, name, labels_of(name) if labels is None else labels, size)
            return identity

    def create_network(self, name: str, *holds: str, labels: dict[str, str] | None = None) -> str:
        with self._changed:
            identity = f"ee{len(self.networks):04d}{name.encode().hex()}"[:64]
            self.networks[identity] = Network(identity, labels_of(name) if labels is None else labels, set(holds))
            return identity

    def say(self, identity: str, words: str) -> None:
        """Let the container's first process write a line to its stderr."""
        line = f"sandboxio: {words}\n".encode()
        for listener in self.containers[identity].listeners:
            listener.sendall(b"\2\0\0\0" + len(line).to_bytes(4, "big") + line)

    def hang_up(self, identity: str) -> None:
        """End every attached stream of a container."""
        with self._changed:
            listeners, self.containers[identity].listeners = self.containers[identity].listeners, []
        for listener in listeners:
            listener.shutdown(socket.SHUT_RDWR)

    def script(self, method: str, prefix: str, *statuses: int) -> None:
        """Answer the next requests of that kind so; 0 = close the connection without an answer."""
        self._scripted[method, prefix] = deque(statuses)

    def hang(self, method: str, prefix: str) -> None:
        """Never answer the next request of that kind."""
        self.script(method, prefix, HANG)

    def wait(self, condition: Callable[[], bool], timeout: float = 30.0) -> None:
        """Wait until the condition holds; looked at again after each request."""
        with self._changed:
            assert self._changed.wait_for(condition, timeout), f"not within {timeout} s; seen: {self.log[-20:]}"

    def asked(self, method: str, prefix: str) -> int:
        return sum(1 for one, path in self.log if one == method and path.startswith(prefix))

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        try:
            connection = plain if self._tls is None else self._tls.wrap_socket(plain, server_side=True)
        except OSError:  # the client didn't trust us, or we not it
            plain.close()
            return
        with connection:
            while self._serve_one(connection):
                pass

    def _serve_one(self, connection: socket.socket) -> bool:
        """Answer one request; return whether the connection may bring another one."""
        head = b""
        while b"\r\n\r\n" not in head:
            piece = connection.recv(4096)
            if not piece:
                return False
            head += piece
        method, path, _ = head.decode().split("\r\n")[0].split(" ")
        self.answering.wait()
        with self._changed:
            self.log.append((method, path))
            status, body = self._answer(method, path)
            self._changed.notify_all()
        if status == HANG:
            self._ended.wait()
        elif status == ATTACH:
            self._attach(connection, path.split("/")[2])
        elif status:
            text = json.dumps(body).encode()
            reply = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
            try:
                connection.sendall(reply.encode() + text)
            except OSError:
                return False
            return b"Connection: close" not in head
        return False

    def _attach(self, connection: socket.socket, wanted: str) -> None:
        connection.sendall(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
        with self._changed:
            self.containers[wanted].listeners.append(connection)
            self._changed.notify_all()
        self._ended.wait()

    def _answer(self, method: str, path: str) -> tuple[int, object]:
        for (wanted, prefix), statuses in self._scripted.items():
            if wanted == method and path.startswith(prefix) and statuses:
                return statuses.popleft(), {"message": "scripted"}
        url = urlsplit(path)
        parts = url.path.strip("/").split("/")
        if parts[0] == "containers":
            return self._container(method, parts, "size" in url.query)
        if len(parts) == 1:
            return 200, self._networks(json.loads(parse_qs(url.query)["filters"][0]))
        return self._network(method, parts[1])

    def _container(self, method: str, parts: list[str], sized: bool) -> tuple[int, object]:
        wanted = parts[1]
        found = next((one for one in self.containers.values() if wanted in (one.id, one.name)), None)
        if found is None:
            return 404, {"message": "No such container"}
        if parts[2:] == ["attach"]:
            return ATTACH, None
        if parts[2:] == ["kill"]:
            return 204, None
        if parts[2:] == ["top"]:
            return 200, {"Titles": ["PID"], "Processes": [[str(1000 + one)] for one in range(found.processes)]}
        if method == "DELETE":
            del self.containers[found.id]
            for network in self.networks.values():
                network.holds.discard(found.id)
            return 204, None
        data: dict[str, object] = {
            "Id": found.id,
            "Name": f"/{found.name}",
            "Config": {"Labels": found.labels},
            "State": {"Running": found.runs},
        }
        return 200, data | ({"SizeRw": found.size} if sized else {})

    def _networks(self, filters: dict[str, list[str]]) -> object:
        key, _, value = filters["label"][0].partition("=")
        return [{"Id": one.id, "Labels": one.labels} for one in self.networks.values() if one.labels.get(key) == value]

    def _network(self, method: str, wanted: str) -> tuple[int, object]:
        found = self.networks.get(wanted)
        if found is None:
            return 404, {"message": "No such network"}
        if method == "GET":
            return 200, {"Id": found.id, "Labels": found.labels}
        if found.holds:
            return 403, {"message": "has active endpoints"}
        del self.networks[found.id]
        return 204, None


def until(condition: Callable[[], bool], timeout: float = 30.0) -> float:
    """Poll for something that nobody reports, such as a process's end; return how long it took, in seconds."""
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < timeout, f"not within {timeout} s"
        time.sleep(0.01)
    return time.monotonic() - begun
