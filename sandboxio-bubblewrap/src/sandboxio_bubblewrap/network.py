"""A network of a sandbox's own that reaches the outside: a link to this machine, which forwards and hides, behind rules.

Only root of the whole machine can have it: the rules stand on this side of the link, out of the sandbox's reach, in a table of its
own that goes with it. Nothing of the machine's own settings is changed. Standard library only: the warden's process uses it, too.
"""

import ipaddress
import os
import secrets
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

PREFIX = "bwx"
"""How the names of links on this machine begin."""
POOL = ipaddress.IPv4Network("100.64.0.0/10")
"""Shared address space, which is no public network's; of it each sandbox has two addresses that no route here covers."""
TOOLS = ("ip", "nft", "nsenter")
ANSWER = 10.0
LINK_LOCAL = "169.254.0.0/16"
"""Where clouds have their metadata address; nothing of it is ever behind a router."""

Network = dict[str, Any]
"""``link`` and ``table`` (names), ``outside`` and ``inside`` (addresses), ``allow`` (addresses and networks; ``None`` = all)."""


class NetworkFailed(Exception):
    """A network of a sandbox's own could not be made; the text is the tool's."""


def tool(name: str) -> str | None:
    """Return where a program of this machine is, also below the directories that only root has in its path."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin:/usr/bin:/bin")


def missing(*, is_root: bool) -> tuple[str, str] | None:
    """Return why no sandbox here can have a network of its own, and what to do about it; reads only."""
    if not is_root:
        return "only root can give a sandbox a network of its own here", "run as root, use Docker"
    absent = [name for name in TOOLS if tool(name) is None]
    if absent:
        return f"there is no {' and no '.join(absent)} program", "apt install iproute2 nftables util-linux"
    if Path("/proc/sys/net/ipv4/ip_forward").read_text(encoding="ascii").strip() != "1":
        return "this machine forwards nothing", "as root: sysctl net.ipv4.ip_forward=1"
    chain = _run(["nft", "list", "chain", "ip", "filter", "FORWARD"])
    if "policy drop" in chain.stdout and f'iifname "{PREFIX}*"' not in chain.stdout:
        fix = f"as root: iptables -I FORWARD -i {PREFIX}+ -j ACCEPT; iptables -I FORWARD -o {PREFIX}+ -j ACCEPT"
        return "this machine's firewall drops what is forwarded (Docker has it do so)", fix
    return None


def chosen(allow: Iterable[str] | None) -> Network:
    """Return a network to make, with addresses that no route of this machine covers."""
    taken = _routes()
    while True:
        first = POOL[2 * secrets.randbelow(POOL.num_addresses // 2)]
        if not any(first in one for one in taken):
            break
    word = secrets.token_hex(5)
    listed = None if allow is None else collapsed(allow)
    return {
        "link": f"{PREFIX}{word}",
        "table": f"sandboxio_{word}",
        "outside": str(first),
        "inside": str(first + 1),
        "allow": listed,
    }


def collapsed(allow: Iterable[str]) -> list[str]:
    """Return the fewest networks that are the same, as nftables writes them."""
    found = ipaddress.collapse_addresses(ipaddress.IPv4Network(one) for one in allow)
    return [str(one.network_address) if one.prefixlen == one.max_prefixlen else str(one) for one in found]


def _routes() -> list[ipaddress.IPv4Network]:
    found: list[ipaddress.IPv4Network] = []
    for line in Path("/proc/self/net/route").read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        place, mask = (socket.inet_ntoa(struct.pack("=I", int(fields[index], 16))) for index in (1, 7))
        network = ipaddress.IPv4Network(f"{place}/{mask}")
        if network.prefixlen:
            found.append(network)
    return found


def rules(network: Network) -> str:
    """Return the table: the outside and nothing of this machine, its other sandboxes or its link-local neighbours."""
    link, allow = network["link"], network["allow"]
    listed = [] if allow is None else [f"iifname {link} ip daddr != {{ {', '.join(allow)} }} jump refuse"]
    if allow is not None and not allow:
        listed = [f"iifname {link} jump refuse"]
    near = (
        [] if allow and any(_overlaps(one) for one in allow) else [f"iifname {link} ip daddr {LINK_LOCAL} jump refuse"]
    )
    lines = [
        f"iifname {link} meta nfproto ipv6 drop",
        f'iifname {link} oifname "{PREFIX}*" jump refuse',
        *near,
        *listed,
        f"oifname {link} ct state established,related accept",
        f"oifname {link} drop",
    ]
    return (
        f"table inet {network['table']} {{\n"
        # An unreachable TCP port takes IPv6 a second to be told of by ICMP; a reset is told at once.
        "chain refuse { meta l4proto tcp reject with tcp reset; reject; }\n"
        f"chain forward {{ type filter hook forward priority -5; policy accept; {'; '.join(lines)}; }}\n"
        f"chain input {{ type filter hook input priority -5; policy accept; iifname {link} jump refuse; }}\n"
        f"chain postrouting {{ type nat hook postrouting priority 100; ip saddr {network['inside']} oifname != {link} masquerade; }}\n"
        "}\n"
    )


def _overlaps(entry: str) -> bool:
    return ipaddress.IPv4Network(entry).overlaps(ipaddress.IPv4Network(LINK_LOCAL))


def attach(network: Network, pid: int) -> None:
    """Link the network namespace of a process; the rules first.

    :raises NetworkFailed: it could not be; what was made goes with `detach` and with the namespace.
    """
    link, outside, inside = network["link"], network["outside"], network["inside"]
    _must(["nft", "-f", "-"], rules(network))
    here = [
        f"link add {link} type veth peer name eth0 netns {pid}",
        f"link set {link} addrgenmode none",
        f"addr add {outside}/31 dev {link}",
        f"link set {link} up",
    ]
    there = [
        "link set eth0 addrgenmode none",
        f"addr add {inside}/31 dev eth0",
        "link set eth0 up",
        f"route add default via {outside}",
    ]
    _must(["ip", "-batch", "-"], "\n".join(here) + "\n")
    _must(["nsenter", "-t", str(pid), "-n", str(tool("ip")), "-batch", "-"], "\n".join(there) + "\n")


def detach(network: Network) -> None:
    """Remove the rules; the link went with the sandbox. What is gone is success."""
    _run(["nft", "delete", "table", "inet", network["table"]])


def holds(network: Network) -> bool:
    """Whether the rules are those that were made."""
    listed = _run(["nft", "-n", "list", "table", "inet", network["table"]]).stdout
    wanted = [
        f'iifname "{network["link"]}"',
        "type filter hook forward",
        "type filter hook input",
        *(network["allow"] or ()),
    ]
    return all(one in listed for one in wanted)


def resolvers() -> list[str]:
    """Return this machine's resolvers that a sandbox may reach: none that listens on the machine itself."""
    found: list[str] = []
    for path in ("/run/systemd/resolve/resolv.conf", "/etc/resolv.conf"):
        try:
            lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for word in (line.split()[1] for line in lines if line.startswith("nameserver") and len(line.split()) > 1):
            try:
                address = ipaddress.IPv4Address(word)
            except ValueError:
                continue
            if not address.is_loopback:
                found.append(word)
        if found:
            break
    return found


def _run(argv: Sequence[str], script: str = "") -> "subprocess.CompletedProcess[str]":
    program = tool(argv[0])
    if program is None:
        return subprocess.CompletedProcess(list(argv), 127, "", f"there is no {argv[0]}")
    try:
        return subprocess.run(
            [program, *argv[1:]], input=script, capture_output=True, text=True, timeout=ANSWER, check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(list(argv), 124, "", f"{argv[0]} did not answer within {ANSWER:g} s")


def _must(argv: Sequence[str], script: str) -> None:
    done = _run(argv, script)
    if done.returncode != 0:
        message = f"{argv[0]}: {done.stderr.strip() or done.returncode}"
        raise NetworkFailed(message)
