"""The first probe of a run: from the host itself, before any sandbox, and only after the guard was read back.

A canary that its own host can't reach would make every denial look proven.
"""

import socket
import struct

from sandboxio_contract.network import dns, tokens
from sandboxio_contract.network.reason import NotProvable

_SECONDS = 2.0


def check(key: bytes, targets: tuple[str, ...], *, names: bool) -> None:
    """Reach every target over TCP and UDP, and a name by way of a resolver that isn't the canary.

    :raises NotProvable: with code `canary`, naming the first that did not answer with its nonce.
    """
    for address in targets:
        _hello(key, address, 80, socket.SOCK_STREAM)
        _hello(key, address, 443, socket.SOCK_DGRAM)
    if names:
        # Nothing of this can leave: the address is loopback, and the guard was read back.
        _question(key, "127.0.0.1")


def _hello(key: bytes, address: str, port: int, kind: socket.SocketKind) -> None:
    token, name = tokens.new_token(), "self"
    wanted = tokens.REPLY + tokens.nonce(key, token, name).encode() + b"\n"
    if _ask(address, port, kind, tokens.HELLO + f"{token}.{name}\n".encode()) != wanted:
        word = "TCP" if kind == socket.SOCK_STREAM else "UDP"
        raise NotProvable("canary", f"the canary does not answer at {address} port {port} over {word}")


def _question(key: bytes, resolver: str) -> None:
    token, name = tokens.new_token(), "self"
    labels = tokens.question(token, name).split(".")
    packed = b"".join(bytes((len(one),)) + one.encode() for one in labels) + b"\0"
    query = struct.pack(">HHHHHH", 1, 0x0100, 1, 0, 0, 0) + packed + struct.pack(">HH", dns.AAAA, 1)
    wanted = socket.inet_pton(socket.AF_INET6, tokens.nonce_address(key, token, name))
    if not _ask(resolver, dns.PORT, socket.SOCK_DGRAM, query).endswith(wanted):
        raise NotProvable("canary", "the suite's names are not led to the canary")


def _ask(address: str, port: int, kind: socket.SocketKind, data: bytes) -> bytes:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, kind) as asking:
        asking.settimeout(_SECONDS)
        try:
            asking.connect((address, port))
            asking.send(data)
            return asking.recv(4096)
        except OSError as error:
            return str(error).encode()
