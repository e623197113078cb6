"""A listener below the protocols: every unicast opening that comes in over the canary's link is written down.

It also answers pings, with a nonce instead of the echo: an echo proves nothing, any box in between can do it.
"""

import contextlib
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

from sandboxio_contract.network.tokens import REPLY, read_hello
from sandboxio_contract.network.witness import Arrival

_ETH_ALL = 0x0003
_INCOMING = 0  # PACKET_HOST; broadcasts, multicasts and our own answers have other values
_TCP, _UDP, _ICMP4, _ICMP6 = 6, 17, 1, 58
_SYN, _ACK = 0x02, 0x10
IP_PKTINFO = 8  # in `socket` only since Python 3.14
IPV6_FREEBIND = 78  # answer as an address that no interface has; the arena's canary has them all
LIMIT = 20_000

Answer = Callable[[bytes, str, str], bytes | None]


@dataclass(frozen=True, slots=True)
class _Packet:
    protocol: int
    source: str
    destination: str
    body: bytes


def _parse(data: bytes) -> _Packet | None:
    if len(data) >= 20 and data[0] >> 4 == 4:
        head = (data[0] & 15) * 4
        return _Packet(data[9], socket.inet_ntoa(data[12:16]), socket.inet_ntoa(data[16:20]), data[head:])
    if len(data) >= 40 and data[0] >> 4 == 6:
        source, destination = (socket.inet_ntop(socket.AF_INET6, data[at : at + 16]) for at in (8, 24))
        return _Packet(data[6], source, destination, data[40:])
    return None


def _ports(packet: _Packet) -> tuple[str, int, int] | None:
    """Return protocol, source port and destination port of an opening, or None for anything else."""
    body = packet.body
    if packet.protocol == _TCP and len(body) >= 14 and body[13] & (_SYN | _ACK) == _SYN:
        return ("tcp", *struct.unpack(">HH", body[:4]))
    if packet.protocol == _UDP and len(body) >= 8:
        return ("udp", *struct.unpack(">HH", body[:4]))
    return None


class Arrivals:
    """Reads all packets of one link; `entries` maps each flow to its first packet."""

    def __init__(self, link: str, answer: Answer) -> None:
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_ALL))
        self.socket.bind((link, _ETH_ALL))
        self.socket.setblocking(False)
        self.entries: dict[tuple[str, str, int, str, int], Arrival] = {}
        self._answer = answer
        self._reply4 = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        self._reply6 = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
        for reply in (self._reply4, self._reply6):
            reply.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)  # only ever sends
        self._reply6.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)

    def read(self) -> None:
        """Take in everything that is waiting."""
        for _ in range(LIMIT):
            try:
                data, address = self.socket.recvfrom(65536)
            except OSError:
                return
            packet = _parse(data) if address[2] == _INCOMING else None
            if packet is not None:
                self._take(packet)

    def _take(self, packet: _Packet) -> None:
        ports = _ports(packet)
        if ports is not None:
            protocol, source_port, port = ports
            flow = (protocol, packet.source, source_port, packet.destination, port)
            if len(self.entries) < LIMIT:
                arrival = Arrival(protocol, packet.destination, port, packet.source, source_port, time.monotonic())
                self.entries.setdefault(flow, arrival)
        elif packet.protocol in (_ICMP4, _ICMP6) and len(packet.body) >= 8:
            self._pinged(packet)

    def _pinged(self, packet: _Packet) -> None:
        version4 = packet.protocol == _ICMP4
        if packet.body[0] != (8 if version4 else 128) or read_hello(packet.body[8:]) is None:
            return
        answer = self._answer(packet.body[8:], "icmp", packet.source)
        if answer is None or not answer.startswith(REPLY):
            return
        body = struct.pack(">BBH", 0 if version4 else 129, 0, 0) + packet.body[4:8] + answer
        with contextlib.suppress(OSError):  # the asker is gone, or one-way: the sighting is already written down
            self._send(packet, body, version4=version4)

    def _send(self, packet: _Packet, body: bytes, *, version4: bool) -> None:
        if version4:
            body = body[:2] + struct.pack(">H", _checksum(body)) + body[4:]
            pktinfo = struct.pack("=I4s4s", 0, socket.inet_aton(packet.destination), b"\0" * 4)
            self._reply4.sendmsg([body], [(socket.IPPROTO_IP, IP_PKTINFO, pktinfo)], 0, (packet.source, 0))
            return
        source = socket.inet_pton(socket.AF_INET6, packet.destination) + struct.pack("=I", 0)
        ancillary = [(socket.IPPROTO_IPV6, socket.IPV6_PKTINFO, source)]
        self._reply6.sendmsg([body], ancillary, 0, (packet.source, 0))


def _checksum(data: bytes) -> int:
    padded = data + b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f">{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
