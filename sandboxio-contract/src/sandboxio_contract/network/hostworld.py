"""The canary beside the host's own network: what containers of a local engine can be judged with. Needs root.

Order matters: stale things away, guard, guard read back, rules into a blackhole, link, routes asked of the kernel, a probe
of our own from the host. Any miss ends it before a sandbox is touched.
"""

import contextlib
import json
import os
import random
import shutil
import socket
from dataclasses import asdict
from pathlib import Path
from typing import cast

from sandboxio_contract.network import guard, routes, selfcheck, sysctls
from sandboxio_contract.network.addresses import CanaryAddresses, choose_addresses, read_host
from sandboxio_contract.network.canary import TCP_PORTS, UDP_PORTS, Responder
from sandboxio_contract.network.dns import PORT as DNS_PORT
from sandboxio_contract.network.processes import Server
from sandboxio_contract.network.reason import NotProvable

STATE = "settings.json"


class HostWorld:
    """The world of one run; kept by the supervisor."""

    def __init__(self, secret: bytes, run: str, directory: Path) -> None:
        self._secret, self._run, self._directory = secret, run, directory
        self._servers: list[Server] = []

    def build(self) -> dict[str, object]:
        """Set up everything and return the facts.

        :raises NotProvable: with the part that could not be set up.
        """
        if os.geteuid() != 0:
            raise NotProvable("privilege", "the host canary needs root: it adds a guarded link to the host's network")
        routes.remove()  # an older guard stays until the new one replaces it, in one transaction
        restore_settings(self._directory)
        addresses = choose_addresses(read_host())
        missing = routes.ipv6_missing()
        ipv6 = missing is None
        port = _free_port(ipv6=ipv6)
        on_uplinks = guard.install(guard.plan_guard(addresses, port))
        self._remember()
        routes.install_rules(addresses, ipv6=ipv6)
        unix = (f"@sbxc-{self._run}", str(self._directory / "open" / f"{self._run}.sock"))
        self._serve(addresses, port, unix, ipv6=ipv6)
        routes.verify(addresses, ipv6=ipv6)
        targets = (addresses.v4, addresses.v6) if ipv6 else (addresses.v4,)
        selfcheck.check(self._secret, targets, names=True)
        if any(count for name, count in guard.counters().items() if name != guard.STRAY):
            raise NotProvable("guard", "the guard had to stop packets of the suite's own first probe")
        return {
            "addresses": asdict(addresses),
            "port": port,
            "ipv6_missing": missing,
            "unix": list(unix),
            "uplinks_guarded": on_uplinks,
        }

    def witness(self) -> dict[str, object]:
        """Return what all servers saw and the guard stopped."""
        reports = [server.report() for server in self._servers]
        drops = guard.counters()
        strays = drops.pop(guard.STRAY)
        return {
            "sightings": [one for report in reports for one in report["sightings"]],
            "arrivals": [one for report in reports for one in report["arrivals"]],
            "drops": drops,
            "strays": strays,
        }

    def tear_down(self, *, orphaned: bool) -> None:
        """Leave the host as it was; of an owner that was killed, its containers too."""
        for server in self._servers:
            server.close()
        if orphaned:
            remove_containers(self._run)
        sweep(self._directory)

    def _remember(self) -> None:
        (self._directory / STATE).write_text(json.dumps(sysctls.snapshot()), encoding="utf-8")
        reachable = self._directory / "open"
        reachable.mkdir(exist_ok=True)
        reachable.chmod(0o755)

    def _serve(self, addresses: CanaryAddresses, port: int, unix: tuple[str, str], *, ipv6: bool) -> None:
        def at_host() -> Responder:
            responder = Responder(self._secret, "host", addresses.v4)
            responder.listen_tcp(port, ipv6=ipv6)
            if ipv6:
                responder.listen_udp(port, ipv6=True)
            responder.listen_unix("\0" + unix[0][1:])
            responder.listen_unix(unix[1])
            return responder

        def at_canary() -> Responder:
            return canary_responder(self._secret, addresses, ipv6=ipv6)

        canary = Server(at_canary, namespace=True)
        self._servers.append(canary)
        routes.install_link(addresses, canary.pid, ipv6=ipv6)
        routes.furnish(addresses, canary.pid, ipv6=ipv6)
        canary.open()
        host = Server(at_host, namespace=False)
        self._servers.append(host)
        host.open()


def canary_responder(key: bytes, addresses: CanaryAddresses, *, ipv6: bool) -> Responder:
    """Return a canary with every port a probe may try, watching its link."""
    Path("/proc/sys/net/ipv4/icmp_echo_ignore_all").write_text("1", encoding="ascii")
    with contextlib.suppress(OSError):
        Path("/proc/sys/net/ipv6/icmp/echo_ignore_all").write_text("1", encoding="ascii")
    responder = Responder(key, "canary", addresses.v4)
    for port in TCP_PORTS:
        responder.listen_tcp(port, ipv6=ipv6)
    for port in (*UDP_PORTS, DNS_PORT):
        responder.listen_udp(port, ipv6=ipv6)
    responder.watch(routes.PEER)
    return responder


def sweep(directory: Path) -> None:
    """Remove what this or an earlier run left on the host: link, rules, table, guard, settings. Does nothing if clean."""
    routes.remove()
    restore_settings(directory)
    guard.remove()
    shutil.rmtree(directory / "open", ignore_errors=True)


def restore_settings(directory: Path) -> None:
    """Put the kernel's settings back that a run remembered, once."""
    state = directory / STATE
    if state.exists():
        with contextlib.suppress(ValueError):
            sysctls.restore(cast("dict[str, str]", json.loads(state.read_text(encoding="utf-8"))))
        state.unlink()


def remove_containers(run: str) -> None:
    """Remove the reference containers of a run whose owner could not, if there is an engine client at all."""
    try:
        from sandboxio_contract.network.engine import remove_leftovers
    except ImportError:
        return
    with contextlib.suppress(NotProvable):
        remove_leftovers(run)


def _free_port(*, ipv6: bool) -> int:
    """Return a port below the ephemeral range that nothing on the host listens on."""
    for _ in range(50):
        port = random.SystemRandom().randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET6 if ipv6 else socket.AF_INET) as trial:
            trial.bind(("", port))
            return port
    raise NotProvable("canary", "no free port for the suite's listener on the host")
