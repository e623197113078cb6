"""A network of its own without an uplink, whose default route is a canary that answers for every address.

Nothing can leave it, by construction, and every denial inside it has a control. An ordinary user can have one where the
kernel offers user namespaces.
"""

import os
from dataclasses import asdict
from pathlib import Path

from sandboxio_contract.network import kernel, routes, selfcheck
from sandboxio_contract.network.addresses import LINK, CanaryAddresses, choose_addresses, read_host
from sandboxio_contract.network.canary import Responder
from sandboxio_contract.network.commands import CommandFailed, attempt, batch
from sandboxio_contract.network.hostworld import canary_responder
from sandboxio_contract.network.processes import Server
from sandboxio_contract.network.reason import NotProvable

PORT = 28_453
# What runs in namespaces behind the arena may have any inside address: answers find the way back to the arena.
_HIDE = """table inet sandboxio_arena {
chain hide { type nat hook postrouting priority 100; policy accept; oifname "sbxc0" masquerade; }
}
"""


class ArenaWorld:
    """The world of one arena; its supervisor lives inside it."""

    def __init__(self, secret: bytes, run: str) -> None:
        self._secret, self._run = secret, run
        self._servers: list[Server] = []

    def build(self) -> dict[str, object]:
        """Set it up and return the facts.

        :raises NotProvable: namespaces aren't permitted here, or a tool is missing.
        """
        # Chosen by what the host uses, although nothing leaves: a report's addresses never look like the host's own.
        addresses = choose_addresses(read_host())
        try:
            if os.geteuid() != 0:
                kernel.become_root_of_own_namespace()
            kernel.unshare(kernel.NEW_NET)
        except OSError as error:
            raise NotProvable("privilege", f"no network namespace can be made here: {error}") from error
        missing = routes.ipv6_missing()
        ipv6 = missing is None
        try:
            self._furnish(addresses, ipv6=ipv6)
        except CommandFailed as error:
            raise NotProvable("routes", f"the arena could not be furnished: {error}") from error
        targets = (addresses.v4, addresses.v6) if ipv6 else (addresses.v4,)
        selfcheck.check(self._secret, targets, names=False)
        return {
            "addresses": asdict(addresses),
            "port": PORT,
            "ipv6_missing": missing,
            "unix": [f"@sbxc-{self._run}", ""],
            "uplinks_guarded": False,
        }

    def witness(self) -> dict[str, object]:
        """Return what all servers saw."""
        reports = [server.report() for server in self._servers]
        return {
            "sightings": [one for report in reports for one in report["sightings"]],
            "arrivals": [one for report in reports for one in report["arrivals"]],
            "drops": {},
            "strays": 0,
        }

    def tear_down(self, *, orphaned: bool) -> None:
        """End the servers; the namespaces end with them."""
        for server in self._servers:
            server.close()

    def _furnish(self, addresses: CanaryAddresses, *, ipv6: bool) -> None:
        batch("-4", ["link set lo up"])
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1", encoding="ascii")
        if ipv6:
            Path("/proc/sys/net/ipv6/conf/all/forwarding").write_text("1", encoding="ascii")
        canary = Server(lambda: self._everywhere(addresses, ipv6=ipv6), namespace=True)
        self._servers.append(canary)
        routes.install_link(addresses, canary.pid, ipv6=ipv6)
        routes.furnish(addresses, canary.pid, ipv6=ipv6)
        self._answer_everything(addresses, canary.pid, ipv6=ipv6)
        attempt(["nft", "-f", "-"], _HIDE)
        canary.open()
        host = Server(self._inside, namespace=False)
        self._servers.append(host)
        host.open()

    def _answer_everything(self, addresses: CanaryAddresses, pid: int, *, ipv6: bool) -> None:
        ours, theirs = addresses.link4
        inside = ("nsenter", f"--net=/proc/{pid}/ns/net")
        back = f"route add unicast {ours}/32 dev {routes.PEER} table local"
        batch("-4", [f"route add default via {theirs} dev {LINK}"])
        batch("-4", [back, "route add local 0.0.0.0/0 dev lo table local"], inside)
        if ipv6:
            batch("-6", [f"route add default via {routes.CANARY6} dev {LINK}"])
            batch("-6", [f"route add {routes.HOST6}/128 dev {routes.PEER} table local",
                         f"route add fe80::/10 dev {routes.PEER} table local",
                         "route add local ::/0 dev lo table local"], inside)  # fmt: skip

    def _everywhere(self, addresses: CanaryAddresses, *, ipv6: bool) -> Responder:
        responder = canary_responder(self._secret, addresses, ipv6=ipv6)
        # The arena's router is the canary, so the gateway's port is open there too.
        responder.listen_tcp(PORT, ipv6=ipv6)
        if ipv6:
            responder.listen_udp(PORT, ipv6=True)
        return responder

    def _inside(self) -> Responder:
        responder = Responder(self._secret, "host", "")
        responder.listen_unix(f"\0sbxc-{self._run}")
        return responder
