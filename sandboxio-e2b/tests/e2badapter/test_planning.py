"""What is sent, and what is refused before anything is."""

from typing import Any

import pytest
from sandboxio import (
    Absent,
    CapabilityNotSupported,
    ConfigurationError,
    Enforcement,
    IsolationTier,
    NetworkPolicy,
    Resources,
)
from sandboxio.planning import ITEMS
from sandboxio_e2b import E2BConfig

from .specs import plan

ALL = "0.0.0.0/0"
NOBODY_COMES_IN = {"allow_public_traffic": False}


def test_every_default_that_is_unsafe_is_said() -> None:
    assert plan(timeout=1.5, metadata={"tenant_id": "a"}).parameters == {
        "template": "base",
        "timeout": 2,
        "metadata": {"tenant_id": "a", "sandboxio_managed": "true", "sandboxio_create": "sbx-0123456789"},
        "lifecycle": {"on_timeout": "kill", "auto_resume": False},
        "idempotency_key": "sbx-0123456789",
        "allow_internet_access": False,
        "network": {**NOBODY_COMES_IN, "deny_out": [ALL]},
    }


def test_open_egress_opens_nothing_else() -> None:
    sent = plan(network=NetworkPolicy(egress="allow")).parameters
    assert (sent["allow_internet_access"], sent["network"]) == (True, NOBODY_COMES_IN)


def test_an_allowlist_denies_all_else() -> None:
    sent = plan(network=NetworkPolicy(allow=("a.example", "198.51.100.0/24"))).parameters
    assert sent["network"] == {**NOBODY_COMES_IN, "deny_out": [ALL], "allow_out": ["a.example", "198.51.100.0/24"]}
    assert "allow_internet_access" not in sent  # false would deny what is listed, by E2B's word


@pytest.mark.parametrize("entries", [("198.51.100.7",), ("198.51.100.0/24", "203.0.113.5")])
def test_addresses_are_held_at_the_address_and_leak_no_questions(entries: tuple[str, ...]) -> None:
    item = plan(network=NetworkPolicy(allow=entries))["network.allow"]
    assert isinstance(item, Enforcement)
    assert (item.strength, item.residuals) == ("address", ())


def test_a_host_name_is_held_by_its_name_and_opens_a_resolver() -> None:
    item = plan(network=NetworkPolicy(allow=("198.51.100.7", "*.a.example")))["network.allow"]
    assert isinstance(item, Enforcement)
    assert item.strength == "sni"
    assert any("8.8.8.8" in text for text in item.residuals)
    assert any("TLS server name" in text for text in item.residuals)


@pytest.mark.parametrize("entry", ["2001:db8::/64", "10.1.2.3", "169.254.169.254", "192.168.0.0/16", "172.16.0.0/12"])
def test_what_e2b_would_not_let_through_is_refused(entry: str) -> None:
    with pytest.raises(CapabilityNotSupported):
        plan(network=NetworkPolicy(allow=(entry,)))


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"network": NetworkPolicy(ingress_ports=(80,))}, CapabilityNotSupported),
        ({"resources": Resources(gpu="A100")}, CapabilityNotSupported),
        ({"resources": Resources(cpu=1.0)}, ConfigurationError),
        ({"resources": Resources(pids=10)}, ConfigurationError),
        ({"metadata": {"sandboxio_create": "mine"}}, ConfigurationError),
        ({"metadata": {"": "x"}}, ConfigurationError),
        ({"metadata": {"a": "one\ntwo"}}, ConfigurationError),
        ({"metadata": {"a": "\ud800"}}, ConfigurationError),
        ({"env": {"no-shell's": "x"}}, ConfigurationError),
        ({"timeout": 86_401.0}, ConfigurationError),
    ],
)
def test_what_cannot_be_carried_is_refused(fields: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        plan(**fields)


def test_caps_are_the_templates_and_the_refusal_of_others_names_it() -> None:
    made = plan(template="mine")
    for policy, value in {"cpu": 2.0, "memory": 512, "disk": 10_240}.items():
        item = made[policy]
        assert isinstance(item, Enforcement)
        assert (item.requested, item.enforced_by) == (value, "template")
        assert "mine" in item.mechanism
    with pytest.raises(ConfigurationError, match="template: mine"):
        plan(template="mine", resources=Resources(memory_mb=1024))
    assert isinstance(made["pids"], Absent)


@pytest.mark.parametrize(
    ("config", "tier"),
    [
        (E2BConfig(), IsolationTier.MICROVM),
        (E2BConfig(domain="e2b.dev"), IsolationTier.MICROVM),
        (E2BConfig(domain="e2b.app.example"), IsolationTier.UNKNOWN),
        (E2BConfig(api_url="https://api.e2b.app"), IsolationTier.UNKNOWN),
        (E2BConfig(sandbox_url="http://127.0.0.1:1"), IsolationTier.UNKNOWN),
    ],
)
def test_a_tier_is_claimed_for_the_providers_own_servers_only(config: E2BConfig, tier: IsolationTier) -> None:
    made = plan(config)
    item = made["isolation"]
    assert isinstance(item, Enforcement)
    assert (made.tier, item.requested) == (tier, tier.value)


def test_every_item_is_answered_and_no_secret_is_sent() -> None:
    from pydantic import SecretStr

    made = plan(secrets={"TOKEN": SecretStr("hidden")}, env={"A": "plain"})
    assert sorted(item.policy for item in made.items) == sorted(ITEMS)
    assert "hidden" not in repr(made.parameters) + repr(made.items)
    assert "plain" not in repr(made.parameters)  # variables go with each command, too


@pytest.mark.parametrize(
    "wrong",
    [
        {"api_url": "http://api.example.com"},
        {"api_url": "https://user:hunter2@api.example.com"},
        {"sandbox_url": "ftp://x"},
        {"api_url": "https://api.example.com?x=1"},
        {"domain": "https://e2b.app"},
        {"domain": "e2b.app/x"},
    ],
)
def test_an_address_that_would_give_the_key_away_is_no_address(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError) as raised:
        E2BConfig(**wrong)  # type: ignore[arg-type]
    assert "hunter2" not in str(raised.value)
