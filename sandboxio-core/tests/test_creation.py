"""From a plan to an opened session."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import anyio
import pytest
import sandboxio
from sandboxio import (
    BackendUnavailable,
    CapabilityNotSupported,
    CreateTimeout,
    CreationError,
    OrphanedSandboxWarning,
    Plan,
    PolicyNotEnforced,
    SandboxError,
)
from sandboxio.port import Facts, Observation, TransportUnfit

from .stub import BUSY, POINTS, Hold, Point, StubBackend, StubSession, raising, stalling, stalling_once

pytestmark = pytest.mark.anyio


class NativeError(Exception):
    """What a provider's SDK raises."""


async def test_the_calls_come_in_the_order_of_the_architecture(stub: StubBackend, target: str) -> None:
    sandbox = await sandboxio.create(target)
    assert stub.calls == ["probe", "prepare", "provision", "observe", "open"]
    await sandbox.kill()
    assert stub.calls[5:] == ["destroy", "observe", "aclose"]


async def test_facts_are_asked_once_a_minute_and_template(stub: StubBackend, target: str) -> None:
    for template in (None, None, "other", "other"):
        async with sandboxio.create(target, template=template):
            pass
    assert stub.calls.count("probe") == 2


async def test_a_template_that_was_just_fetched_is_probed_and_planned_anew(stub: StubBackend, target: str) -> None:
    """What an absent image could only be assumed not to have, such as volumes, is refused once it is there."""
    stub.fetches = True

    def refuse_fetched(plan: Plan) -> Plan:
        if stub.calls.count("probe") == 2:
            raise CapabilityNotSupported("the image that was fetched has volumes")
        return plan

    stub.change_plan = refuse_fetched
    with pytest.raises(CapabilityNotSupported, match="volumes"):
        await sandboxio.create(target)
    assert stub.calls == ["probe", "prepare", "probe"]


@pytest.mark.parametrize("call", ["provision", "observe", "open"])
@pytest.mark.parametrize("point", POINTS)
async def test_an_unknown_error_at_any_wire_call_is_a_creation_error_and_leaves_nothing(
    stub: StubBackend, target: str, call: str, point: Point
) -> None:
    """CAN-03: also where the request committed although the answer was an error."""
    error = NativeError("boom")
    stub.gates.at(call, point, raising(error))
    with pytest.raises(CreationError, match="boom") as caught:
        await sandboxio.create(target)
    assert caught.value.__cause__ is error
    assert stub.sandboxes == {}


@pytest.mark.parametrize("call", ["probe", "prepare"])
async def test_an_error_before_the_provision_provisions_nothing(stub: StubBackend, target: str, call: str) -> None:
    stub.gates.at(call, "before", raising(NativeError("boom")))
    with pytest.raises(SandboxError, match="boom"):
        await sandboxio.create(target)
    assert "provision" not in stub.calls


async def test_an_error_that_the_adapter_knows_keeps_its_class_and_cause(stub: StubBackend, target: str) -> None:
    stub.errors[NativeError] = lambda error: sandboxio.RateLimitError("slow down")
    error = NativeError("429")
    stub.gates.at("provision", "before", raising(error))
    with pytest.raises(sandboxio.RateLimitError, match="slow down") as caught:
        await sandboxio.create(target)
    assert caught.value.__cause__ is error


async def test_an_error_table_that_fails_itself_does_not_hide_the_error(stub: StubBackend, target: str) -> None:
    def broken(error: BaseException) -> SandboxError:
        raise KeyError("hole in the table")

    stub.errors[NativeError] = broken
    stub.gates.at("provision", "before", raising(NativeError("boom")))
    with pytest.raises(CreationError, match="boom"):
        await sandboxio.create(target)


async def test_a_failing_observation_is_a_creation_error_whatever_class_it_maps_to(
    stub: StubBackend, target: str
) -> None:
    stub.errors[NativeError] = lambda error: sandboxio.AuthError("no")
    stub.gates.at("observe", "before", raising(NativeError("403")))
    with pytest.raises(CreationError) as caught:
        await sandboxio.create(target)
    assert isinstance(caught.value.__cause__, sandboxio.AuthError)
    assert stub.sandboxes == {}


async def test_a_session_that_cannot_say_what_it_is_leaves_nothing(stub: StubBackend, target: str) -> None:
    class Mute(StubSession):
        def info(self) -> Mapping[str, object]:
            raise NativeError("no answer")

    session = Mute(stub.gates, stub.programs)
    stub.make_session = lambda: session
    with pytest.raises(CreationError, match="no answer"):
        await sandboxio.create(target)
    assert stub.sandboxes == {}
    assert session.closed


@pytest.mark.parametrize("item", ["network.egress", "cpu", "memory", "memory.swap", "pids", "disk", "labels"])
async def test_an_item_that_was_not_observed_destroys_the_sandbox(stub: StubBackend, target: str, item: str) -> None:
    def forget(seen: Observation) -> Observation:
        return replace(seen, applied={name: value for name, value in seen.applied.items() if name != item})

    stub.change_seen = forget
    with pytest.raises(CreationError, match=item):
        await sandboxio.create(target)
    assert stub.sandboxes == {}
    assert "open" not in stub.calls


@pytest.mark.parametrize(
    ("item", "value"),
    [
        ("network.egress", "allow"),
        ("cpu", 64.0),
        ("memory", 0),
        ("memory.swap", 512),
        ("pids", -1),
        ("disk", None),
        ("labels", {"tenant_id": "other"}),
        ("isolation", "weakened by Privileged"),
    ],
)
async def test_an_item_that_is_not_as_planned_destroys_the_sandbox_before_anything_runs(
    stub: StubBackend, target: str, item: str, value: object
) -> None:
    stub.change_seen = lambda seen: replace(seen, applied={**seen.applied, item: value})
    with pytest.raises(PolicyNotEnforced, match=item):
        await sandboxio.create(target)
    assert stub.sandboxes == {}
    assert "open" not in stub.calls


def gone(seen: Observation) -> Observation | None:
    return None


def of_another_name(seen: Observation) -> Observation | None:
    return replace(seen, name="another")


def of_another_id(seen: Observation) -> Observation | None:
    return replace(seen, sandbox_id="another")


def of_other_labels(seen: Observation) -> Observation | None:
    return replace(seen, labels={"x": "y"})


def without_an_end(seen: Observation) -> Observation | None:
    return replace(seen, expires_at=None)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (gone, CreationError),
        (of_another_name, PolicyNotEnforced),
        (of_another_id, PolicyNotEnforced),
        (of_other_labels, PolicyNotEnforced),
        (without_an_end, CreationError),
    ],
)
async def test_an_observation_of_something_else_destroys_the_sandbox(
    stub: StubBackend,
    target: str,
    change: Callable[[Observation], Observation | None],
    error: type[SandboxError],
) -> None:
    first = True

    def once(seen: Observation) -> Observation | None:
        nonlocal first
        was_first, first = first, False
        return change(seen) if was_first else seen

    stub.change_seen = once
    with pytest.raises(error):
        await sandboxio.create(target)
    assert stub.sandboxes == {}


async def test_an_adapter_that_observes_no_policy_item_is_refused(stub: StubBackend, target: str) -> None:
    stub.info = replace(stub.info, observable=frozenset({"colour"}))
    stub.change_seen = lambda seen: replace(seen, applied={"colour": "blue"})
    with pytest.raises(CreationError, match="colour"):
        await sandboxio.create(target)
    assert stub.sandboxes == {}


async def test_the_other_transport_is_tried_once(stub: StubBackend, target: str) -> None:
    facts = Facts({"transport": "exec"})
    stub.gates.at("open", "committed", raising(TransportUnfit("no python", facts)))
    lines: list[str] = []
    async with sandboxio.create(target, on_progress=lines.append):
        assert len(stub.sandboxes) == 1
    assert len(stub.made) == 2
    first, second = (made.plan.create_id for made in stub.made)
    assert first != second  # what the first left under its name may still be being removed
    assert any("no python" in line for line in lines)
    assert stub.calls.count("probe") == 1


async def test_two_unfit_transports_are_a_creation_error(stub: StubBackend, target: str) -> None:
    stub.gates.at("open", "committed", raising(then=TransportUnfit("nothing fits", Facts())))
    with pytest.raises(CreationError, match="nothing fits"):
        await sandboxio.create(target)
    assert len(stub.made) == 2
    assert stub.sandboxes == {}


@pytest.mark.parametrize("call", ["probe", "prepare", "observe", "open"])
@pytest.mark.parametrize("point", POINTS)
async def test_a_creation_that_stalls_anywhere_is_a_create_timeout_within_the_grace(
    stub: StubBackend, target: str, call: str, point: Point, short_grace: float
) -> None:
    """TMO-03, TMO-12."""
    stub.gates.at(call, point, stalling_once())
    started = time.monotonic()
    with pytest.raises(CreateTimeout):
        await sandboxio.create(target, timeout=0.1)
    assert time.monotonic() - started < 0.1 + short_grace + BUSY
    assert stub.sandboxes == {}


@pytest.mark.parametrize("point", POINTS)
async def test_a_provision_that_never_answers_is_a_create_timeout_that_names_the_create_id(
    stub: StubBackend, target: str, point: Point, short_grace: float
) -> None:
    """CAN-01 case 3."""
    stub.gates.at("provision", point, stalling)
    started = time.monotonic()
    with pytest.warns(OrphanedSandboxWarning, match="sbx-"), pytest.raises(CreateTimeout):
        await sandboxio.create(target, timeout=1)
    assert time.monotonic() - started < 1 + short_grace + BUSY
    assert stub.sandboxes == {}


async def test_a_provision_that_commits_and_never_answers_is_found_by_name_and_destroyed(
    stub: StubBackend, target: str, short_grace: float
) -> None:
    stub.gates.at("provision", "committed", stalling)
    with pytest.warns(OrphanedSandboxWarning) as caught, pytest.raises(CreateTimeout):
        await sandboxio.create(target, timeout=1, metadata={"tenant_id": "t1"})
    assert len(stub.made) == 1
    assert stub.sandboxes == {}
    (warning,) = caught
    text = str(warning.message)
    assert stub.made[0].plan.create_id in text
    assert stub.info.name in text
    assert "tenant_id" in text


async def test_the_adapter_hears_that_a_provision_was_given_up(
    stub: StubBackend, target: str, short_grace: float
) -> None:
    told = anyio.Event()

    async def stall() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            told.set()

    stub.gates.at("provision", "before", stall)
    with pytest.warns(OrphanedSandboxWarning), pytest.raises(CreateTimeout):
        await sandboxio.create(target, timeout=1)
    assert told.is_set()


async def test_a_late_answer_within_the_grace_is_destroyed_without_a_warning(stub: StubBackend, target: str) -> None:
    hold = Hold()
    stub.gates.at("provision", "answer", hold)
    async with anyio.create_task_group() as group:
        group.start_soon(_create_and_expect_cancellation, target)
        await hold.reached.wait()
        group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.05)
        assert len(stub.sandboxes) == 1
        hold.release.set()
    assert stub.sandboxes == {}


async def _create_and_expect_cancellation(target: str) -> None:
    await sandboxio.create(target)
    pytest.fail("it was cancelled")


@pytest.mark.parametrize("call", ["find", "destroy"])
async def test_an_orphan_that_cannot_be_reclaimed_is_named_once(
    stub: StubBackend, target: str, short_grace: float, call: str
) -> None:
    stub.gates.at("provision", "committed", raising(NativeError("504")))
    stub.gates.at(call, "before", raising(then=NativeError("engine away")))
    with pytest.warns(OrphanedSandboxWarning) as caught, pytest.raises(CreationError, match="504"):
        await sandboxio.create(target)
    assert len(caught) == 1
    assert stub.made[0].plan.create_id in str(caught[0].message)


async def test_a_kill_that_fails_does_not_mask_why_the_creation_failed(
    stub: StubBackend, target: str, short_grace: float
) -> None:
    """CAN-03."""
    stub.gates.at("open", "before", raising(NativeError("not ready")))
    stub.gates.at("destroy", "before", raising(then=NativeError("can't remove")))
    with pytest.warns(OrphanedSandboxWarning, match="can't remove"), pytest.raises(CreationError, match="not ready"):
        await sandboxio.create(target)


async def test_a_warning_turned_into_an_error_does_not_mask_it_either(
    stub: StubBackend, target: str, short_grace: float
) -> None:
    stub.gates.at("open", "before", raising(NativeError("not ready")))
    stub.gates.at("destroy", "before", raising(then=NativeError("can't remove")))
    with pytest.raises(CreationError, match="not ready"):
        await sandboxio.create(target)


async def test_the_orphan_warning_shows_no_secret(stub: StubBackend, target: str, short_grace: float) -> None:
    stub.gates.at("open", "before", raising(NativeError("not ready")))
    stub.gates.at("destroy", "before", raising(then=NativeError("bad key s3cr3t-value")))
    with pytest.warns(OrphanedSandboxWarning) as caught, pytest.raises(CreationError):
        await sandboxio.create(target, secrets={"KEY": "s3cr3t-value"})
    assert "s3cr3t" not in str(caught[0].message)
    assert "***" in str(caught[0].message)


async def test_a_transient_failure_of_the_removal_is_retried(stub: StubBackend, target: str) -> None:
    stub.gates.at("open", "before", raising(NativeError("not ready")))
    stub.gates.at("destroy", "before", raising(*(NativeError("busy") for _ in range(4))))
    with pytest.raises(CreationError, match="not ready"):
        await sandboxio.create(target)
    assert stub.sandboxes == {}


async def test_the_callers_progress_sees_no_secret(stub: StubBackend, target: str) -> None:
    lines: list[str] = []
    stub.gates.at("open", "committed", raising(TransportUnfit("tried s3cr3t-value", Facts())))
    async with sandboxio.create(target, secrets={"KEY": "s3cr3t-value"}, on_progress=lines.append):
        pass
    assert lines
    assert not any("s3cr3t" in line for line in lines)


async def test_an_engine_that_does_not_answer_the_probe_is_unavailable(
    stub: StubBackend, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandboxio.creation.LOOK_BOUND", 0.05)
    stub.gates.at("probe", "before", stalling)
    with pytest.raises(BackendUnavailable, match="did not answer"):
        await sandboxio.create(target)
