"""No receipt, no sandbox."""

import asyncio
import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import sandboxio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sandboxio import (
    Absent,
    CapabilityNotSupported,
    ConfigurationError,
    Enforcement,
    IsolationTier,
    NetworkPolicy,
    Plan,
    PolicyNotEnforced,
    Resources,
    UnverifiedIsolationWarning,
    WeakEnforcementWarning,
)
from sandboxio.planning import ITEMS, Receipt

from .stub import StubBackend, registered

pytestmark = pytest.mark.anyio

NEVER_ABSENT = ("network.egress", "cpu", "memory", "memory.swap", "disk", "lifetime", "labels", "isolation")
MAY_BE_ABSENT = tuple(item for item in ITEMS if item not in NEVER_ABSENT)


def without(policy: str) -> Callable[[Plan], Plan]:
    return lambda plan: replace(plan, items=tuple(item for item in plan.items if item.policy != policy))


def absent(policy: str) -> Callable[[Plan], Plan]:
    return changing(policy, lambda item: Absent(policy, "no control"))


def answering(policy: str, value: object) -> Callable[[Plan], Plan]:
    return changing(policy, lambda item: Enforcement(policy, value, "a lie", "provider", "attested", "interface"))


def changing(policy: str, change: Callable[[Receipt], Receipt]) -> Callable[[Plan], Plan]:
    return lambda plan: replace(
        plan, items=tuple(change(item) if item.policy == policy else item for item in plan.items)
    )


def enforcing(policy: str, **changes: Any) -> Callable[[Plan], Plan]:
    def change(item: Receipt) -> Receipt:
        assert isinstance(item, Enforcement)
        return replace(item, **changes)

    return changing(policy, change)


async def assert_refused(stub: StubBackend, error: type[Exception], **arguments: Any) -> None:
    with pytest.raises(error):
        await sandboxio.create(f"{stub.info.name}://", **arguments)
    assert stub.calls == [], "it was refused after something had been sent"
    with pytest.raises(error):
        await sandboxio.plan(f"{stub.info.name}://", **arguments)


@pytest.mark.parametrize("policy", ITEMS)
async def test_an_item_left_out_is_refused(stub: StubBackend, policy: str) -> None:
    stub.change_plan = without(policy)
    await assert_refused(stub, PolicyNotEnforced)


@pytest.mark.parametrize("policy", ITEMS)
async def test_an_item_answered_twice_is_refused(stub: StubBackend, policy: str) -> None:
    stub.change_plan = lambda plan: replace(plan, items=(*plan.items, plan[policy]))
    await assert_refused(stub, PolicyNotEnforced)


async def test_an_item_that_is_none_is_refused(stub: StubBackend) -> None:
    stub.change_plan = lambda plan: replace(plan, items=(*plan.items, Absent("colour", "")))
    await assert_refused(stub, PolicyNotEnforced)


@pytest.mark.parametrize("policy", NEVER_ABSENT)
async def test_an_item_that_may_never_be_absent_is_refused(stub: StubBackend, policy: str) -> None:
    stub.change_plan = absent(policy)
    await assert_refused(stub, PolicyNotEnforced)


@pytest.mark.parametrize("policy", MAY_BE_ABSENT)
async def test_an_item_that_was_not_asked_for_may_be_absent(stub: StubBackend, target: str, policy: str) -> None:
    stub.change_plan = absent(policy)
    await sandboxio.plan(target)


@pytest.mark.parametrize(
    ("policy", "arguments"),
    [
        ("network.allow", {"network": NetworkPolicy(allow=("a.test",))}),
        ("network.ingress", {"network": NetworkPolicy(ingress_ports=(80,))}),
        ("pids", {"resources": Resources(pids=5)}),
        ("gpu", {"resources": Resources(gpu="T4")}),
        ("secrets", {"secrets": {"K": "s3cr3t"}}),
    ],
)
async def test_an_item_that_was_asked_for_may_not_be_absent(
    stub: StubBackend, policy: str, arguments: dict[str, Any]
) -> None:
    stub.change_plan = absent(policy)
    await assert_refused(stub, PolicyNotEnforced, **arguments)


@pytest.mark.parametrize(
    ("policy", "value", "arguments"),
    [
        ("network.egress", "allow", {}),
        ("network.egress", "deny", {"network": NetworkPolicy(egress="allow")}),
        ("network.allow", ("a.test", "b.test"), {"network": NetworkPolicy(allow=("a.test",))}),
        ("network.allow", ("0.0.0.0/0",), {}),
        ("network.ingress", (22,), {}),
        ("cpu", 8.0, {"resources": Resources(cpu=1)}),
        ("memory", 1024, {"resources": Resources(memory_mb=512)}),
        ("memory.swap", 512, {"resources": Resources(memory_mb=512)}),
        ("memory.swap", 512, {}),
        ("memory.swap", -1, {}),
        ("disk", 4096, {"resources": Resources(disk_mb=1024)}),
        ("pids", 0, {"resources": Resources(pids=64)}),
        ("gpu", "A100", {"resources": Resources(gpu="T4")}),
        ("gpu", "T4", {}),
        ("lifetime", 86_400.0, {}),
        ("lifetime", 100.0, {}),
        ("labels", {}, {"metadata": {"tenant_id": "a"}}),
        ("labels", {"tenant_id": "b"}, {"metadata": {"tenant_id": "a"}}),
        ("labels", {"x": "y"}, {}),
        ("secrets", ("OTHER",), {"secrets": {"K": "s3cr3t"}}),
        ("secrets", ("K",), {}),
        ("isolation", "microvm", {}),
    ],
)
async def test_an_item_answered_with_something_else_than_was_asked_is_refused(
    stub: StubBackend, policy: str, value: object, arguments: dict[str, Any]
) -> None:
    """NET-05: no silent stricter or looser substitute."""
    stub.change_plan = answering(policy, value)
    await assert_refused(stub, PolicyNotEnforced, **arguments)


@pytest.mark.parametrize("policy", ["cpu", "memory", "disk", "pids", "lifetime"])
@pytest.mark.parametrize("value", [0, -1, None, "unlimited", "max", math.inf, math.nan, True, ()])
async def test_a_default_that_bounds_nothing_is_refused(stub: StubBackend, policy: str, value: object) -> None:
    """CAP-01, CAP-07: providers write "unlimited" in many ways."""
    stub.change_plan = answering(policy, value)
    await assert_refused(stub, PolicyNotEnforced)


async def test_a_lifetime_may_be_rounded_up_to_the_providers_unit(stub: StubBackend, target: str) -> None:
    stub.change_plan = answering("lifetime", 120.0)
    await sandboxio.plan(target, timeout=61)


async def test_a_plan_for_another_specification_is_refused(stub: StubBackend) -> None:
    def loosened(plan: Plan) -> Plan:
        spec = replace(plan.spec, network=NetworkPolicy(egress="allow"))
        return answering("network.egress", "allow")(replace(plan, spec=spec))

    stub.change_plan = loosened
    await assert_refused(stub, PolicyNotEnforced)


@pytest.mark.parametrize(
    ("strength", "least", "fine"),
    [
        ("interface", "interface", True), ("address", "interface", False), ("address", "address", True),
        ("sni", "address", False), ("sni", "sni", True), ("dns", "sni", False), ("dns", "dns", True), (None, "dns", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("policy", ["network.egress", "network.allow"])
async def test_a_weaker_enforcement_than_asked_for_is_refused(
    stub: StubBackend, target: str, policy: str, strength: Any, least: Any, fine: bool
) -> None:
    """NET-11."""
    network = NetworkPolicy(allow=("a.test",), min_strength=least)
    stub.change_plan = enforcing(policy, strength=strength)
    if fine:
        await sandboxio.plan(target, network=network)
    else:
        await assert_refused(stub, CapabilityNotSupported, network=network)


async def test_learning_is_refused_whatever_the_adapter_says(stub: StubBackend) -> None:
    """NET-06."""
    await assert_refused(stub, CapabilityNotSupported, network=NetworkPolicy(egress="learn"))


@pytest.mark.parametrize("required", [IsolationTier.GVISOR, IsolationTier.MICROVM])
async def test_a_tier_below_what_is_required_is_refused_before_anything_is_sent(
    stub: StubBackend, required: IsolationTier
) -> None:
    """ISO-01."""
    await assert_refused(stub, ConfigurationError, require_isolation=required)


async def test_a_tier_that_turns_out_lower_when_the_engine_was_asked_is_refused(stub: StubBackend, target: str) -> None:
    def lower_when_probed(plan: Plan) -> Plan:
        if plan.assumed:
            return plan
        return answering("isolation", "unknown")(replace(plan, tier=IsolationTier.UNKNOWN))

    stub.change_plan = lower_when_probed
    with pytest.raises(ConfigurationError, match="container is required"):
        await sandboxio.create(target, require_isolation=IsolationTier.CONTAINER)
    assert "provision" not in stub.calls


@pytest.mark.parametrize("value", [IsolationTier.UNKNOWN, "container", 1, True])
async def test_a_requirement_that_requires_nothing_is_refused(stub: StubBackend, value: object) -> None:
    """ISO-04."""
    await assert_refused(stub, ConfigurationError, require_isolation=value)


async def test_an_unknown_tier_satisfies_nothing_and_is_warned_of() -> None:
    """ISO-03."""
    stub = registered(tier=IsolationTier.UNKNOWN)
    for required in (IsolationTier.CONTAINER, IsolationTier.GVISOR, IsolationTier.MICROVM):
        await assert_refused(stub, ConfigurationError, require_isolation=required)
    with pytest.warns(UnverifiedIsolationWarning) as caught:
        async with sandboxio.create(f"{stub.info.name}://"):
            pass
    assert len(caught) == 1


@pytest.mark.parametrize("have", list(IsolationTier))
@pytest.mark.parametrize("need", list(IsolationTier))
def test_the_rank_orders_escape_resistance(have: IsolationTier, need: IsolationTier) -> None:
    """ISO-02."""
    order = [IsolationTier.UNKNOWN, IsolationTier.CONTAINER, IsolationTier.GVISOR, IsolationTier.MICROVM]
    expected = order.index(have) >= order.index(need) and IsolationTier.UNKNOWN not in (have, need)
    assert have.satisfies(need) == expected


async def test_what_stays_possible_is_warned_of(stub: StubBackend, target: str) -> None:
    """NET-11: names accepted at sni, and a deny with a named residual."""
    network = NetworkPolicy(allow=("a.test",))
    residual, names = enforcing("network.egress", residuals=("vsock",)), enforcing("network.allow", strength="sni")
    stub.change_plan = lambda plan: residual(names(plan))
    with pytest.warns(WeakEnforcementWarning) as caught:
        async with sandboxio.create(target, network=network):
            pass
    assert sorted("vsock" in str(one.message) for one in caught) == [False, True]
    await sandboxio.plan(target, network=network)


@pytest.mark.parametrize(
    "resources", [Resources(cpu=1), Resources(memory_mb=1), Resources(disk_mb=1), Resources(pids=1)]
)
async def test_caps_that_belong_to_the_template_are_refused_naming_it(resources: Resources) -> None:
    """CAP-06."""
    stub = registered(caps=False)
    with pytest.raises(ConfigurationError, match="code-interpreter"):
        await sandboxio.create(f"{stub.info.name}://code-interpreter", resources=resources)
    assert stub.calls == []
    async with sandboxio.create(f"{stub.info.name}://code-interpreter", resources=Resources()):
        pass


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.builds(
        Resources,
        cpu=st.none() | st.floats(0.01, 100),
        memory_mb=st.none() | st.integers(1, 2**40),
        disk_mb=st.none() | st.integers(1, 2**20),
        pids=st.none() | st.integers(1, 32_768),
        gpu=st.none() | st.text(min_size=1),
    ),
    st.dictionaries(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), st.just("v")),
    st.floats(0.001, 86_400),
)
def test_any_specification_gives_a_complete_plan(
    resources: Resources, metadata: dict[str, str], timeout: float
) -> None:
    """PLAN-01, for the stub's honest plan."""
    stub = _planner

    async def make() -> Plan:
        return await sandboxio.plan(
            f"{stub.info.name}://", resources=resources, metadata=metadata, timeout=timeout, probe=True
        )

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan = asyncio.run(make())
    assert [item.policy for item in plan.items] == list(ITEMS)
    assert not plan.assumed


_planner = registered()
