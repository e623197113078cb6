"""The answering side: small servers that give a nonce to whoever reaches them, and write down who did.

The same class serves in the canary's namespace (every port a probe may try), on the host (gateway and host rows), and on
unix sockets. It is one process with one loop, told what to do over a socket pair, and it dies with its supervisor.
"""

import contextlib
import json
import selectors
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from sandboxio_contract.network import dns
from sandboxio_contract.network.arrivals import IP_PKTINFO, IPV6_FREEBIND, Arrivals
from sandboxio_contract.network.tokens import HELLO, REPLY, nonce, nonce_address, read_hello, read_question
from sandboxio_contract.network.witness import Arrival, Sighting, encode

TCP_PORTS = (80, 443, 53)
HTTP = b"GET "
UDP_PORTS = (443,)
BACKLOG = 128
LIMIT = 20_000
_IDLE = 10.0


@dataclass(slots=True)
class _Connection:
    source: str
    protocol: str
    since: float = field(default_factory=time.monotonic)
    data: bytearray = field(default_factory=bytearray)


class Responder:
    """Answers probes in one process; `server` is the name under which its sightings are reported."""

    def __init__(self, key: bytes, server: str, address4: str) -> None:
        self._key, self._server, self._address4 = key, server, address4
        self._selector = selectors.DefaultSelector()
        self._open: dict[socket.socket, _Connection] = {}
        self._arrivals: Arrivals | None = None
        self._accepted: set[str] = set()
        self.sightings: list[Sighting] = []

    def listen_tcp(self, port: int, *, ipv6: bool) -> None:
        """Accept on one TCP port; port 53 understands DNS as well."""
        families = (socket.AF_INET, socket.AF_INET6) if ipv6 else (socket.AF_INET,)
        for family in families:
            self._listen(_bound(family, socket.SOCK_STREAM, port), "tcp")

    def listen_udp(self, port: int, *, ipv6: bool) -> None:
        """Receive on one UDP port; port 53 speaks DNS only."""
        families = (socket.AF_INET, socket.AF_INET6) if ipv6 else (socket.AF_INET,)
        for family in families:
            bound = _bound(family, socket.SOCK_DGRAM, port)
            take = self._take_dns if port == dns.PORT else self._take_datagram
            self._selector.register(bound, selectors.EVENT_READ, partial(_drain, take=take))

    def listen_unix(self, path: str) -> None:
        """Accept on a unix socket that any user may connect to; a leading NUL makes it an abstract one."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        if not path.startswith("\0"):
            Path(path).chmod(0o666)
        self._listen(listener, "unix")

    def watch(self, link: str) -> None:
        """Write down every opening that comes in over a link, and answer pings."""
        self._arrivals = Arrivals(link, self._reply)
        self._selector.register(self._arrivals.socket, selectors.EVENT_READ, self._watch)

    def serve(self, control: socket.socket) -> None:
        """Serve until the other end of `control` closes; each byte on it is answered with a JSON line of what was seen."""
        self._selector.register(control, selectors.EVENT_READ)
        while True:
            events = self._selector.select(timeout=1.0)
            asked = False
            for key, _ in events:
                if key.fileobj is control:
                    asked = True
                else:
                    key.data(key.fileobj)
            self._expire()
            # Asked last: what was already waiting in a socket is part of the answer.
            if asked and not self._report(control):
                return

    def _report(self, control: socket.socket) -> bool:
        if not control.recv(1):
            return False
        for key, _ in self._selector.select(timeout=0):
            if key.fileobj is not control:
                key.data(key.fileobj)
        report = {
            "sightings": [encode(one) for one in self.sightings],
            "arrivals": [encode(one) for one in self._unexplained()],
        }
        control.sendall(json.dumps(report).encode() + b"\n")
        return True

    def _unexplained(self) -> list[Arrival]:
        """Return TCP openings that never became a connection: the answer didn't get back to who asked."""
        entries = self._arrivals.entries.values() if self._arrivals else ()
        return [
            one for one in entries if one.protocol == "tcp" and f"{one.source}:{one.source_port}" not in self._accepted
        ]

    def _watch(self, _link: socket.socket) -> None:
        if self._arrivals is not None:
            self._arrivals.read()

    def _listen(self, listener: socket.socket, protocol: str) -> None:
        listener.listen(BACKLOG)
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, partial(self._accept, protocol=protocol))

    def _accept(self, listener: socket.socket, protocol: str) -> None:
        with contextlib.suppress(OSError):
            accepted, address = listener.accept()
            accepted.setblocking(False)
            source = f"{address[0]}:{address[1]}" if isinstance(address, tuple) else "unix"
            self._open[accepted] = _Connection(source, protocol)
            if len(self._accepted) < LIMIT:
                self._accepted.add(source)
            self._selector.register(accepted, selectors.EVENT_READ, self._read)

    def _read(self, one: socket.socket) -> None:
        connection = self._open[one]
        try:
            data = one.recv(4096)
        except OSError:
            data = b""
        connection.data += data
        reply = self._stream_reply(connection) if data else None
        if reply is not None:
            with contextlib.suppress(OSError):
                one.sendall(reply)
        if not data or reply is not None or len(connection.data) > 4096:
            self._close(one)

    def _stream_reply(self, connection: _Connection) -> bytes | None:
        data = bytes(connection.data)
        if data.startswith((HELLO, HTTP)):  # in a request's headers, where what decides by a host name reads it
            return self._reply(data, connection.protocol, connection.source)
        length = struct.unpack(">H", data[:2])[0] if len(data) > 2 else len(data)
        if len(data) < 2 + length:
            return None
        reply = self._dns_reply(data[2 : 2 + length], "dns/tcp", connection.source)
        return struct.pack(">H", len(reply)) + reply if reply else None

    def _close(self, one: socket.socket) -> None:
        del self._open[one]
        self._selector.unregister(one)
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_WR)
        one.close()

    def _expire(self) -> None:
        now = time.monotonic()
        for one in [one for one, connection in self._open.items() if now - connection.since > _IDLE]:
            self._close(one)

    def _take_datagram(self, data: bytes, source: str) -> bytes | None:
        return self._reply(data, "udp", source)

    def _take_dns(self, data: bytes, source: str) -> bytes | None:
        return self._dns_reply(data, "dns/udp", source)

    def _reply(self, data: bytes, protocol: str, source: str) -> bytes | None:
        hello = read_hello(data)
        if hello is None:
            return None
        self._see(*hello, protocol, source)
        return REPLY + nonce(self._key, *hello).encode() + b"\n"

    def _dns_reply(self, data: bytes, protocol: str, source: str) -> bytes | None:
        question = dns.parse_question(data)
        if question is None:
            return None
        asked = read_question(question.name)
        if asked is None:
            return dns.answer(question, None)
        self._see(*asked, protocol, source)
        answers = {dns.A: self._address4, dns.AAAA: nonce_address(self._key, *asked)}
        return dns.answer(question, answers.get)

    def _see(self, token: str, name: str, protocol: str, source: str) -> None:
        if len(self.sightings) < LIMIT:
            self.sightings.append(Sighting(token, name, protocol, source, self._server, time.monotonic()))


def _bound(family: socket.AddressFamily, kind: socket.SocketKind, port: int) -> socket.socket:
    bound = socket.socket(family, kind)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(kind == socket.SOCK_STREAM))
    if family == socket.AF_INET6:
        bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    # Without these a UDP answer leaves with the link's address, which the asker drops: a false denial.
    if kind == socket.SOCK_DGRAM and family == socket.AF_INET:
        bound.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
    elif kind == socket.SOCK_DGRAM:
        bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        bound.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
    bound.bind(("", port) if family == socket.AF_INET else ("::", port))
    bound.setblocking(False)
    return bound


def _drain(one: socket.socket, take: Callable[[bytes, str], bytes | None]) -> None:
    for _ in range(LIMIT):
        try:
            data, ancillary, _, address = one.recvmsg(4096, 256)
        except OSError:
            return
        reply = take(data, f"{address[0]}:{address[1]}")
        if reply is None:
            continue
        # One-way egress, or the asker is gone: the sighting is already written down.
        with contextlib.suppress(OSError):
            one.sendmsg([reply], _answer_from(ancillary), 0, address)


def _answer_from(ancillary: list[tuple[int, int, bytes]]) -> list[tuple[int, int, bytes]]:
    """Return the control message that makes the answer leave with the address that was asked."""
    for level, kind, data in ancillary:
        if (level, kind) == (socket.IPPROTO_IP, IP_PKTINFO):
            return [(level, kind, struct.pack("=I4s4s", 0, data[8:12], b"\0" * 4))]
        if (level, kind) == (socket.IPPROTO_IPV6, socket.IPV6_PKTINFO):
            link_scope = data[:16].startswith(b"\xfe\x80") or data[:1] == b"\xff"
            return [] if link_scope else [(level, kind, data[:16] + struct.pack("=I", 0))]
    return []
