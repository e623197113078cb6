"""The one place that decides which addresses a probe may name.

Machines do use the documentation ranges for real, so nothing is assumed: before each run the host's links, routes, rules,
gateways and resolvers are read, and a range that any of them overlaps is left alone.
"""

import ipaddress
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from sandboxio_contract.network.commands import rows, rows_if_any
from sandboxio_contract.network.reason import NotProvable

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

RANGES4 = ("203.0.113.0/24", "198.51.100.0/24", "192.0.2.0/24")
RANGES6 = ("2001:db8::/32",)
METADATA = "169.254.169.254"
# Resolvers that providers are known to leave open; they are only ever aliases in the canary's own namespace.
PUBLIC_RESOLVERS = ("8.8.8.8", "1.1.1.1", "2001:4860:4860::8888", "2606:4700:4700::1111")
RESOLVER_FILES = ("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf", "/run/NetworkManager/resolv.conf")
PROTOCOL = "77"
TABLE = "5353"
LINK = "sbxc0"
# 0.0.0.0/0, 0.0.0.0/1 (VPNs) and 2000::/3 stand for "everything else", not for a use of our range.
_DEFAULT_LIKE = {4: 1, 6: 3}


@dataclass(frozen=True, slots=True)
class HostNetworks:
    """What the host uses: `taken` are networks of links, routes, rules, gateways, resolvers; `local` its own addresses."""

    taken: tuple[Network, ...]
    local: tuple[str, ...]
    gateways: tuple[str, ...]
    resolvers: tuple[str, ...]

    def overlaps(self, candidate: Network) -> bool:
        """Tell whether anything of the host lies in `candidate`."""
        return any(candidate.version == one.version and candidate.overlaps(one) for one in self.taken)

    def relies_on(self, address: str) -> bool:
        """Tell whether the host itself needs this very address, so that it can't be taken over for a run."""
        return address in {*self.local, *self.gateways, *self.resolvers}


@dataclass(frozen=True, slots=True)
class CanaryAddresses:
    """Every address the canary answers for. `link4` is host's and canary's end of the link; reasons say what is missing."""

    v4: str
    v6: str
    link4: tuple[str, str]
    metadata: str | None
    resolvers: tuple[str, ...]

    def all4(self) -> tuple[str, ...]:
        """Return the IPv4 addresses."""
        aliases = tuple(one for one in self.resolvers if ":" not in one)
        return (self.v4, *((self.metadata,) if self.metadata else ()), *aliases)

    def all6(self) -> tuple[str, ...]:
        """Return the IPv6 addresses."""
        return (self.v6, *(one for one in self.resolvers if ":" in one))


def choose_addresses(host: HostNetworks, pick: random.Random | None = None) -> CanaryAddresses:
    """Pick single free addresses for one run.

    :raises NotProvable: with code `addresses` if no documentation range is free.
    """
    pick = pick or random.SystemRandom()
    range4, range6 = _free_range(host, RANGES4, "IPv4"), _free_range(host, RANGES6, "IPv6")
    canary, ours, theirs = (str(range4[number]) for number in pick.sample(range(1, 255), 3))
    return CanaryAddresses(
        v4=canary,
        v6=str(range6[pick.getrandbits(64) | 1]),
        link4=(ours, theirs),
        metadata=None if host.relies_on(METADATA) else METADATA,
        resolvers=tuple(one for one in PUBLIC_RESOLVERS if not host.relies_on(one)),
    )


def _free_range(host: HostNetworks, candidates: Iterable[str], family: str) -> Network:
    for candidate in candidates:
        network = ipaddress.ip_network(candidate)
        if not host.overlaps(network):
            return network
    raise NotProvable("addresses", f"no {family} documentation range is free: this host uses all of them")


def read_host() -> HostNetworks:
    """Read what the host uses now; what an earlier run of this suite left behind does not count."""
    links = [row for row in rows(["ip", "-j", "address"]) if row.get("ifname") != LINK]
    local, taken = _local(links)
    gateways: set[str] = set()
    for row in _routes():
        taken.extend(_networks(str(row.get("dst", "default"))))
        gateways.update(_gateways(row))
    resolvers = tuple(_resolvers())
    for address in (*gateways, *resolvers):
        taken.extend(_networks(address))
    return HostNetworks(tuple(taken), tuple(local), tuple(sorted(gateways)), resolvers)


def _local(links: Iterable[dict[str, object]]) -> tuple[list[str], list[Network]]:
    local: list[str] = []
    taken: list[Network] = []
    for link in links:
        for info in cast("list[dict[str, object]]", link.get("addr_info", [])):
            local.append(str(info["local"]))
            taken.extend(_networks(f"{info['local']}/{info['prefixlen']}"))
            taken.extend(_networks(str(info.get("address", ""))))
    return local, taken


def _routes() -> Iterator[dict[str, object]]:
    for family, read in (("-4", rows), ("-6", rows_if_any)):
        for row in read(["ip", "-N", "-j", family, "route", "show", "table", "all"]):
            if str(row.get("table", "")) != TABLE and row.get("dev") != LINK:
                yield row
        for row in read(["ip", "-N", "-j", family, "rule"]):
            if str(row.get("protocol", "")) != PROTOCOL and "dst" in row:
                yield {"dst": f"{row['dst']}/{row['dstlen']}" if "dstlen" in row else row["dst"]}


def _gateways(route: dict[str, object]) -> Iterator[str]:
    hops = cast("list[dict[str, object]]", route.get("nexthops", []))
    for hop in (route, *hops):
        via = hop.get("gateway") or cast("dict[str, object]", hop.get("via", {})).get("host")
        if via:
            yield str(via)


def _networks(text: str) -> Iterator[Network]:
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return  # `default`, `all`, or a name of iproute2: no network of its own
    if network.prefixlen > _DEFAULT_LIKE[network.version]:
        yield network


def _resolvers() -> Iterator[str]:
    for name in RESOLVER_FILES:
        try:
            lines = Path(name).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for words in (line.split() for line in lines):
            if len(words) > 1 and words[0] == "nameserver":
                yield words[1].split("%", 1)[0]
