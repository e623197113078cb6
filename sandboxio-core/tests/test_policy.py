"""What a caller asks for: caps and network."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from sandboxio import ConfigurationError, NetworkPolicy, Resources


@pytest.mark.parametrize("field", ["cpu", "memory_mb", "disk_mb", "pids"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "1", True, b"1", [1]])
def test_a_cap_that_caps_nothing_is_refused(field: str, value: Any) -> None:
    """CAP-02."""
    with pytest.raises(ConfigurationError, match=field):
        Resources(**{field: value})


@pytest.mark.parametrize(
    ("field", "value"), [("disk_mb", 2**20 + 1), ("pids", 32_769), ("memory_mb", 1.5), ("gpu", "")]
)
def test_a_cap_out_of_range_is_refused(field: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=field):
        Resources(**{field: value})


def test_an_unknown_field_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="memory"):
        Resources(memory=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_values_are_compared_by_value_and_frozen() -> None:
    assert Resources() == Resources(cpu=None)
    assert NetworkPolicy(allow=("A.test",)) == NetworkPolicy(allow=("a.test.",))
    assert hash(Resources(cpu=1)) == hash(Resources(cpu=1.0))
    assert Resources().is_default
    assert not Resources(pids=5).is_default
    with pytest.raises(ValidationError):
        Resources().cpu = 5  # pyright: ignore[reportAttributeAccessIssue]


def test_nothing_is_reachable_by_default() -> None:
    """NET-01."""
    policy = NetworkPolicy()
    assert (policy.egress, policy.allow, policy.ingress_ports, policy.min_strength) == ("deny", (), (), "sni")


@pytest.mark.parametrize("egress", ["allow", "learn"])
def test_a_list_that_would_do_nothing_is_a_contradiction(egress: Any) -> None:
    """NET-04, NET-14."""
    with pytest.raises(ConfigurationError, match="contradicts"):
        NetworkPolicy(egress=egress, allow=("api.x.com",))


@pytest.mark.parametrize(
    "entry",
    [
        "0.0.0.0/0", "::/0", "http://a.test", "https://a.test/x", "a.test/path", "a.test:443", "1.2.3.4:80", "[::1]:80",
        "", " ", "*", "*.", "*.com", "**.a.test", "a.*.test", "a b.test", "a..test", ".a.test", "-a.test", "a-.test",
        "a.test-", "1.2.3", "1.2.3.256", "01.2.3.4", "1.2.3.4.", "0x7f000001", "0x7f.0.0.1", "a.0x1", "127.1",
        "10.0.0.1/8", "10.0.0.0/33", "2001:db8::1/32", "fe80::1%eth0", "[::1", "::1]", "a" * 64 + ".test",
        "a." * 130 + "test", "x" * 100_000, "a.test\0", "\ud800.test", "a.test..", "１２７.0.0.1", 5, None, b"a.test",
    ],
)  # fmt: skip
def test_an_entry_that_is_no_host_address_or_network_is_refused(entry: str) -> None:
    """NET-14."""
    with pytest.raises(ConfigurationError, match="allow"):
        NetworkPolicy(allow=(entry,))


@pytest.mark.parametrize(
    "entries", [("0.0.0.0/1", "128.0.0.0/1"), ("::/1", "8000::/1"), ("0.0.0.0/1", "128.0.0.0/2", "192.0.0.0/2")]
)
def test_networks_that_open_everything_together_are_no_allowlist(entries: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError, match="everything"):
        NetworkPolicy(allow=entries)


@pytest.mark.parametrize(
    ("entry", "form"),
    [
        ("API.Example.COM", "api.example.com"),
        ("api.example.com.", "api.example.com"),
        (" api.example.com\n", "api.example.com"),
        ("*.Example.com", "*.example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("localhost", "localhost"),
        ("_dmarc.example.com", "_dmarc.example.com"),
        ("1.2.3.4", "1.2.3.4"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("2001:DB8::0001", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("2001:db8::/32", "2001:db8::/32"),
    ],
)
def test_an_entry_has_one_form(entry: str, form: str) -> None:
    assert NetworkPolicy(allow=(entry,)).allow == (form,)


def test_doubled_entries_are_one() -> None:
    assert NetworkPolicy(allow=["a.test", "A.test."]).allow == ("a.test",)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("allow", ["a.test", {"a.test"}, None, 5])
def test_allow_is_a_tuple_and_no_single_text(allow: Any) -> None:
    with pytest.raises(ConfigurationError, match="allow"):
        NetworkPolicy(allow=allow)


@pytest.mark.parametrize("port", [0, -1, 65_536, True, "80", 1.5])
def test_a_port_is_a_port(port: int) -> None:
    with pytest.raises(ConfigurationError, match="ingress_ports"):
        NetworkPolicy(ingress_ports=(port,))


@pytest.mark.parametrize("value", ["Deny", "none", None, 5])
def test_egress_and_strength_are_closed_lists(value: Any) -> None:
    for field in ("egress", "min_strength"):
        with pytest.raises(ConfigurationError, match=field):
            NetworkPolicy(**{field: value})


@given(st.text() | st.from_regex(r"[a-z0-9.*:/\[\]-]{1,30}", fullmatch=True))
def test_any_entry_is_normalised_once_or_a_configuration_error(entry: str) -> None:
    try:
        (form,) = NetworkPolicy(allow=(entry,)).allow
    except ConfigurationError:
        return
    assert NetworkPolicy(allow=(form,)).allow == (form,)
    assert form.isascii()
    assert not set(form) & set(" \t\n%@#?=&'\"\\")
