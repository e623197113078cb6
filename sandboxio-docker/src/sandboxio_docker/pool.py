"""Free subnets of a pool that the caller gave for networks."""

import secrets
import socket
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network
from pathlib import Path

from sandboxio_docker.config import SUBNET

ROUTES = Path("/proc/net/route")
_SIZE = 1 << (32 - SUBNET)


def free_subnets(pool: IPv4Network, taken: Iterable[IPv4Network]) -> Iterator[IPv4Network]:
    """Yield the subnets that overlap nothing taken, each once, from a random one on.

    Not the first one first: whoever else takes from this pool at this moment would take the same.
    """
    first, last = int(pool.network_address), int(pool.broadcast_address)
    start = first + _SIZE * secrets.randbelow(1 << (SUBNET - pool.prefixlen))
    held = [network for network in taken if network.overlaps(pool)]
    for begin, end in ((start, last), (first, start - 1)):
        yield from _walk(begin, end, held)


def _walk(at: int, end: int, held: list[IPv4Network]) -> Iterator[IPv4Network]:
    while at < end:
        subnet = IPv4Network((at, SUBNET))
        clash = next((network for network in held if network.overlaps(subnet)), None)
        if clash is None:
            yield subnet
            at += _SIZE
        else:
            at = max(int(subnet.broadcast_address), int(clash.broadcast_address)) + 1


def host_routes() -> list[IPv4Network]:
    """Return where this machine's main routing table leads, but for the default route."""
    found: list[IPv4Network] = []
    for line in ROUTES.read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        # The kernel prints the number that its own byte order makes of the address.
        target, mask = (socket.ntohl(int(fields[column], 16)) for column in (1, 7))
        if mask:
            found.append(IPv4Network((target, mask.bit_count())))
    return found
