import ipaddress
import random

import pytest
from sandboxio_contract.network import addresses, commands
from sandboxio_contract.network.addresses import RANGES4, HostNetworks, choose_addresses
from sandboxio_contract.network.reason import NotProvable


def host(*taken: str, local: tuple[str, ...] = (), resolvers: tuple[str, ...] = ()) -> HostNetworks:
    return HostNetworks(tuple(ipaddress.ip_network(one) for one in taken), local, (), resolvers)


@pytest.mark.parametrize("used", RANGES4)
def test_a_range_that_the_host_uses_is_left_alone(used: str) -> None:
    for seed in range(50):
        chosen = choose_addresses(host(used), random.Random(seed))
        assert ipaddress.ip_address(chosen.v4) not in ipaddress.ip_network(used)


def test_a_single_address_in_a_range_makes_all_of_it_taken() -> None:
    chosen = choose_addresses(host("203.0.113.9/32", "198.51.100.0/30"))
    assert ipaddress.ip_address(chosen.v4) in ipaddress.ip_network("192.0.2.0/24")


def test_a_shorter_prefix_over_a_range_makes_it_taken() -> None:
    chosen = choose_addresses(host("203.0.0.0/8"))
    assert ipaddress.ip_address(chosen.v4) in ipaddress.ip_network("198.51.100.0/24")


@pytest.mark.parametrize("taken", [RANGES4, ("2001:db8::1/128",)])
def test_none_free_is_a_typed_reason(taken: tuple[str, ...]) -> None:
    with pytest.raises(NotProvable, match="documentation range is free") as raised:
        choose_addresses(host(*taken))
    assert raised.value.code == "addresses"


def test_canary_and_link_ends_are_three_different_addresses() -> None:
    for seed in range(200):
        chosen = choose_addresses(host(), random.Random(seed))
        assert len({chosen.v4, *chosen.link4}) == 3


def test_what_the_host_relies_on_is_never_taken_over() -> None:
    chosen = choose_addresses(host(local=("169.254.169.254",), resolvers=("8.8.8.8",)))
    assert chosen.metadata is None
    assert "8.8.8.8" not in chosen.all4()
    assert "1.1.1.1" in chosen.all4()


def test_the_hosts_facts_are_read_from_links_routes_rules_and_resolvers(monkeypatch: pytest.MonkeyPatch) -> None:
    tables: dict[tuple[str, ...], list[dict[str, object]]] = {
        ("ip", "-j", "address"): [
            {"ifname": "eth0", "addr_info": [{"local": "192.0.2.2", "prefixlen": 24}]},
            {"ifname": "tun0", "addr_info": [{"local": "10.8.0.2", "prefixlen": 32, "address": "10.8.0.1"}]},
            {"ifname": "sbxc0", "addr_info": [{"local": "203.0.113.1", "prefixlen": 32}]},
        ],
        ("ip", "-N", "-j", "-4", "route", "show", "table", "all"): [
            {"dst": "default", "gateway": "192.0.2.1", "dev": "eth0"},
            {"dst": "0.0.0.0/1", "dev": "tun0"},
            {"dst": "198.51.100.0/28", "nexthops": [{"gateway": "192.0.2.9", "dev": "eth0"}]},
            {"dst": "203.0.113.7", "dev": "sbxc0", "table": "5353"},
        ],
        ("ip", "-N", "-j", "-4", "rule"): [
            {"priority": 90, "src": "all", "dst": "203.0.113.7", "protocol": "77", "table": "5353"},
            {"priority": 50, "src": "all", "dst": "172.30.0.0", "dstlen": 16, "table": "7"},
        ],
        ("ip", "-N", "-j", "-6", "route", "show", "table", "all"): [{"dst": "2000::/3", "via": {"host": "fe80::9"}}],
        ("ip", "-N", "-j", "-6", "rule"): [],
    }

    def rows(argv: list[str]) -> list[dict[str, object]]:
        return tables[tuple(argv)]

    monkeypatch.setattr(addresses, "rows", rows)
    monkeypatch.setattr(addresses, "rows_if_any", rows)
    monkeypatch.setattr(addresses, "RESOLVER_FILES", ())
    found = addresses.read_host()
    assert found.local == ("192.0.2.2", "10.8.0.2")
    assert found.gateways == ("192.0.2.1", "192.0.2.9", "fe80::9")
    assert not found.overlaps(ipaddress.ip_network("203.0.113.0/24"))  # an earlier run of the suite does not count
    assert found.overlaps(ipaddress.ip_network("198.51.100.0/24"))
    assert found.overlaps(ipaddress.ip_network("172.30.5.0/24"))
    assert not found.overlaps(ipaddress.ip_network("100.64.0.0/10"))  # a route for everything is a use of nothing
    assert not found.overlaps(ipaddress.ip_network("2001:db8::/32"))


def test_a_missing_tool_is_a_typed_reason() -> None:
    with pytest.raises(NotProvable, match="not installed") as raised:
        commands.run(["sandboxio-no-such-tool"])
    assert raised.value.code == "tool"
