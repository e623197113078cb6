"""Plans: pure, complete, and refused with the fix where something can't be held."""

import pytest
from sandboxio.coverage import check_plan
from sandboxio.errors import BackendUnavailable, CapabilityNotSupported, ConfigurationError, SandboxError
from sandboxio.planning import ITEMS, Enforcement
from sandboxio.policy import NetworkPolicy, Resources
from sandboxio.port import Facts
from sandboxio.spec import SandboxSpec
from sandboxio_bubblewrap import syscalls
from sandboxio_bubblewrap.cgroups import Homeless
from sandboxio_bubblewrap.info import BASELINE
from sandboxio_bubblewrap.planning import make_plan

from .specs import found, spec_of


@pytest.mark.parametrize("facts", [BASELINE, found()], ids=["offline", "probed"])
def test_every_policy_has_a_receipt_with_a_dated_source(facts: Facts) -> None:
    spec = spec_of(metadata={"tenant_id": "a"}, secrets={"TOKEN": "long enough"})
    plan = make_plan(spec, facts)
    check_plan(plan, spec)
    assert {item.policy for item in plan.items} == set(ITEMS)
    assert all("2026-" in item.source for item in plan.enforcements())


def test_defaults_are_modest_and_concrete() -> None:
    plan = make_plan(spec_of(), found())
    assert {name: plan.cap(name) for name in ("cpu", "memory_mb", "disk_mb", "pids")} == {
        "cpu": 1.0,
        "memory_mb": 512,
        "disk_mb": 256,
        "pids": 256,
    }


@pytest.mark.parametrize(
    ("resources", "hint"),
    [
        (Resources(disk_mb=257), "disk_mb=256"),
        (Resources(memory_mb=128, disk_mb=65), "memory_mb=130"),
        (Resources(cpu=0.1234567), "cpu=0.12346"),
        (Resources(cpu=5.0), "at most 4"),
        (Resources(memory_mb=16), "32 or more"),
        (Resources(pids=4), "16 or more"),
    ],
)
def test_a_cap_that_can_not_be_set_as_asked_is_refused_with_one_that_can(resources: Resources, hint: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        make_plan(spec_of(resources=resources), found())
    assert hint in str(refused.value.hint)


def test_a_small_memory_lowers_the_default_of_the_disk() -> None:
    assert make_plan(spec_of(resources=Resources(memory_mb=128)), found()).cap("disk_mb") == 64


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (spec_of(network=NetworkPolicy(egress="learn")), CapabilityNotSupported),
        (spec_of(network=NetworkPolicy(allow=("pypi.test",))), CapabilityNotSupported),
        (spec_of(network=NetworkPolicy(allow=("198.51.100.7", "*.pypi.test"))), CapabilityNotSupported),
        (spec_of(network=NetworkPolicy(allow=("2001:db8::/64",))), CapabilityNotSupported),
        (spec_of(network=NetworkPolicy(ingress_ports=(80,))), CapabilityNotSupported),
        (spec_of(resources=Resources(gpu="any")), CapabilityNotSupported),
        (spec_of(metadata={"key": "\udc80"}), ConfigurationError),
        (spec_of(metadata={"key": "x" * 300_000}), ConfigurationError),
    ],
)
def test_what_is_not_offered_is_refused_offline_with_the_fix(spec: SandboxSpec, error: type[SandboxError]) -> None:
    with pytest.raises(error) as refused:
        make_plan(spec, BASELINE)
    assert refused.value.hint


def test_sharing_the_network_is_asked_for_and_named() -> None:
    facts = found(unlinked=("only root can", "run as root"))
    network = NetworkPolicy(egress="allow")
    with pytest.raises(CapabilityNotSupported, match="only root can") as refused:
        make_plan(spec_of(network=network), facts)
    assert "run as root" in str(refused.value.hint)
    assert "share_network=1" in str(refused.value.hint)
    item = make_plan(spec_of(network=network, share_network=True), facts)["network.egress"]
    assert isinstance(item, Enforcement)
    assert "loopback" in item.residuals[0]
    with pytest.raises(CapabilityNotSupported) as refused:  # what is shared can't be filtered
        make_plan(spec_of(network=NetworkPolicy(allow=("198.51.100.7",)), share_network=True), facts)
    assert "share_network" not in str(refused.value.hint)


def test_an_allowlist_of_addresses_is_filtered_by_address() -> None:
    network = NetworkPolicy(allow=("198.51.100.7", "198.51.100.0/25"))
    spec = spec_of(network=network)
    plan = make_plan(spec, found())
    check_plan(plan, spec)
    item = plan["network.allow"]
    assert isinstance(item, Enforcement)
    assert (item.requested, item.strength) == (network.allow, "address")
    strict = spec_of(network=NetworkPolicy(allow=network.allow, min_strength="interface"))
    plan = make_plan(strict, found())
    with pytest.raises(CapabilityNotSupported, match="strength"):
        check_plan(plan, strict)


@pytest.mark.parametrize(
    "facts",
    [found(Homeless("there is none", "mkdir it")), found(blocked=("no user namespaces", "sysctl them"))],
    ids=["no control group", "no user namespaces"],
)
def test_a_machine_that_can_hold_no_cap_or_namespace_makes_nothing(facts: Facts) -> None:
    with pytest.raises(BackendUnavailable) as refused:
        make_plan(spec_of(), facts)
    assert refused.value.hint in ("mkdir it", "sysctl them")


def test_a_processor_without_a_filter_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syscalls, "machine", lambda: "riscv64")
    with pytest.raises(CapabilityNotSupported, match="riscv64"):
        make_plan(spec_of(), BASELINE)
