"""The canary beside the host's own network: guard before anything, and the host as it was afterwards, however it ends."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sandboxio_contract.network import HostCanary, NotProvable, cleanup, guard, routes
from sandboxio_contract.network import addresses as taken
from sandboxio_contract.network.addresses import HostNetworks, choose_addresses

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(os.geteuid() != 0, reason="the host canary needs root"),
]

START = (
    "import os, signal, sys, time; from sandboxio_contract.network import HostCanary; canary = HostCanary.start();"
    "print(canary.pid, canary.addresses.v4, flush=True);"
)


def told(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


def host_state() -> dict[str, str]:
    """Everything of the host's network that the suite could have changed, and that others leave alone meanwhile."""
    state = {family: told("ip", family, "rule") for family in ("-4", "-6")}
    state |= {f"table {family}": told("ip", family, "route", "show", "table", "5353") for family in ("-4", "-6")}
    main = "\n".join(line for line in told("ip", "route").splitlines() if "dev eth" in line or "sbxc" in line)
    links = sorted(name for name in os.listdir("/sys/class/net") if name.startswith("sbxc"))
    tables = "\n".join(line for line in told("nft", "list", "tables").splitlines() if "sandboxio" in line)
    return state | {"main": main, "links": " ".join(links), "tables": tables}


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for what the kernel does on its own time: a namespace goes after its last process."""
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def wait_for(state: dict[str, str]) -> float:
    start = time.monotonic()
    while host_state() != state and time.monotonic() - start < 20:
        time.sleep(0.02)
    assert host_state() == state
    return time.monotonic() - start


def test_the_host_is_as_it_was_after_a_run() -> None:
    before = host_state()
    with HostCanary.start():
        during = host_state()
        assert during["links"] == "sbxc0"
        assert "sandboxio_contract" in during["tables"]
    assert host_state() == before


def test_only_single_addresses_are_routed_and_all_to_the_canary() -> None:
    with HostCanary.start() as canary:
        for family in ("-4", "-6"):
            for row in json.loads(told("ip", "-N", "-j", family, "rule")):
                assert row.get("protocol") != "77" or "dstlen" not in row
        routed = json.loads(told("ip", "-N", "-j", "route", "show", "table", "5353"))
        assert {row["dst"] for row in routed if row["dst"] != "default"} == set(canary.addresses.all4())
        assert [row["type"] for row in routed if row["dst"] == "default"] == ["6"]  # a blackhole
        main = json.loads(told("ip", "-j", "route"))
        assert all("/" not in row["dst"] for row in main if row.get("dev") == "sbxc0")


def test_a_killed_owner_leaves_a_clean_host() -> None:
    before = host_state()
    code = START + "os.kill(os.getpid(), signal.SIGKILL)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert wait_for(before) < 10
    with HostCanary.start():  # the lock is free again
        pass


def test_a_killed_owner_is_noticed_although_a_forked_child_holds_its_pipes() -> None:
    before = host_state()
    code = START + (
        "child = os.fork()\n"
        "if child: print(child, flush=True); os.kill(os.getpid(), signal.SIGKILL)\n"
        "os.close(1); time.sleep(30)"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=False, timeout=180)
    try:
        assert wait_for(before) < 10
    finally:
        os.kill(int(done.stdout.split()[-1]), signal.SIGKILL)


def test_a_killed_supervisor_leaves_the_host_fail_closed_until_cleanup() -> None:
    before = host_state()
    canary = HostCanary.start()
    address, server = canary.addresses.v4, canary.pid
    os.kill(server, signal.SIGKILL)
    with pytest.raises(NotProvable, match="supervisor is gone"):
        canary.witness()
    canary.close()
    wait_until(lambda: "dev" not in told("ip", "route", "get", address))  # nowhere, not the uplink
    assert "address4-off-link" in told("nft", "list", "table", "inet", "sandboxio_contract")
    wait_until(cleanup)  # what the supervisor had started holds the lock until it notices
    assert host_state() == before
    assert cleanup()  # a second time does nothing


def test_the_next_run_replaces_what_a_killed_one_left() -> None:
    before = host_state()
    first = HostCanary.start()
    os.kill(first.pid, signal.SIGKILL)
    first.close()
    with HostCanary.start() as second:
        assert first.addresses.v4 not in told("ip", "rule")
        assert second.addresses.v4 in told("ip", "rule")
    assert host_state() == before


def test_cleanup_and_a_second_run_wait_for_a_live_one() -> None:
    with HostCanary.start() as canary:
        assert not cleanup()
        with pytest.raises(NotProvable, match="another run") as raised:
            HostCanary.start(wait=0.1)
        assert raised.value.code == "busy"
        assert canary.witness().drops


# A machine of its own with an uplink of its own: should the guard fail, what it lets through ends at the other end of a cable.
PRIVATE_HOST = """
link set lo up
link add cable type veth peer name far
link set cable up
link set far up
link add link cable name eth0 type macvlan
link set eth0 up
address add 192.0.2.2/24 dev eth0
neighbour add 192.0.2.1 lladdr 02:00:00:00:00:01 dev eth0
route add default via 192.0.2.1
"""
LEAK = """
import socket, struct, subprocess, sys
from sandboxio_contract.network import HostCanary, guard, tokens
far = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)); far.bind(("far", 3)); far.setblocking(False)
socket.socket(socket.AF_PACKET, socket.SOCK_RAW).sendto(bytes(12) + b"\\x88\\xb5 control" + bytes(40), ("eth0", 0))
assert b"control" in far.recv(65536)  # the cable is sound: what is not stopped arrives
with HostCanary.start() as canary:
    address, before = canary.addresses.v4, canary.witness().drops
    # The way to the canary is taken away under the guard: packets now head for the host's default route.
    subprocess.run(["ip", "rule", "delete", "pref", "90", "to", address, "lookup", "5353"], check=True)
    assert "eth0" in subprocess.run(["ip", "route", "get", address], capture_output=True, text=True).stdout
    try:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (address, 443))
    except PermissionError:
        pass
    wire = socket.inet_aton(address)
    ethernet = bytes.fromhex("020000000001 020000000002 0800")
    name = bytes(12) + tokens.question("0" * 16, "x").encode().join([bytes([29]), bytes(5)])
    for protocol, target, body in (
        (17, wire, bytes(8)),
        (17, socket.inet_aton("192.0.2.1"), struct.pack(">HHHH", 999, 53, 8 + len(name), 0) + name),
        (6, socket.inet_aton("192.0.2.1"), struct.pack(">HHIIBBHHHH", 999, 53, 1, 1, 80, 24, 999, 0, 0, len(name)) + name),
    ):
        head = struct.pack(">BBHHHBBH4s4s", 69, 0, 20 + len(body), 0, 0, 64, protocol, 0, bytes([192, 0, 2, 2]), target)
        try:
            socket.socket(socket.AF_PACKET, socket.SOCK_RAW).sendto(ethernet + head + body, ("eth0", 0))
        except OSError:
            pass
    after = canary.witness().drops
    print({name: after[name] - before[name] for name in after if after[name] != before[name]})
leaked = 0
while True:
    try:
        packet = far.recv(65536)
        leaked += wire in packet or b"sbxcanary" in packet
    except BlockingIOError:
        break
print(leaked)
"""


WITHOUT_IPV6 = """
from sandboxio_contract.network import HostCanary
with HostCanary.start() as canary:
    checks = canary.checks()
    print(sorted(set(checks.missing.values())), "tcp6-80" in checks.missing, [one.name for one in checks if "6" in one.name])
"""


def in_a_private_host(code: str, before: str = "true") -> "subprocess.CompletedProcess[str]":
    script = f"{before} && ip -batch - <<'END' && exec {sys.executable} -c \"$CODE\"\n{PRIVATE_HOST}END\n"
    return subprocess.run(
        ["unshare", "--net", "sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        env={**os.environ, "CODE": code},
    )


def test_a_host_without_ipv6_lists_what_it_cannot_show() -> None:
    done = in_a_private_host(WITHOUT_IPV6, "sysctl -qw net.ipv6.conf.all.disable_ipv6=1")
    assert done.stdout == "['IPv6 is turned off on this host'] True []\n", done.stderr


def test_the_guard_stops_what_would_leave_and_counts_it() -> None:
    done = in_a_private_host(LEAK)
    drops, leaked = done.stdout.splitlines() or (done.stderr, "")
    # One by way of the routes; three from a packet socket (address, name over UDP and TCP), which passes only the uplink's.
    assert (drops, leaked) == ("{'address_off_link': 1, 'uplink': 3}", "0"), done.stderr


def test_a_guard_that_is_not_there_when_read_back_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(argv: list[str], script: str = "") -> str:
        return ""

    monkeypatch.setattr(guard, "run", nothing)
    plan = guard.GuardPlan(choose_addresses(HostNetworks((), (), (), ())), 25_000, (), ())
    with pytest.raises(NotProvable, match="read back without") as raised:
        guard.install(plan)
    assert raised.value.code == "guard"


def test_a_guard_that_someone_removes_is_noticed_by_the_witness() -> None:
    with HostCanary.start() as canary:
        told("nft", "delete", "table", "inet", "sandboxio_contract")
        with pytest.raises(NotProvable, match="guard is gone"):
            canary.witness()


def test_an_address_that_would_go_elsewhere_is_refused() -> None:
    with pytest.raises(NotProvable, match="would leave by lo") as raised:
        routes.verify(_only("127.0.0.1"), ipv6=False)
    assert raised.value.code == "routes"


def _only(address: str) -> taken.CanaryAddresses:
    return taken.CanaryAddresses(address, "::1", ("127.0.0.2", "127.0.0.3"), None, ())


def test_settings_are_remembered_before_anything_changes_them() -> None:
    with HostCanary.start():
        saved = json.loads(Path("/run/sandboxio-contract/settings.json").read_text())
    assert "/proc/sys/net/ipv6/conf/all/forwarding" in saved
    assert not Path("/run/sandboxio-contract/settings.json").exists()
