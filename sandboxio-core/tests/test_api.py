"""The functions of the package."""

import asyncio
import gc
import logging
import time
import warnings
from collections.abc import AsyncIterator, Mapping
from typing import Any

import anyio
import pytest
import sandboxio
import trio
from sandboxio import (
    BackendUnavailable,
    ConfigurationError,
    CreateTimeout,
    NetworkPolicy,
    OrphanedSandboxWarning,
    Resources,
    SandboxError,
)
from sandboxio.port import Observation

from .stub import BUSY, StubBackend, StubConfig, raising, registered, stalling

pytestmark = pytest.mark.anyio


async def test_create_is_awaited_or_entered(stub: StubBackend, target: str) -> None:
    async with sandboxio.create(target) as entered:
        assert isinstance(entered, sandboxio.Sandbox)
    async with await sandboxio.create(target):
        pass
    awaited = await sandboxio.create(target)
    await awaited.kill()
    assert len(stub.made) == 3
    assert stub.sandboxes == {}


async def test_a_second_use_raises(stub: StubBackend, target: str) -> None:
    creation = sandboxio.create(target)
    async with creation:
        pass
    with pytest.raises(ConfigurationError, match="used already"):
        await creation
    with pytest.raises(ConfigurationError, match="used already"):
        async with creation:
            pass
    assert len(stub.made) == 1


async def test_what_is_never_used_does_and_says_nothing(stub: StubBackend) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sandboxio.create("not even a target", timeout=-1)
        sandboxio.create(f"{stub.info.name}://")
        gc.collect()
    assert stub.calls == []


async def test_a_creation_that_failed_left_nothing_to_leave(stub: StubBackend, target: str) -> None:
    stub.gates.at("open", "before", raising(OSError("no")))
    with pytest.raises(sandboxio.CreationError):
        async with sandboxio.create(target):
            pytest.fail("the block was entered")
    assert stub.sandboxes == {}


@pytest.mark.parametrize(
    "arguments",
    [
        {"timeout": None}, {"timeout": 0}, {"timeout": -5}, {"timeout": float("nan")}, {"timeout": float("inf")},
        {"timeout": "5"}, {"timeout": True}, {"timeout": 86_401}, {"timeout": 10**400},
        {"env": {"V": "\0"}}, {"env": {"": "x"}}, {"env": [("A", "b")]}, {"env": "A=b"},
        {"secrets": {"K": ""}}, {"secrets": {"K": "abc"}}, {"secrets": ["K"]},
        {"env": {"K": "x"}, "secrets": {"K": "s3cr3t"}},
        {"metadata": {"k": 5}}, {"metadata": "x"}, {"metadata": {"": "x"}},
        {"resources": {}}, {"resources": 0}, {"resources": False}, {"resources": {"cpu": 5}},
        {"network": {}}, {"network": "deny"}, {"network": ""}, {"network": False},
        {"template": 5}, {"template": "a b"}, {"template": ""}, {"template": "x; touch /tmp/pwn"},
        {"require_isolation": "microvm"},
    ],
)  # fmt: skip
async def test_a_wrong_argument_is_a_configuration_error_and_provisions_nothing(
    stub: StubBackend, target: str, arguments: Mapping[str, Any]
) -> None:
    """TMO-01, ENC-03, CAP-02, EXE-04."""
    for call in (sandboxio.create, sandboxio.plan):
        with pytest.raises(ConfigurationError):
            await call(target, **arguments)
    assert stub.calls == []


async def test_defaults_deny_egress_for_300_seconds_with_every_cap(stub: StubBackend, target: str) -> None:
    """NET-01, TMO-01, CAP-01."""
    async with sandboxio.create(target) as sandbox:
        assert sandbox.timeout == 300
        receipts = {item.policy: item.requested for item in sandbox.policy if isinstance(item, sandboxio.Enforcement)}
        assert receipts["network.egress"] == "deny"
        assert all(receipts[cap] for cap in ("cpu", "memory", "disk", "pids", "lifetime"))
        assert stub.made[0].plan.spec.network == NetworkPolicy()
        assert stub.made[0].plan.spec.resources == Resources()


@pytest.mark.parametrize(
    ("query", "argument", "timeout"),
    [("", {}, 300), ("?timeout=60", {}, 60), ("?timeout=60", {"timeout": 90}, 90), ("?timeout=0.5", {}, 0.5)],
)
async def test_the_timeout_is_the_argument_else_the_dsns_else_the_default(
    stub: StubBackend, target: str, query: str, argument: dict[str, Any], timeout: float
) -> None:
    plan = await sandboxio.plan(target + query, **argument)
    assert plan.spec.timeout == timeout


@pytest.mark.parametrize(
    "text", ["abcSECRET", "", "-5", "0", "nan", "inf", "1e3", "1_0", " 5", "99999999999", "86401", "٥"]
)
async def test_a_timeout_of_the_dsn_that_is_none_is_refused_without_showing_it(target: str, text: str) -> None:
    """SEC-04."""
    with pytest.raises(ConfigurationError) as caught:
        await sandboxio.plan(f"{target}?timeout={text}")
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("grace", ["soon", "0", "-1"])
async def test_a_wrong_grace_is_refused_before_anything_is_made(
    stub: StubBackend, target: str, grace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBX_TEARDOWN_GRACE", grace)
    with pytest.raises(ConfigurationError, match="SBX_TEARDOWN_GRACE"):
        await sandboxio.create(target)
    assert stub.calls == []


async def test_a_grace_that_went_wrong_meanwhile_still_tears_down(
    stub: StubBackend, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sandboxio.create(target):
        monkeypatch.setenv("SBX_TEARDOWN_GRACE", "soon")
    assert stub.sandboxes == {}


async def test_no_target_is_the_variable_else_docker_and_is_logged_once(
    stub: StubBackend, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "sandboxio")
    monkeypatch.setenv("SANDBOXIO_BACKEND", f"{stub.info.name}://img?count=3")
    plan = await sandboxio.plan()
    assert plan.spec.config == StubConfig(template="img", count=3)
    records = [record for record in caplog.records if stub.info.name in record.getMessage()]
    assert len(records) == 1
    assert records[0].levelno == logging.INFO
    monkeypatch.delenv("SANDBOXIO_BACKEND")
    monkeypatch.setattr("sandboxio.request.DEFAULT_TARGET", f"{stub.info.name}://standard")
    assert (await sandboxio.plan()).spec.template == "standard"


async def test_a_typed_configuration_is_a_target() -> None:
    stub = registered()

    class Config(StubConfig):
        backend = stub.info.name

    async with sandboxio.create(Config(template="t", count=2)):
        assert stub.made[0].plan.spec.config == Config(template="t", count=2)


async def test_a_plan_makes_nothing_and_probes_only_if_asked(stub: StubBackend, target: str) -> None:
    assert (await sandboxio.plan(target)).assumed
    assert stub.calls == []
    assert not (await sandboxio.plan(target, probe=True)).assumed
    assert stub.calls == ["probe"]


async def test_backend_info_opens_nothing(stub: StubBackend, target: str) -> None:
    assert await sandboxio.backend_info(target) is stub.info
    assert stub.calls == []


LABELS = ("a", "ab", "a,b", "a=b", "*", "")


async def test_listing_is_exact(stub: StubBackend, target: str) -> None:
    """TEN-02."""
    made = [await sandboxio.create(target, metadata={"tenant_id": value}) for value in LABELS]
    for sandbox, value in zip(made, LABELS, strict=True):
        (found,) = await sandboxio.list_managed(target, labels={"tenant_id": value})
        assert (found.sandbox_id, found.backend, dict(found.labels)) == (
            sandbox.id,
            stub.info.name,
            {"tenant_id": value},
        )
    assert len(await sandboxio.list_managed(target)) == len(LABELS)
    for sandbox in made:
        await sandbox.kill()


async def test_an_adapter_that_lists_too_much_is_not_believed(
    stub: StubBackend, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def everything(labels: Mapping[str, str]) -> AsyncIterator[Observation]:
        for box in stub.sandboxes.values():
            yield box.seen()

    monkeypatch.setattr(stub, "list", everything)
    async with sandboxio.create(target, metadata={"tenant_id": "other"}):
        assert await sandboxio.list_managed(target, labels={"tenant_id": "mine"}) == []


async def test_a_list_that_fails_or_stalls_is_an_error_of_ours(
    stub: StubBackend, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(labels: Mapping[str, str]) -> AsyncIterator[Observation]:
        raise KeyError("hole")

    stub.gates.at("list", "before", raising(OSError("reset")))
    with pytest.raises(SandboxError, match="reset"):
        await sandboxio.list_managed(target)
    monkeypatch.setattr("sandboxio.api.LOOK_BOUND", 0.05)
    stub.gates.at("list", "before", stalling)
    with pytest.raises(BackendUnavailable, match="did not answer"):
        await sandboxio.list_managed(target)
    monkeypatch.setattr(stub, "list", broken)
    with pytest.raises(SandboxError, match="hole"):
        await sandboxio.list_managed(target)


async def test_killing_takes_full_ids_only(stub: StubBackend, target: str) -> None:
    """TEN-02."""
    sandbox = await sandboxio.create(target)
    wrongs: list[Any] = ["", "*", sandbox.id[:-1], sandbox.id[:8], "i", None, 5]
    for wrong in wrongs:
        with pytest.raises(ConfigurationError):
            await sandboxio.kill_managed(target, wrong)
    for foreign in ("somebody-elses", sandbox.id + "0", sandbox.id.upper()):
        await sandboxio.kill_managed(target, foreign)
    assert "destroy" not in stub.calls
    assert len(stub.sandboxes) == 1
    await sandboxio.kill_managed(target, sandbox.id)
    assert stub.sandboxes == {}
    await sandboxio.kill_managed(target, sandbox.id)
    await sandbox.kill()


async def test_a_managed_sandbox_that_does_not_go_is_named(stub: StubBackend, target: str, short_grace: float) -> None:
    sandbox = await sandboxio.create(target)
    stub.gates.at("destroy", "before", stalling)
    with pytest.warns(OrphanedSandboxWarning, match=sandbox.id):
        await sandboxio.kill_managed(target, sandbox.id)
    stub.gates.clear()
    await sandbox.kill()


async def test_three_creations_of_which_two_never_become_ready(short_grace: float) -> None:
    """TMO-12: the third is not disturbed, nothing is left, nothing hangs."""
    stubs = [registered() for _ in range(3)]
    for stub in stubs[:2]:
        stub.gates.at("open", "committed", stalling)
    outcomes: list[str] = []

    async def create(stub: StubBackend) -> None:
        try:
            async with sandboxio.create(f"{stub.info.name}://", timeout=1):
                outcomes.append("made")
        except CreateTimeout:
            outcomes.append("timeout")

    started = time.monotonic()
    async with anyio.create_task_group() as group:
        for stub in stubs:
            group.start_soon(create, stub)
    assert sorted(outcomes) == ["made", "timeout", "timeout"]
    assert time.monotonic() - started < 1 + short_grace + BUSY
    assert all(stub.sandboxes == {} for stub in stubs)


async def test_the_same_labels_twice_are_two_sandboxes(target: str) -> None:
    """TEN-01, TEN-04."""
    async with sandboxio.create(target, metadata={"session_id": "s"}) as first:
        async with sandboxio.create(target, metadata={"session_id": "s"}) as second:
            assert first.id != second.id


def test_ours_is_a_create_timeout_and_theirs_stays_theirs() -> None:
    """No builtin TimeoutError escapes, and `asyncio.timeout` of a caller keeps its own."""
    stub = registered()
    stub.gates.at("probe", "before", stalling)

    async def ours() -> None:
        with pytest.raises(CreateTimeout) as caught:
            await sandboxio.create(f"{stub.info.name}://", timeout=0.1)
        assert not isinstance(caught.value, TimeoutError)
        assert isinstance(caught.value, sandboxio.SandboxTimeout)

    async def theirs() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await sandboxio.create(f"{stub.info.name}://")

    async def trios() -> None:
        with pytest.raises(trio.TooSlowError):
            with trio.fail_after(0.1):
                await sandboxio.create(f"{stub.info.name}://")

    asyncio.run(ours())
    asyncio.run(theirs())
    trio.run(ours)
    trio.run(trios)
