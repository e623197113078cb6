"""Default-deny around the probes: no packet of a probe leaves the machine, also when the backend lies.

The guard matches by interface, not by what a well-behaved probe does: what an engine's bridge forwards may go to the
canary's link and nowhere else. On top of that nothing for a canary address, nothing with one of our names and nothing for
the suite's own port leaves by any other link. Each drop is counted, and a counter that moved is a witness. The guard is
read back before anything else happens; if that fails no probe is sent.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from sandboxio_contract.network.addresses import LINK, CanaryAddresses
from sandboxio_contract.network.commands import CommandFailed, attempt, rows, run
from sandboxio_contract.network.reason import NotProvable
from sandboxio_contract.network.tokens import MAGIC

TABLE = "sandboxio_contract"
FAMILIES = ("inet", "netdev")
# Counters that convict, and the one that only reports what other containers of the machine tried meanwhile.
WITNESSES = ("address_off_link", "name_off_link", "port_off_host", "multicast_off_host")
UPLINK = "uplink"
STRAY = "stray"
# The first label of the question, after UDP's and DNS's headers and the label's length.
_OURS = f"udp dport 53 @th,168,{len(MAGIC) * 8} 0x{MAGIC.encode().hex()}"
# Over TCP it follows the message's length and DNS's header; only kernels that know `@ih` can look there.
_OURS_TCP = f"tcp dport 53 @ih,120,{len(MAGIC) * 8} 0x{MAGIC.encode().hex()}"


@dataclass(frozen=True, slots=True)
class GuardPlan:
    """What the guard is made for: the run's addresses, the host's listening port, and the links that lead outside."""

    addresses: CanaryAddresses
    port: int
    uplinks: tuple[str, ...]
    uplink_bridges: tuple[str, ...]


def plan_guard(addresses: CanaryAddresses, port: int) -> GuardPlan:
    """Read the host's links and return the plan of the guard."""
    links = rows(["ip", "-j", "-d", "link", "show"])
    kinds = {str(link["ifname"]): _kind(link) for link in links}
    outside = tuple(name for name, kind in kinds.items() if kind not in ("bridge", "veth", "ifb", "loopback"))
    bridges = {str(link["master"]) for link in links if "master" in link and link["ifname"] in outside}
    return GuardPlan(addresses, port, outside, tuple(sorted(bridges)))


def _kind(link: dict[str, object]) -> str:
    if link.get("link_type") == "loopback":
        return "loopback"
    return str(cast("dict[str, object]", link.get("linkinfo", {})).get("info_kind", "physical"))


def install(plan: GuardPlan) -> bool:
    """Put the guard in place in one transaction, replacing an older one, and read it back.

    Returns whether the uplinks themselves are guarded too (kernels before 5.16 can't).

    :raises NotProvable: with code `guard`, if any part of it isn't there afterwards.
    """
    try:
        run(["nft", "-f", "-"], _replace("inet", _inet(plan)))
    except CommandFailed as error:
        raise NotProvable("guard", f"the guard could not be put in place: {error}") from error
    on_uplinks = bool(plan.uplinks) and attempt(["nft", "-f", "-"], _replace("netdev", _netdev(plan))).returncode == 0
    _read_back(plan, on_uplinks=on_uplinks)
    return on_uplinks


def remove() -> None:
    """Take the guard away; nothing happens if it isn't there."""
    for family in FAMILIES:
        attempt(["nft", "-f", "-"], f"table {family} {TABLE} {{ }}\ndelete table {family} {TABLE}\n")


def counters() -> dict[str, int]:
    """Return packets dropped so far, by counter.

    :raises NotProvable: with code `guard`, if the guard is gone.
    """
    found: dict[str, int] = {}
    for family in FAMILIES:
        done = attempt(["nft", "-j", "list", "counters", "table", family, TABLE])
        if done.returncode == 0:
            for item in _items(done.stdout, "counter"):
                found[str(item["name"])] = int(cast("int", item["packets"]))
    if not {*WITNESSES, STRAY} <= set(found):
        raise NotProvable("guard", "the guard is gone: something removed its table during the run")
    return found


def _replace(family: str, body: str) -> str:
    return f"table {family} {TABLE} {{ }}\ndelete table {family} {TABLE}\ntable {family} {TABLE} {{\n{body}}}\n"


def _sets(addresses: CanaryAddresses) -> str:
    return (
        f"set canary4 {{ type ipv4_addr; elements = {{ {', '.join(addresses.all4())} }}; }}\n"
        f"set canary6 {{ type ipv6_addr; elements = {{ {', '.join(addresses.all6())} }}; }}\n"
    )


def _inet(plan: GuardPlan) -> str:
    """Return the table's body.

    A link without a kind (a network card) makes `oifkind` fail to match whatever it is compared with, so kinds are only
    ever used to let through, and the drop that follows matches everything.
    """
    bridges = f"elements = {{ {', '.join(plan.uplink_bridges)} }};" if plan.uplink_bridges else ""
    target4, target6 = plan.addresses.v4, plan.addresses.v6
    counted = "".join(f"counter {name} {{ }}\n" for name in (*WITNESSES, STRAY))
    return f"""{counted}{_sets(plan.addresses)}
set uplink_bridges {{ type ifname; {bridges} }}
chain local_links {{
    oifname "lo" return comment "local-loopback"
    meta oifkind {{ "bridge", "veth" }} oifname != @uplink_bridges return comment "local-containers"
    meta l4proto tcp counter name port_off_host drop comment "port-off-host"
    counter name multicast_off_host drop comment "multicast-off-host"
}}
chain listener_links {{
    iifname "lo" return comment "listener-loopback"
    meta iifkind {{ "bridge", "veth" }} iifname != @uplink_bridges return comment "listener-containers"
    drop comment "listener-outside"
}}
chain forwarding {{ type filter hook forward priority -300; policy accept;
    oifname "{LINK}" accept comment "to-canary"
    iifname "{LINK}" ct state established,related accept comment "answers"
    iifname "{LINK}" counter name stray drop comment "from-canary"
    meta oifkind "bridge" oifname != @uplink_bridges accept comment "between-containers"
    meta iifkind {{ "bridge", "veth", "macvlan", "ipvlan" }} counter name stray drop comment "default-deny"
}}
chain leaving {{ type filter hook postrouting priority 300; policy accept;
    oifname "{LINK}" accept comment "leaving-to-canary"
    ip daddr @canary4 counter name address_off_link drop comment "address4-off-link"
    ip6 daddr @canary6 counter name address_off_link drop comment "address6-off-link"
    {_OURS} counter name name_off_link drop comment "name-off-link"
    tcp dport {plan.port} jump local_links comment "port-tcp"
    udp dport {plan.port} jump local_links comment "port-udp"
}}
chain arriving {{ type filter hook input priority -300; policy accept;
    {_OURS} counter name name_off_link drop comment "name-to-host"
    tcp dport {plan.port} jump listener_links comment "listener-tcp"
    udp dport {plan.port} jump listener_links comment "listener-udp"
}}
chain names_forwarded {{ type nat hook prerouting priority -110; policy accept;
    meta nfproto ipv4 {_OURS} dnat ip to {target4} comment "names4-forwarded"
    meta nfproto ipv6 {_OURS} dnat ip6 to {target6} comment "names6-forwarded"
}}
chain names_local {{ type nat hook output priority -110; policy accept;
    meta nfproto ipv4 {_OURS} dnat ip to {target4} comment "names4-local"
    meta nfproto ipv6 {_OURS} dnat ip6 to {target6} comment "names6-local"
}}
chain loopback_sources {{ type nat hook postrouting priority 90; policy accept;
    oifname "{LINK}" ip saddr 127.0.0.0/8 masquerade comment "loopback-sources"
}}
"""


def _netdev(plan: GuardPlan) -> str:
    """Return the body for the uplinks: a macvlan or a packet socket never passes the other hooks."""
    devices = ", ".join(f'"{name}"' for name in plan.uplinks)
    return f"""counter {UPLINK} {{ }}
{_sets(plan.addresses)}chain uplinks {{ type filter hook egress devices = {{ {devices} }} priority 0; policy accept;
    ip daddr @canary4 counter name {UPLINK} drop comment "uplink-address4"
    ip6 daddr @canary6 counter name {UPLINK} drop comment "uplink-address6"
    {_OURS} counter name {UPLINK} drop comment "uplink-name"
    {_OURS_TCP} counter name {UPLINK} drop comment "uplink-name-tcp"
    ip6 daddr ff02::1 udp dport {plan.port} counter name {UPLINK} drop comment "uplink-multicast"
}}
"""


def _read_back(plan: GuardPlan, *, on_uplinks: bool) -> None:
    wanted = {("inet", one) for one in _comments(_inet(plan))}
    if on_uplinks:
        wanted |= {("netdev", one) for one in _comments(_netdev(plan))}
    text = "".join(attempt(["nft", "-j", "list", "table", family, TABLE]).stdout + "\n" for family in FAMILIES)
    rules = {(str(rule["family"]), str(rule.get("comment", ""))) for rule in _items(text, "rule")}
    members = [str(one) for item in _items(text, "set") for one in cast("list[object]", item.get("elem", []))]
    hooks = {str(chain["name"]) for chain in _items(text, "chain") if "hook" in chain}
    missing = [f"{family} {name}" for family, name in sorted(wanted - rules)]
    missing += [one for one in (*plan.addresses.all4(), *plan.addresses.all6()) if one not in members]
    missing += [f"hook of {name}" for name in _hooked(_inet(plan)) if name not in hooks]
    if missing:
        raise NotProvable("guard", f"the guard read back without {', '.join(missing)}")


def _comments(body: str) -> Iterator[str]:
    for line in body.splitlines():
        if 'comment "' in line:
            yield line.rsplit('comment "', 1)[1].rstrip('"')


def _hooked(body: str) -> Iterator[str]:
    for line in body.splitlines():
        if line.startswith("chain ") and " hook " in line:
            yield line.split()[1]


def _items(text: str, kind: str) -> Sequence[dict[str, object]]:
    found: list[dict[str, object]] = []
    for line in text.splitlines():
        if line.strip():
            listing = cast("dict[str, list[dict[str, dict[str, object]]]]", json.loads(line))
            found.extend(entry[kind] for entry in listing.get("nftables", []) if kind in entry)
    return found
