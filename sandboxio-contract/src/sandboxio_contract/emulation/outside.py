"""What an emulated sandbox reaches: the suite's arena, which has no uplink and whose canary answers for every address.

Nobody is denied anything here unless the wire said so: `Egress()` is open. Filters stand in the guest's own network namespace,
which nothing inside owns, so no code there can change them.
"""

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

from sandboxio_contract.emulation.guest import Guest
from sandboxio_contract.network.arena import Arena
from sandboxio_contract.network.commands import run

EVERYTHING = ("0.0.0.0/0", "::/0")
RELAY_PORT = 3129
RELAY_MARK = 7
_RELAY = str(Path(__file__).with_name("relay.py"))
_MOST = 1 << 14
_APART = """table inet sandboxio_emulation {
chain apart { type filter hook forward priority 0; policy accept; iifname "sbxg*" oifname "sbxg*" drop; }
}
"""


@dataclass(frozen=True, slots=True)
class Egress:
    """Which way out is open. Without anything every way is, as with a provider that nobody told otherwise.

    :param allow: networks that are let through whatever ``deny`` says.
    :param deny: networks that are not; `EVERYTHING` closes all.
    :param names: host names, ``*.suffix`` and ``*``, let through on ports 80 and 443 alone, by what the connection itself
        says in its Host header or its TLS server name; whoever lies there gets through, as with real providers.
    :param never: networks that are not let through whatever else is said.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    never: tuple[str, ...] = ()

    def rules(self) -> str:
        """Return the filter for nft; nothing where all is open."""
        if not (self.deny or self.never):
            return ""
        lines = ["oifname lo accept", "ct state established,related accept", f"meta mark {RELAY_MARK} accept"]
        lines += ["icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit } accept"]
        if self.names:  # where the redirection below has led it
            lines += [f"ip daddr 127.0.0.1 tcp dport {RELAY_PORT} accept"]
        lines += _rejects(self.never)
        lines += [f"{_family(one)} daddr {one} accept" for one in self.allow]
        lines += _rejects(self.deny)
        text = "chain out { type filter hook output priority 0; policy accept; " + "; ".join(lines) + "; }\n"
        if self.names:
            first = [f"meta mark {RELAY_MARK} accept", "oifname lo accept"]
            first += [f"{_family(one)} daddr {one} accept" for one in self.allow]
            first += [f"meta nfproto ipv4 tcp dport {{ 80, 443 }} redirect to :{RELAY_PORT}"]
            text += "chain names { type nat hook output priority -100; policy accept; " + "; ".join(first) + "; }\n"
        return f"table inet emulated_egress {{\n{text}}}\n"


class Outside:
    """One arena for all guests of an emulator. A guest's links go with its namespace."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self._number = 0
        self._lock = threading.Lock()
        self._relays: dict[int, subprocess.Popen[bytes]] = {}
        self._places: dict[int, subprocess.Popen[bytes]] = {}
        run(arena.command(["nft", "-f", "-"]), _APART)

    @classmethod
    def start(cls) -> "Outside":
        """Set it up. :raises NotProvable: namespaces can't be had here."""
        return cls(Arena.start())

    async def connect(self, guest: Guest, egress: Egress, *, ipv6: bool = False) -> str:
        """Lay a guest's cable, filtered as the wire said, and return its IPv4 address."""
        with self._lock:
            self._number = self._number % _MOST + 1
            number = self._number
        address = _address(number)
        await asyncio.to_thread(self._connect, guest, number, egress, ipv6)
        return address

    def place(self) -> tuple[int, str]:
        """Return a place of the suite's own on a cable: a process whose network it is, and its address."""
        with self._lock:
            self._number = self._number % _MOST + 1
            number = self._number
        holder = subprocess.Popen(
            ["unshare", "--net", "--", "sh", "-c", "ip link set lo up; echo up; cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert holder.stdout is not None
        holder.stdout.readline()
        self._places[holder.pid] = holder
        self._lay(number, holder.pid)
        return holder.pid, _address(number)

    def give_up(self, pid: int) -> None:
        """Give a place up."""
        holder = self._places.pop(pid, None)
        if holder is not None:
            holder.kill()
            holder.communicate()

    def let_go(self, guest: Guest) -> None:
        """End what serves a guest outside of it; its links end by themselves."""
        relay = self._relays.pop(guest.pid, None)
        if relay is not None:
            relay.kill()
            relay.communicate()

    def close(self) -> None:
        """Take everything down."""
        for pid in tuple(self._relays):
            relay = self._relays.pop(pid)
            relay.kill()
            relay.communicate()
        for pid in tuple(self._places):
            self.give_up(pid)
        self.arena.close()

    def _connect(self, guest: Guest, number: int, egress: Egress, ipv6: bool) -> None:
        rules = egress.rules()
        if rules:  # the filter stands before there is a way
            run([*inside_network(guest.pid), "nft", "-f", "-"], rules)
        if egress.names:
            self._start_relay(guest, egress.names)
        self._lay(number, guest.pid, ipv6=ipv6)

    def _lay(self, number: int, pid: int, *, ipv6: bool = False) -> None:
        link, gateway, address = f"sbxg{number}", _address(number, gateway=True), _address(number)
        outer = [f"link add {link} type veth peer name eth0 netns {pid}", f"link set {link} up"]
        outer += [f"address add {gateway}/30 dev {link}"]
        self._batch("-4", outer, self.arena.command([]))
        inner = ["link set eth0 up", f"address add {address}/30 dev eth0", f"route add default via {gateway}"]
        self._batch("-4", inner, inside_network(pid))
        if ipv6:
            self._batch("-6", [f"address add fd5b::{number:x}:1/126 dev {link} nodad"], self.arena.command([]))
            inner = [f"address add fd5b::{number:x}:2/126 dev eth0 nodad", f"route add default via fd5b::{number:x}:1"]
            self._batch("-6", inner, inside_network(pid))

    @staticmethod
    def _batch(family: str, lines: Sequence[str], prefix: Sequence[str]) -> None:
        run([*prefix, "ip", family, "-batch", "-"], "\n".join(lines) + "\n")

    def _start_relay(self, guest: Guest, names: Sequence[str]) -> None:
        argv = [
            *inside_network(guest.pid),
            sys.executable,
            "-I",
            "-S",
            _RELAY,
            str(RELAY_PORT),
            str(RELAY_MARK),
            *names,
        ]
        relay = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", env={})
        assert relay.stdout is not None
        if relay.stdout.readline() != b"up\n":
            relay.kill()
            relay.communicate()
            raise OSError("the relay for host names did not come up")
        with contextlib.suppress(KeyError):
            self._relays.pop(guest.pid).kill()
        self._relays[guest.pid] = relay


def _rejects(networks: Sequence[str]) -> list[str]:
    """Refuse TCP by a reset: whoever is refused otherwise waits."""
    ways = ("meta l4proto tcp reject with tcp reset", "reject")
    return [f"{_family(one)} daddr {one} {way}" for one in networks for way in ways]


def inside_network(pid: int) -> list[str]:
    """Return how a command line begins that runs in the network of a process."""
    return ["nsenter", f"--net=/proc/{pid}/ns/net", "--"]


def _family(network: str) -> str:
    return "ip" if ip_network(network, strict=False).version == 4 else "ip6"


def _address(number: int, *, gateway: bool = False) -> str:
    """Return one end of the number-th cable, a /30 of a range that only exists in the arena."""
    value = (10 << 24) + (203 << 16) + number * 4 + (1 if gateway else 2)
    return ".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0))
