"""The way to the canary: one policy rule per address and a table of our own; none of the host's routes is touched.

The table ends in a blackhole, so a dead canary means nowhere, never the uplink. Only /32 and /128 are ever routed.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from sandboxio_contract.network.addresses import LINK, PROTOCOL, TABLE, CanaryAddresses
from sandboxio_contract.network.commands import CommandFailed, attempt, batch, rows, rows_if_any
from sandboxio_contract.network.reason import NotProvable

PREFERENCE = "90"
PEER = "sbxc1"
HOST6, CANARY6 = "fe80::5b:1", "fe80::5b:2"
_FAMILIES = ("-4", "-6")


def ipv6_missing() -> str | None:
    """Return why this host has no IPv6, or None if it has."""
    switch = Path("/proc/sys/net/ipv6/conf/all/disable_ipv6")
    if not switch.exists():
        return "the kernel has no IPv6"
    return "IPv6 is turned off on this host" if switch.read_text(encoding="ascii").strip() == "1" else None


def install_rules(addresses: CanaryAddresses, *, ipv6: bool) -> None:
    """Send the canary's addresses into the blackhole; the link is put before it later."""
    for family, targets in _targets(addresses, ipv6=ipv6):
        lines = [f"route add blackhole default table {TABLE} metric 4000 protocol {PROTOCOL}"]
        lines += [f"rule add pref {PREFERENCE} to {one} lookup {TABLE} protocol {PROTOCOL}" for one in targets]
        batch(family, lines)


def _targets(addresses: CanaryAddresses, *, ipv6: bool) -> Sequence[tuple[str, tuple[str, ...]]]:
    both = (("-4", addresses.all4()), ("-6", addresses.all6()))
    return both if ipv6 else both[:1]


def install_link(addresses: CanaryAddresses, pid: int, *, ipv6: bool) -> None:
    """Lay the cable to the namespace of process `pid`, and lead the canary's addresses over it."""
    ours, theirs = addresses.link4
    batch("-4", [f"link add {LINK} type veth peer name {PEER} netns {pid}"])
    # Duplicate-address detection takes a second, and looks like a denial meanwhile.
    _sysctl(f"ipv6/conf/{LINK}/accept_dad", "0")
    # A stub resolver on 127.0.0.53 is asked from 127.0.0.1; that source may enter our link, where it is masqueraded.
    _sysctl(f"ipv4/conf/{LINK}/route_localnet", "1")
    lines = [f"link set {LINK} addrgenmode none", f"link set {LINK} up"]
    lines += [f"address add {ours} peer {theirs} dev {LINK}"]
    lines += [f"route add {one} via {theirs} dev {LINK} table {TABLE} protocol {PROTOCOL}" for one in addresses.all4()]
    batch("-4", lines)
    if ipv6:
        # Neighbour discovery answers only for addresses of the receiving link, so go by the canary's link address.
        over = f"via {CANARY6} dev {LINK} table {TABLE} protocol {PROTOCOL}"
        lines = [f"address add {HOST6}/64 dev {LINK} nodad"]
        batch("-6", [*lines, *(f"route add {one}/128 {over}" for one in addresses.all6())])


def furnish(addresses: CanaryAddresses, pid: int, *, ipv6: bool) -> None:
    """Set up the canary's side: its addresses, and the way back over the link."""
    ours, theirs = addresses.link4
    inside = ("nsenter", f"--net=/proc/{pid}/ns/net")
    lines = ["link set lo up", f"link set {PEER} addrgenmode none", f"link set {PEER} up"]
    lines += [f"address add {theirs} peer {ours} dev {PEER}"]
    lines += [f"address add {one}/32 dev lo" for one in addresses.all4()]
    batch("-4", [*lines, f"route add default via {ours} dev {PEER}"], inside)
    if ipv6:
        lines = [f"address add {CANARY6}/64 dev {PEER} nodad"]
        lines += [f"address add {one}/128 dev lo nodad" for one in addresses.all6()]
        batch("-6", [*lines, f"route add default via {HOST6} dev {PEER}"], inside)


def verify(addresses: CanaryAddresses, *, ipv6: bool) -> None:
    """Ask the kernel where it would send a packet for each address.

    :raises NotProvable: with code `routes`, if any of them would not go to the canary.
    """
    for family, targets in _targets(addresses, ipv6=ipv6):
        for one in targets:
            try:
                found = rows(["ip", "-j", family, "route", "get", one])
            except CommandFailed as error:
                raise NotProvable("routes", f"{one} has no route to the canary: {error}") from error
            if not found or found[0].get("dev") != LINK:
                raise NotProvable("routes", f"{one} would leave by {found[0].get('dev') if found else 'nothing'}")


def remove() -> None:
    """Take link, rules and table away; nothing happens to what isn't ours, nor if nothing is there."""
    attempt(["ip", "link", "delete", LINK])
    for family in _FAMILIES:
        # Rule by rule: older versions of iproute2 flush every rule of the host when asked for one protocol's.
        for row in rows_if_any(["ip", "-N", "-j", family, "rule"]):
            if str(row.get("protocol", "")) == PROTOCOL and str(row.get("table", "")) == TABLE:
                attempt(
                    [
                        "ip",
                        family,
                        "rule",
                        "delete",
                        "pref",
                        str(row["priority"]),
                        "to",
                        str(row["dst"]),
                        "lookup",
                        TABLE,
                    ]
                )
        attempt(["ip", family, "route", "flush", "table", TABLE])


def local_kind(address: str) -> str | None:
    """Return by which kind of link the host reaches `address` if it stays on this machine, else None."""
    try:
        found = rows(["ip", "-j", "route", "get", address])
    except CommandFailed:
        return None
    device = str(found[0].get("dev")) if found else ""
    return next((kind for kind, names in _machine_links().items() if device in names), None)


def _machine_links() -> dict[str, set[str]]:
    names = os.listdir("/sys/class/net")  # noqa: PTH208 - names only
    bridges = {name for name in names if Path("/sys/class/net", name, "bridge").is_dir()}
    return {"loopback": {"lo"}, "bridge": bridges, "canary": {LINK}}


def _sysctl(name: str, value: str) -> None:
    path = Path("/proc/sys/net", name)
    if path.exists():
        path.write_text(value, encoding="ascii")
