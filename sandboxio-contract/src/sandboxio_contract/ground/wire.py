"""A recorder and gate on the wire between an adapter and an HTTP provider that listens on a unix socket.

Requests are parsed, answers are passed on as they come: over one connection they follow their request, so an answer can be
held without understanding it. What asks for an upgrade is raw from then on.
"""

import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import Literal, Self

Place = Literal["before send", "after commit"]
READS = ("GET", "HEAD")
BLOCK = 65_536
MAX_HEAD = 1_048_576
PATIENCE = 60.0
"""Seconds after which a gate that nobody opened opens by itself, so that a failing row ends."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request that the adapter sent, ``path`` without its query and version."""

    method: str
    path: str

    @property
    def changes(self) -> bool:
        """Whether it is of a kind that creates, changes or starts something."""
        return self.method not in READS

    def __str__(self) -> str:
        """Name it for a report."""
        return f"{self.method} {self.path}"


@dataclass(slots=True)
class Gate:
    """Holds each matching call at one place until it is opened."""

    matches: Callable[[Call], bool]
    place: Place
    reached: threading.Event = field(default_factory=threading.Event)
    opened: threading.Event = field(default_factory=threading.Event)

    def open(self) -> None:
        """Let through what is held and what comes."""
        self.opened.set()

    def pass_through(self, call: Call, place: Place) -> None:
        """Wait here if the gate is about this call and place."""
        if self.place == place and not self.opened.is_set() and self.matches(call):
            self.reached.set()
            self.opened.wait(PATIENCE)


class Wire:
    """A unix socket in front of another one. A context manager."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._folder = Path(mkdtemp(prefix="sandboxio-contract-"))
        self.address = str(self._folder / "provider.sock")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._calls: list[Call] = []
        self._gates: list[Gate] = []
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> Self:
        """Listen."""
        self._listener.bind(self.address)
        self._listener.listen(128)
        threading.Thread(target=self._accept, daemon=True, name="contract-wire").start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cut every connection and go away."""
        self._closed = True
        for gate in self._gates:
            gate.open()
        self.cut()
        # A listener that another thread waits in does not end by close() alone.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        Path(self.address).unlink(missing_ok=True)
        self._folder.rmdir()

    @property
    def calls(self) -> tuple[Call, ...]:
        """The requests so far, in the order in which they came."""
        with self._lock:
            return tuple(self._calls)

    def gate(self, matches: Callable[[Call], bool], place: Place) -> Gate:
        """Hold each matching call from now on: before the provider sees it, or after, before its answer is passed on."""
        gate = Gate(matches, place)
        self._gates.append(gate)
        return gate

    def cut(self) -> None:
        """Break every connection that is open now."""
        with self._lock:
            connections, self._open = self._open, set()
        for one in connections:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True, name="contract-wire").start()

    def _serve(self, client: socket.socket) -> None:
        provider = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with client, provider, contextlib.suppress(OSError):
            provider.connect(self._provider)
            with self._lock:
                self._open |= {client, provider}
            exchange = _Exchange()
            answers = threading.Thread(target=self._answers, args=(provider, client, exchange), daemon=True)
            answers.start()
            self._requests(client, provider, exchange)
            with contextlib.suppress(OSError):
                provider.shutdown(socket.SHUT_WR)
            answers.join()
            with self._lock:
                self._open -= {client, provider}

    def _requests(self, client: socket.socket, provider: socket.socket, exchange: "_Exchange") -> None:
        buffered = b""
        while True:
            while b"\r\n\r\n" not in buffered and len(buffered) < MAX_HEAD:
                block = client.recv(BLOCK)
                if not block:
                    return
                buffered += block
            head, _, buffered = buffered.partition(b"\r\n\r\n")
            request = _Request.parse(head)
            with self._lock:
                self._calls.append(request.call)
            exchange.call = request.call
            for gate in tuple(self._gates):
                gate.pass_through(request.call, "before send")
            provider.sendall(head + b"\r\n\r\n")
            if request.upgrades:
                provider.sendall(buffered)
                _pump(client, provider)
                return
            buffered = _pass_body(request, client, provider, buffered)

    def _answers(self, provider: socket.socket, client: socket.socket, exchange: "_Exchange") -> None:
        with contextlib.suppress(OSError):
            while block := provider.recv(BLOCK):
                call = exchange.call
                if call is not None:
                    for gate in tuple(self._gates):
                        gate.pass_through(call, "after commit")
                client.sendall(block)
            client.shutdown(socket.SHUT_WR)


@dataclass(slots=True)
class _Exchange:
    call: Call | None = None


@dataclass(frozen=True, slots=True)
class _Request:
    call: Call
    length: int
    chunked: bool
    upgrades: bool

    @classmethod
    def parse(cls, head: bytes) -> "_Request":
        lines = head.decode("latin-1").split("\r\n")
        method, _, rest = lines[0].partition(" ")
        path = rest.split(" ")[0].split("?")[0]
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
        }
        parts = path.split("/")
        if len(parts) > 2 and parts[1].startswith("v") and parts[1][1:2].isdigit():
            path = "/" + "/".join(parts[2:])
        return cls(
            Call(method, path),
            int(headers.get("content-length", "0")),
            headers.get("transfer-encoding", "").lower() == "chunked",
            "upgrade" in headers.get("connection", "").lower(),
        )


def _pass_body(request: _Request, client: socket.socket, provider: socket.socket, buffered: bytes) -> bytes:
    """Pass one request's body on and return what follows it."""
    if request.chunked:
        while b"0\r\n\r\n" not in buffered:
            block = client.recv(BLOCK)
            if not block:
                break
            buffered += block
        body, end, rest = buffered.partition(b"0\r\n\r\n")
        provider.sendall(body + end)
        return rest
    left = request.length
    while left > 0:
        if not buffered:
            buffered = client.recv(BLOCK)
            if not buffered:
                return b""
        provider.sendall(buffered[:left])
        sent = min(left, len(buffered))
        buffered, left = buffered[sent:], left - sent
    return buffered


def _pump(source: socket.socket, sink: socket.socket) -> None:
    while block := source.recv(BLOCK):
        sink.sendall(block)
