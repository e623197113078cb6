"""Networks of a sandbox's own: their rules as text, and whether this machine can have them. The contract proves that they hold."""

import subprocess
from pathlib import Path

import pytest
from sandboxio_bubblewrap import network

NFT = network.tool("nft")


def test_addresses_that_are_covered_are_listed_once() -> None:
    listed = ("198.51.100.7", "198.51.100.0/25", "198.51.100.128/25", "192.0.2.1/32")
    assert network.collapsed(listed) == ["192.0.2.1", "198.51.100.0/24"]


def test_two_networks_have_different_names_and_addresses_that_no_route_covers() -> None:
    one, two = network.chosen(None), network.chosen(("192.0.2.1",))
    assert len({one["link"], two["link"], one["table"], two["table"]}) == 4
    assert not {one["inside"], one["outside"]} & {two["inside"], two["outside"]}
    assert len(one["link"]) <= 15
    assert (one["allow"], two["allow"]) == (None, ["192.0.2.1"])


@pytest.mark.parametrize("allow", [None, ("192.0.2.0/24", "198.51.100.7"), ("169.254.169.254",)])
@pytest.mark.skipif(NFT is None, reason="there is no nft program")
def test_the_rules_are_what_nftables_takes(allow: tuple[str, ...] | None) -> None:
    text = network.rules(network.chosen(allow))
    done = subprocess.run([str(NFT), "--check", "-f", "-"], input=text, capture_output=True, text=True, check=False)
    if "Operation not permitted" in done.stderr:
        pytest.skip("only root may ask nftables")
    assert done.returncode == 0, done.stderr


def test_link_local_addresses_are_refused_unless_they_are_listed() -> None:
    refused = f"ip daddr {network.LINK_LOCAL} jump refuse"
    assert refused in network.rules(network.chosen(None))
    assert refused in network.rules(network.chosen(("192.0.2.1",)))
    assert refused not in network.rules(network.chosen(("169.254.169.254",)))


def test_only_root_of_the_machine_can_have_one() -> None:
    reason, fix = network.missing(is_root=False) or ("", "")
    assert "root" in reason
    assert fix


def test_a_program_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_: str) -> None:
        return None

    monkeypatch.setattr(network, "tool", nothing)
    reason, fix = network.missing(is_root=True) or ("", "")
    assert "ip and no nft" in reason
    assert "nftables" in fix


def test_resolvers_on_this_machine_are_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = "nameserver 127.0.0.53\nnameserver ::1\nnameserver 192.0.2.53\noptions edns0\n"

    def read(path: Path, **_: object) -> str:
        if str(path) == "/etc/resolv.conf":
            return text
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", read)
    assert network.resolvers() == ["192.0.2.53"]
