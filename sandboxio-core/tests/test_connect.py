"""Connecting: it looks before it touches, refuses what is not as expected, and never takes "unreadable" for "deny"."""

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import anyio
import pytest
import sandboxio
from sandboxio import (
    BackendUnavailable,
    CapabilityNotSupported,
    ConfigurationError,
    ConnectError,
    CreationError,
    IsolationTier,
    NetworkPolicy,
    PolicyNotEnforced,
    Resources,
    SandboxGone,
    UnverifiedIsolationWarning,
)
from sandboxio.planning import Absent, Enforcement
from sandboxio.port import Observation

from .stub import Hold, LocalSession, StubBackend, raising, stalling

pytestmark = pytest.mark.anyio

LOOKS = ["observe"]
Change = Callable[[Observation], Observation | None]


async def made(target: str, **options: Any) -> sandboxio.Sandbox:
    return await sandboxio.create(target, **options)


def without(*policies: str) -> Change:
    """Return a provider's answer in which these items can't be read back."""

    def change(seen: Observation) -> Observation:
        kept = {policy: value for policy, value in seen.applied.items() if policy not in policies}
        told = {policy: item for policy, item in seen.receipts.items() if policy not in policies}
        return replace(seen, applied=kept, receipts=told)

    return change


def nothing(seen: Observation) -> None:
    """Answer as a provider does that knows no such sandbox."""


def saying(**fields: Any) -> Change:
    return lambda seen: replace(seen, **fields)


def applying(values: Mapping[str, object]) -> Change:
    return lambda seen: replace(seen, applied={**seen.applied, **values})


async def test_a_second_handle_works_and_leaving_its_block_kills(stub: StubBackend, target: str) -> None:
    owner = await made(target, metadata={"tenant": "a"}, timeout=50)
    async with sandboxio.connect(target, owner.id) as sandbox:
        assert (sandbox.id, sandbox.metadata, sandbox.isolation) == (owner.id, {"tenant": "a"}, IsolationTier.CONTAINER)
        assert sandbox.timeout == pytest.approx(50)
        assert sandbox.expires_at == owner.expires_at
        assert (await sandbox.run(["true"])).ok
    assert stub.sandboxes == {}
    await owner.kill()


async def test_it_looks_and_opens_and_asks_for_nothing_else(stub: StubBackend, target: str) -> None:
    owner = await made(target)
    before = len(stub.calls)
    sandbox = await sandboxio.connect(target, owner.id)
    assert stub.calls[before:] == ["observe", "open"]
    await sandbox.kill()
    await owner.kill()


async def test_it_is_awaited_or_entered_once_and_does_nothing_before(stub: StubBackend, target: str) -> None:
    owner = await made(target)
    before = len(stub.calls)
    pending = sandboxio.connect(target, owner.id)
    assert stub.calls[before:] == []
    async with pending:
        pass
    with pytest.raises(ConfigurationError, match=r"connect\(\) was used already"):
        await pending
    await owner.kill()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (nothing, "no sandbox of sandboxio"),
        (saying(sandbox_id="another"), "no sandbox of sandboxio"),
        (saying(state="paused"), "it is paused"),
        (saying(state="created"), "it is created"),
        (saying(expires_at=time.time() - 1, created_at=time.time() - 9), "is over"),
        (saying(labels={"tenant": "hidden-value"}), "other metadata than was given: tenant"),
        (saying(labels={}), "other metadata than was given: tenant"),
    ],
)
async def test_what_is_not_ours_or_does_not_run_is_refused_untouched(
    stub: StubBackend, target: str, change: Change, message: str
) -> None:
    owner = await made(target, metadata={"tenant": "mine"})
    before, stub.change_seen = len(stub.calls), change
    with pytest.raises(ConnectError, match=message) as caught:
        await sandboxio.connect(target, owner.id, metadata={"tenant": "mine"})
    assert stub.calls[before:] == LOOKS
    assert caught.value.hint
    assert "hidden-value" not in str(caught.value)
    stub.change_seen = lambda seen: seen
    await owner.kill()


@pytest.mark.parametrize(
    "values",
    [
        {"network.egress": "network mode host"},
        {"cpu": 0.0},
        {"memory": 0},
        {"memory": -1},
        {"memory.swap": 512},
        {"pids": None},
        {"disk": float("inf")},
        {"pids": True},
        {"isolation": "weakened by Privileged"},
    ],
)
async def test_what_is_weaker_than_ours_ever_are_is_refused_whatever_is_expected(
    stub: StubBackend, target: str, values: Mapping[str, object]
) -> None:
    """A container that imitates our labels."""
    owner = await made(target)
    before, stub.change_seen = len(stub.calls), applying(values)
    with pytest.raises(PolicyNotEnforced, match="as none of ours has"):
        await sandboxio.connect(target, owner.id)
    assert stub.calls[before:] == LOOKS
    stub.change_seen = lambda seen: seen
    await owner.kill()


@pytest.mark.parametrize(
    "expires_at", [None, float("nan"), float("inf"), time.time() + 10**7], ids=["none", "nan", "inf", "far"]
)
async def test_a_lifetime_without_an_end_is_refused(stub: StubBackend, target: str, expires_at: float | None) -> None:
    owner = await made(target)
    before, stub.change_seen = len(stub.calls), saying(expires_at=expires_at)
    with pytest.raises(PolicyNotEnforced, match=r"lifetime|live for"):
        await sandboxio.connect(target, owner.id)
    assert stub.calls[before:] == LOOKS
    stub.change_seen = lambda seen: seen
    await owner.kill()


NETWORK = NetworkPolicy()
EXPECTATIONS: list[tuple[dict[str, Any], Mapping[str, object]]] = [
    ({"network": NETWORK}, {"network.egress": "allow"}),
    ({"network": NetworkPolicy(egress="allow")}, {"network.egress": "deny"}),
    ({"network": NETWORK}, {"network.allow": ("example.com",)}),
    ({"network": NetworkPolicy(allow=("a.example",))}, {"network.allow": ("a.example", "b.example")}),
    ({"network": NETWORK}, {"network.ingress": (80,)}),
    ({"resources": Resources(memory_mb=256)}, {"memory": 512}),
    ({"resources": Resources(cpu=2)}, {"cpu": 1.0}),
    ({"resources": Resources(disk_mb=10)}, {"disk": 11}),
    ({"resources": Resources(pids=10)}, {"pids": 11}),
    ({"resources": Resources(gpu="a100")}, {}),
    ({"require_isolation": IsolationTier.GVISOR}, {"isolation": "container"}),
]


@pytest.mark.parametrize(("options", "values"), EXPECTATIONS)
async def test_an_expectation_that_is_not_met_is_refused_untouched(
    stub: StubBackend, target: str, options: dict[str, Any], values: Mapping[str, object]
) -> None:
    owner = await made(target)
    before, stub.change_seen = len(stub.calls), applying(values)
    with pytest.raises(PolicyNotEnforced, match="is expected") as caught:
        await sandboxio.connect(target, owner.id, **options)
    assert stub.calls[before:] == LOOKS
    assert caught.value.hint
    stub.change_seen = lambda seen: seen
    await owner.kill()


@pytest.mark.parametrize(
    ("options", "policies"),
    [
        ({"network": NETWORK}, ["network.egress"]),
        ({"network": NETWORK}, ["network.allow"]),
        ({"network": NETWORK}, ["network.ingress"]),
        ({"resources": Resources(memory_mb=512)}, ["memory"]),
        ({"require_isolation": IsolationTier.CONTAINER}, ["isolation"]),
    ],
)
async def test_an_expectation_that_can_not_be_read_back_is_refused(
    stub: StubBackend, target: str, options: dict[str, Any], policies: list[str]
) -> None:
    owner = await made(target)
    before, stub.change_seen = len(stub.calls), without(*policies)
    with pytest.raises(PolicyNotEnforced, match="can't be read back"):
        await sandboxio.connect(target, owner.id, **options)
    assert stub.calls[before:] == LOOKS
    stub.change_seen = lambda seen: seen
    await owner.kill()


async def test_expectations_that_are_met_are_accepted(stub: StubBackend, target: str) -> None:
    resources = Resources(cpu=2, memory_mb=300, disk_mb=20, pids=30)
    owner = await made(target, resources=resources, metadata={"tenant": "a", "more": "b"})
    sandbox = await sandboxio.connect(
        target,
        owner.id,
        network=NETWORK,
        resources=resources,
        require_isolation=IsolationTier.CONTAINER,
        metadata={"tenant": "a"},
    )
    await sandbox.kill()
    await owner.kill()


async def test_an_enforcement_weaker_than_expected_is_refused(stub: StubBackend, target: str) -> None:
    owner = await made(target)
    weak = Enforcement("network.egress", "deny", "names only", "provider", "attested", "dns")
    stub.change_seen = lambda seen: replace(seen, receipts={**seen.receipts, "network.egress": weak})
    with pytest.raises(PolicyNotEnforced, match=r"strength of network\.egress"):
        await sandboxio.connect(target, owner.id, network=NETWORK)
    stub.change_seen = lambda seen: seen
    await owner.kill()


async def test_receipts_say_what_was_read_back_and_never_deny_what_was_not(stub: StubBackend, target: str) -> None:
    owner = await made(target, secrets={"TOKEN": "not-a-real-token"})
    stub.change_seen = lambda seen: replace(without("network.egress", "disk")(seen) or seen, receipts={})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sandbox = await sandboxio.connect(target, owner.id)
    receipts = {item.policy: item for item in sandbox.policy}
    for policy in ("network.egress", "network.allow", "network.ingress", "disk", "gpu"):
        item = receipts[policy]
        assert isinstance(item, Enforcement)
        assert (item.requested, item.evidence) == ("unverified", "unverified"), policy
    memory, secrets = receipts["memory"], receipts["secrets"]
    assert isinstance(memory, Enforcement)
    assert (memory.requested, memory.evidence) == (512, "attested")
    assert isinstance(secrets, Absent)
    assert "deny" not in repr(sandbox)
    stub.change_seen = lambda seen: seen
    await sandbox.kill()
    await owner.kill()


async def test_an_isolation_that_can_not_be_read_back_is_unknown_and_warned_about(
    stub: StubBackend, target: str
) -> None:
    owner = await made(target)
    stub.change_seen = without("isolation")
    with pytest.warns(UnverifiedIsolationWarning):
        sandbox = await sandboxio.connect(target, owner.id)
    assert sandbox.isolation is IsolationTier.UNKNOWN
    stub.change_seen = lambda seen: seen
    await sandbox.kill()
    await owner.kill()


@pytest.mark.parametrize(
    ("sandbox_id", "options", "error"),
    [
        ("", {}, ConfigurationError),
        ("abc", {}, ConfigurationError),
        ("../../../version", {}, ConfigurationError),
        (7, {}, ConfigurationError),
        ("a" * 64, {"network": "deny"}, ConfigurationError),
        ("a" * 64, {"network": NetworkPolicy(egress="learn")}, CapabilityNotSupported),
        ("a" * 64, {"resources": {"cpu": 1}}, ConfigurationError),
        ("a" * 64, {"require_isolation": "container"}, ConfigurationError),
        ("a" * 64, {"require_isolation": IsolationTier.UNKNOWN}, ConfigurationError),
        ("a" * 64, {"metadata": {"tenant": 1}}, ConfigurationError),
    ],
)
async def test_a_wrong_argument_is_refused_without_traffic(
    stub: StubBackend, target: str, sandbox_id: Any, options: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await sandboxio.connect(target, sandbox_id, **options)
    assert stub.calls == []


async def test_a_warning_that_is_an_error_closes_the_session_and_leaves_the_sandbox(
    stub: StubBackend, target: str
) -> None:
    owner = await made(target)
    stub.change_seen = without("isolation")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UnverifiedIsolationWarning):
            await sandboxio.connect(target, owner.id)
    assert stub.session.closed == 1
    stub.change_seen = lambda seen: seen
    assert (await owner.run(["true"])).ok
    await owner.kill()


async def test_a_sandbox_that_its_owner_kills_meanwhile_is_a_connect_error(stub: StubBackend, target: str) -> None:
    owner = await made(target)
    stub.gates.at("open", "before", raising(SandboxGone("the container ended")))
    with pytest.raises(ConnectError, match="ended while it was being connected to"):
        await sandboxio.connect(target, owner.id)
    stub.gates.at("open", "before", raising(CreationError("the engine answered 500", hint="see its log")))
    with pytest.raises(ConnectError, match="answered 500") as caught:
        await sandboxio.connect(target, owner.id)
    assert caught.value.hint == "see its log"
    await owner.kill()


async def test_a_cancelled_connect_leaves_the_sandbox_alone(stub: StubBackend, target: str) -> None:
    owner = await made(target)
    hold = Hold()
    stub.gates.at("open", "before", hold)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:

            async def stop() -> None:
                await hold.reached.wait()
                scope.cancel()

            group.start_soon(stop)
            await sandboxio.connect(target, owner.id)
    assert scope.cancelled_caught
    assert list(stub.sandboxes) == [owner.id]
    stub.gates.clear()
    await owner.kill()


async def test_a_provider_that_does_not_answer_is_unavailable(
    stub: StubBackend, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = await made(target)
    monkeypatch.setattr("sandboxio.connecting.LOOK_BOUND", 0.1)
    stub.gates.at("observe", "before", stalling)
    with pytest.raises(BackendUnavailable, match="no connection to the sandbox within"):
        await sandboxio.connect(target, owner.id)
    stub.gates.clear()
    await owner.kill()


async def test_detach_leaves_the_sandbox_alive_and_the_handle_over(stub: StubBackend, target: str) -> None:
    async with sandboxio.create(target) as sandbox:
        await sandbox.detach()
        assert (stub.session.detached, stub.session.closed) == (True, 1)
        with pytest.raises(ConfigurationError, match="given up by detach") as caught:
            await sandbox.run(["true"])
        assert "connect" in caught.value.hint
        with pytest.raises(ConfigurationError, match="given up by detach"):
            await sandbox.detach()
    assert list(stub.sandboxes) == [sandbox.id]
    async with sandboxio.connect(target, sandbox.id) as again:
        assert (await again.run(["true"])).ok
    assert stub.sandboxes == {}


async def test_a_kill_after_detach_is_no_silent_success(stub: StubBackend, target: str) -> None:
    sandbox = await made(target)
    await sandbox.detach()
    with pytest.raises(ConfigurationError, match="given up") as caught:
        await sandbox.kill()
    assert "kill_managed" in caught.value.hint
    await sandboxio.kill_managed(target, sandbox.id)
    assert stub.sandboxes == {}


async def test_what_runs_when_the_sandbox_is_given_up_lives_on(stub: StubBackend, target: str) -> None:
    async with sandboxio.create(target) as sandbox, sandbox.stream(["hang"]):
        await sandbox.detach()
    assert stub.session.drivers[0].kills == 0
    assert stub.closed == 1


async def test_a_detach_that_fails_gives_nothing_up(stub: StubBackend, target: str) -> None:
    async with sandboxio.create(target) as sandbox:
        stub.gates.at("detach", "before", raising(CapabilityNotSupported("nothing would hold its lifetime")))
        with pytest.raises(CapabilityNotSupported):
            await sandbox.detach()
        assert (await sandbox.run(["true"])).ok
    assert stub.sandboxes == {}


async def test_a_backend_whose_sandboxes_end_with_their_owner_refuses_to_detach(stub: StubBackend, target: str) -> None:
    stub.make_session = LocalSession  # which has no `detach`
    async with sandboxio.create(target) as sandbox:
        with pytest.raises(CapabilityNotSupported, match="can't outlive their owner"):
            await sandbox.detach()
    assert stub.sandboxes == {}


async def test_a_detach_of_what_is_gone_says_so(stub: StubBackend, target: str) -> None:
    sandbox = await made(target)
    stub.gates.at("detach", "before", raising(SandboxGone("ended", reason="killed")))
    with pytest.raises(SandboxGone) as caught:
        await sandbox.detach()
    assert caught.value.reason == "killed"
    await sandbox.kill()


async def test_a_detach_that_is_cancelled_gives_nothing_up(stub: StubBackend, target: str) -> None:
    stub.gates.at("detach", "committed", stalling)
    with anyio.move_on_after(0.05):
        async with sandboxio.create(target) as sandbox:
            await sandbox.detach()
    assert stub.sandboxes == {}
