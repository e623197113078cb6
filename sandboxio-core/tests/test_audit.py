"""One record per operation, whatever comes of it; sinks, and what their failure means."""

import asyncio
import hashlib
import json
import logging
import os
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
import sandboxio
from hypothesis import given
from hypothesis import strategies as st
from sandboxio import (
    AuditConfig,
    AuditEvent,
    AuditSinkError,
    AuditSinkWarning,
    BlockedByGuard,
    ConfigurationError,
    ExecutionTimeout,
    FileSink,
    LoggingSink,
    NoopSink,
    OrphanedSandboxWarning,
    PathNotFound,
    QueueSink,
    ResourceLimitExceeded,
    Sandbox,
    extensions,
)
from sandboxio.audit import AuditSink, as_line, event_schema
from sandboxio.guards import Block
from sandboxio.hookspecs import hookimpl
from sandboxio.testing import Answer, FakeBackend, stalling
from sandboxio.testing.backend import FakeError

from .stub import registered

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[2]
SECRET = "s3cr3t-canary-value"


@pytest.fixture
def queue() -> QueueSink:
    return QueueSink()


@pytest.fixture
async def sandbox(sbx_fake: FakeBackend, queue: QueueSink) -> AsyncIterator[Sandbox]:
    metadata = {"tenant_id": "t1", "session_id": "s1", "other": "x"}
    made = await sandboxio.create(
        "fake://", audit=AuditConfig(sinks=(queue,)), metadata=metadata, secrets={"TOKEN": SECRET}
    )
    yield made
    sbx_fake.gates.clear()
    await made.kill()


class Broken:
    """A sink that fails."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error or OSError(f"disk full, {SECRET}")
        self.tries = 0

    async def emit(self, event: AuditEvent) -> None:
        self.tries += 1
        raise self.error


def only(queue: QueueSink) -> AuditEvent:
    [event] = queue.drain()
    return event


async def test_create_is_recorded_with_its_receipts(sandbox: Sandbox, queue: QueueSink) -> None:
    """OBS-01."""
    event = only(queue)
    assert (event.event, event.outcome, event.sandbox_id, event.backend) == ("create", "ok", sandbox.id, "fake")
    assert (event.tenant_id, event.session_id, event.isolation) == ("t1", "s1", "container")
    receipts = {receipt["policy"]: receipt for receipt in event.receipts or ()}
    assert receipts["network.egress"]["requested"] == "deny"
    assert receipts["secrets"]["requested"] in (("TOKEN",), ["TOKEN"])
    assert event.duration_ms > 0


async def test_commands_are_recorded(sbx_fake: FakeBackend, sandbox: Sandbox, queue: QueueSink) -> None:
    """OBS-01."""
    queue.drain()
    sbx_fake.on("say", Answer("four", "err", exit_code=3))
    await sandbox.run("say", stdin="input")
    event = only(queue)
    assert (event.event, event.argv, event.exit_code, event.outcome) == ("exec", ("sh", "-c", "say"), 3, "ok")
    assert (event.bytes_in, event.bytes_out, event.code, event.receipts) == (5, 7, None, None)

    sbx_fake.on_code("print(1)", Answer("1\n"))
    await sandbox.run_code("print(1)")
    event = only(queue)
    assert (event.event, event.exit_code, event.bytes_out, event.code) == ("run_code", 0, 2, None)
    assert event.code_sha256 == hashlib.sha256(b"print(1)").hexdigest()

    sbx_fake.on(["chat"], Answer("hello", exit_code=4))
    async with sandbox.stream(["chat"]) as process:
        await process.send(b"hi")
        await process.wait()
    event = only(queue)
    assert (event.event, event.exit_code, event.bytes_in, event.bytes_out) == ("stream", 4, 2, 5)


async def test_files_are_recorded(sandbox: Sandbox, queue: QueueSink, tmp_path: Path) -> None:
    """OBS-01."""
    queue.drain()
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_bytes(b"12345")
    files = sandbox.files
    await files.write("a", b"123")
    await files.read("a")
    await files.upload(tmp_path / "tree", "tree")
    await files.download("tree", tmp_path / "down")
    async with files.open_write("b") as writer:
        await writer.write(b"12")
        await writer.write(b"34")
    async with files.open_read("b") as reader:
        async for _ in reader:
            pass
    await files.ls()
    await files.stat("a")
    await files.mkdir("d")
    await files.remove("d")
    with pytest.raises(PathNotFound):
        await files.read("nope")
    assert not await files.exists("nope")
    assert [(event.event, event.path, event.bytes_in, event.bytes_out, event.outcome) for event in queue.drain()] == [
        ("file_write", "/work/a", 3, None, "ok"),
        ("file_read", "/work/a", None, 3, "ok"),
        ("file_upload", "/work/tree", 5, None, "ok"),
        ("file_download", "/work/tree", None, 5, "ok"),
        ("file_write", "/work/b", 4, None, "ok"),
        ("file_read", "/work/b", None, 4, "ok"),
        ("file_list", "/work", None, None, "ok"),
        ("file_stat", "/work/a", None, None, "ok"),
        ("file_mkdir", "/work/d", None, None, "ok"),
        ("file_remove", "/work/d", None, None, "ok"),
        ("file_read", "/work/nope", None, None, "SBX_E1701"),
        ("file_stat", "/work/nope", None, None, "SBX_E1701"),
    ]


async def test_what_the_provider_blocked_is_recorded(sbx_fake: FakeBackend, sandbox: Sandbox, queue: QueueSink) -> None:
    """NET-07."""
    await sandbox.run(["true"])
    sbx_fake.sandboxes[0].denials = 2
    await sandbox.run(["true"])
    async with sandboxio.connect("fake://", sandbox.id, audit=AuditConfig(sinks=(queue,))) as again:
        await again.files.write("a", b"")
    assert [event.network_denials for event in queue.drain()] == [0, 0, 2, 2, 2, 2]


async def test_a_count_that_fails_costs_no_record_and_replaces_nothing(
    sbx_fake: FakeBackend, sandbox: Sandbox, queue: QueueSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OBS-01, TRD-08."""

    def fails() -> int:
        raise ZeroDivisionError(SECRET)

    sbx_fake.on(["stuck"], Answer(hangs=True))
    queue.drain()
    monkeypatch.setattr(sandbox._lease.recorder, "_denials", fails)
    with pytest.warns(AuditSinkWarning, match=r"counting denials failed: ZeroDivisionError: \*\*\*"):
        assert (await sandbox.run(["true"])).ok
    with pytest.warns(AuditSinkWarning), anyio.move_on_after(0.05) as scope:
        await sandbox.run(["stuck"])
    assert scope.cancelled_caught
    assert [(event.outcome, event.network_denials) for event in queue.drain()] == [("ok", None), ("cancelled", None)]
    monkeypatch.undo()


async def test_a_kill_whose_end_was_not_seen_is_not_recorded_as_done(
    sbx_fake: FakeBackend, queue: QueueSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OBS-01, TRD-03."""
    monkeypatch.setenv("SBX_TEARDOWN_GRACE", "0.2")
    sandbox = await sandboxio.create("fake://", audit=AuditConfig(sinks=(queue,)))
    queue.drain()
    sbx_fake.gates.at("destroy", "before", stalling)
    with pytest.warns(OrphanedSandboxWarning):
        await sandbox.kill()
    assert only(queue).outcome == "OrphanedSandboxWarning"
    sbx_fake.gates.clear()
    await sandbox.kill()
    assert only(queue).outcome == "ok"


async def test_a_provider_that_counts_nothing_says_nothing(queue: QueueSink) -> None:
    """NET-07."""
    target = f"{registered().info.name}://"
    async with sandboxio.create(target, audit=AuditConfig(sinks=(queue,))) as sandbox:
        await sandbox.run(["true"])
    assert {event.network_denials for event in queue.drain()} == {None}


async def test_failures_are_recorded(sbx_fake: FakeBackend, sandbox: Sandbox, queue: QueueSink) -> None:
    """OBS-01."""
    queue.drain()
    sbx_fake.on(["stuck"], Answer("half", hangs=True))
    sbx_fake.on(["greedy"], Answer("half", limit="memory_mb", exit_code=137))
    with pytest.raises(ExecutionTimeout):
        await sandbox.run(["stuck"], timeout=0.05)
    event = only(queue)
    assert (event.outcome, event.exit_code, event.bytes_out) == ("SBX_E1302", None, 4)
    with pytest.raises(ResourceLimitExceeded):
        await sandbox.run(["greedy"])
    event = only(queue)
    assert (event.outcome, event.exit_code, event.bytes_out) == ("SBX_E1402", 137, 4)
    async with sandbox.stream(["stuck"], timeout=0.05) as process:
        with pytest.raises(ExecutionTimeout):
            await process.wait()
    assert only(queue).outcome == "SBX_E1302"
    sbx_fake.fail("start", FakeError("503"))
    with pytest.raises(sandboxio.SandboxError):
        await sandbox.run(["true"])
    assert only(queue).outcome == "SBX_E1301"


async def test_a_cancelled_operation_is_recorded(sbx_fake: FakeBackend, sandbox: Sandbox, queue: QueueSink) -> None:
    """OBS-01, TRD-08: in the part that can't be cancelled."""
    queue.drain()
    sbx_fake.on(["stuck"], Answer("half", hangs=True))
    with anyio.move_on_after(0.05) as scope:
        await sandbox.run(["stuck"])
    assert scope.cancelled_caught
    assert only(queue).outcome == "cancelled"
    with anyio.move_on_after(0.05) as scope:
        async with sandbox.stream(["stuck"]) as process:
            await process.wait()
    assert scope.cancelled_caught
    assert only(queue).outcome == "cancelled"


@pytest.mark.parametrize("call", ["probe", "provision", "observe", "open"])
async def test_a_create_that_fails_or_is_cancelled_is_recorded_once(
    call: str, sbx_fake: FakeBackend, queue: QueueSink, short_grace: float
) -> None:
    """OBS-01."""
    audit = AuditConfig(sinks=(queue,))
    sbx_fake.fail(call, FakeError("503"))
    with pytest.raises(sandboxio.SandboxError) as caught:
        await sandboxio.create("fake://", audit=audit)
    event = only(queue)
    assert (event.event, event.outcome, event.sandbox_id) == ("create", caught.value.code, None)
    sbx_fake.gates.at(call, "committed", stalling)
    with anyio.move_on_after(0.05) as scope, warnings.catch_warnings():
        warnings.simplefilter("ignore", sandboxio.OrphanedSandboxWarning)
        await sandboxio.create("fake://", audit=audit)
    assert scope.cancelled_caught
    assert only(queue).outcome == "cancelled"
    sbx_fake.gates.clear()
    assert sbx_fake.alive == [] or call == "provision"
    for left in sbx_fake.alive:
        left.end("killed")


async def test_kill_is_recorded_once_and_by_whatever_ends_the_block(sbx_fake: FakeBackend, queue: QueueSink) -> None:
    async with sandboxio.create("fake://", audit=AuditConfig(sinks=(queue,))) as sandbox:
        pass
    await sandbox.kill()
    assert [event.event for event in queue.drain()] == ["create", "kill"]


async def test_kills_at_once_leave_one_record(sbx_fake: FakeBackend, queue: QueueSink) -> None:
    """TRD-04: those that only waited for the end did nothing."""
    sandbox = await sandboxio.create("fake://", audit=AuditConfig(sinks=(queue,)))
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(sandbox.kill)
    assert [event.event for event in queue.drain()] == ["create", "kill"]
    assert sbx_fake.alive == []


class Mute:
    """A sink whose ``emit`` takes nothing."""

    emit = 3


@pytest.mark.parametrize("sink", [3, print, Mute()])
def test_what_takes_no_events_is_no_sink(sink: Any) -> None:
    with pytest.raises(ConfigurationError, match="sinks"):
        AuditConfig(sinks=(sink,))


async def test_code_is_captured_only_where_that_was_asked_for(sbx_fake: FakeBackend, queue: QueueSink) -> None:
    code = f"print({SECRET!r})"
    sbx_fake.on_code(code, Answer())
    audit = AuditConfig(sinks=(queue,), capture_code=True)
    async with sandboxio.create("fake://", audit=audit, secrets={"TOKEN": SECRET}) as sandbox:
        await sandbox.run_code(code)
    event = queue.drain()[1]
    assert event.code == "print('***')"


async def test_no_secret_is_in_a_record(sbx_fake: FakeBackend, sandbox: Sandbox, queue: QueueSink) -> None:
    """SEC-01."""
    queue.drain()
    sbx_fake.on(["login", SECRET], Answer())
    await sandbox.run(["login", SECRET], stdin=SECRET)
    await sandbox.files.write(f"dir/{SECRET}", SECRET)
    shown = "".join(event.model_dump_json() + repr(event) for event in queue.drain())
    assert SECRET not in shown
    assert "***" in shown


async def test_a_failing_sink_warns(sbx_fake: FakeBackend, queue: QueueSink) -> None:
    """OBS-01: the others still get the record, and nothing secret is in the warning."""
    broken = Broken()
    with pytest.warns(AuditSinkWarning, match="Broken failed: OSError") as caught:
        async with sandboxio.create(
            "fake://", audit=AuditConfig(sinks=(broken, queue)), secrets={"TOKEN": SECRET}
        ) as sandbox:
            assert (await sandbox.run(["true"])).ok
    assert broken.tries == 3
    assert [event.event for event in queue.drain()] == ["create", "exec", "kill"]
    assert all(SECRET not in str(warning.message) for warning in caught)


async def test_a_sandbox_that_can_not_be_recorded_is_destroyed(sbx_fake: FakeBackend) -> None:
    audit = AuditConfig(sinks=(Broken(),), on_sink_failure="fail")
    with pytest.raises(AuditSinkError, match=r"Broken failed[\s\S]*Fix: repair the sink"):
        await sandboxio.create("fake://", audit=audit)
    assert len(sbx_fake.sandboxes) == 1
    assert sbx_fake.alive == []


async def test_a_run_that_can_not_be_recorded_raises_with_its_result(sbx_fake: FakeBackend) -> None:
    queue = QueueSink(size=1)
    sbx_fake.on(["say"], Answer("kept"))
    sandbox = await sandboxio.create("fake://", audit=AuditConfig(sinks=(queue,), on_sink_failure="fail"))
    with pytest.raises(AuditSinkError, match="queue is full") as caught:
        await sandbox.run(["say"])
    assert caught.value.result is not None
    assert caught.value.result.stdout == "kept"
    sbx_fake.on(["stuck"], Answer(hangs=True))
    with pytest.raises(ExecutionTimeout) as timeout:
        await sandbox.run(["stuck"], timeout=0.05)
    assert any("queue is full" in note for note in timeout.value.__notes__)
    queue.drain()
    await sandbox.kill()
    assert only(queue).event == "kill"


@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit(3)], ids=["cancelled", "exit"])
async def test_whatever_a_sink_raises_is_its_own_failure(
    error: BaseException, sbx_fake: FakeBackend, queue: QueueSink
) -> None:
    """OBS-01, TRD-08: neither the operation nor its cancellation is replaced, and the other sinks get the record."""
    sbx_fake.on(["stuck"], Answer(hangs=True))

    async def use_it() -> None:
        async with sandboxio.create("fake://", audit=AuditConfig(sinks=(Broken(error), queue))) as sandbox:
            assert (await sandbox.run(["true"])).ok
            with anyio.move_on_after(0.05) as scope:
                await sandbox.run(["stuck"])
            assert scope.cancelled_caught

    with pytest.warns(AuditSinkWarning, match="Broken failed"):
        await use_it()
    seen = [(event.event, event.outcome) for event in queue.drain()]
    assert seen == [("create", "ok"), ("exec", "ok"), ("exec", "cancelled"), ("kill", "ok")]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("policy", ["warn", "fail"])
async def test_no_lost_record_replaces_what_left(policy: Literal["warn", "fail"], sbx_fake: FakeBackend) -> None:
    """TRD-08: neither a failed sink nor its warning, turned into an error, stands in the place of what left the block."""
    sbx_fake.on(["stuck"], Answer(hangs=True))

    def audit() -> AuditConfig:
        return AuditConfig(sinks=(QueueSink(size=1),), on_sink_failure=policy)

    with anyio.move_on_after(0.05) as run:
        async with sandboxio.create("fake://", audit=audit()) as sandbox:
            await sandbox.run(["stuck"])
    assert run.cancelled_caught
    with pytest.raises(KeyError) as caught:
        async with sandboxio.create("fake://", audit=audit()):
            raise KeyError("mine")
    assert any("queue is full" in note for note in caught.value.__notes__)
    with pytest.raises(ExecutionTimeout) as late:
        async with sandboxio.create("fake://", audit=audit()) as sandbox:
            await sandbox.run(["stuck"], timeout=0.05)
    assert len([note for note in late.value.__notes__ if "queue is full" in note]) == 2
    assert sbx_fake.alive == []


@pytest.mark.parametrize("word", ["exec", "kill", "path", "argv", "outcome", "event"])
async def test_a_secret_may_be_a_word_of_ours(word: str, sbx_fake: FakeBackend, queue: QueueSink) -> None:
    async with sandboxio.create("fake://", audit=AuditConfig(sinks=(queue,)), secrets={"TOKEN": word}) as sandbox:
        await sandbox.run(["true", word])
    assert [event.event for event in queue.drain()] == ["create", "exec", "kill"]


async def test_a_sink_that_hangs_is_given_up(
    sbx_fake: FakeBackend, queue: QueueSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others still get the record."""

    class Hanging:
        async def emit(self, event: AuditEvent) -> None:
            await anyio.sleep_forever()

    monkeypatch.setenv("SBX_AUDIT_TIMEOUT", "0.1")
    with pytest.warns(AuditSinkWarning, match=r"Hanging did not take a record within 0\.1 s"):
        async with sandboxio.create("fake://", audit=AuditConfig(sinks=(Hanging(), queue))):
            pass
    assert [event.event for event in queue.drain()] == ["create", "kill"]
    monkeypatch.setenv("SBX_AUDIT_TIMEOUT", "soon")
    with pytest.raises(ConfigurationError, match="SBX_AUDIT_TIMEOUT"):
        await sandboxio.create("fake://")


async def test_a_file_of_ones_own(sbx_fake: FakeBackend, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for _ in range(2):
        async with sandboxio.create("fake://", audit=AuditConfig(sinks=(FileSink(path), NoopSink()))):
            pass
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["create", "kill"] * 2
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("kind", ["readable", "link", "fifo", "missing folder"])
async def test_a_file_that_others_may_use_is_refused(kind: str, sbx_fake: FakeBackend, tmp_path: Path) -> None:
    path = tmp_path / "audit"
    if kind == "readable":
        path.touch(0o644)
    elif kind == "link":
        (tmp_path / "target").touch(0o600)
        path.symlink_to(tmp_path / "target")
    elif kind == "fifo":
        os.mkfifo(path, 0o600)
    else:
        path = tmp_path / "none" / "audit"
    with pytest.raises(AuditSinkError):
        await sandboxio.create("fake://", audit=AuditConfig(sinks=(FileSink(path),), on_sink_failure="fail"))
    assert kind in ("fifo", "missing folder") or path.read_bytes() == b""


async def test_the_log(sbx_fake: FakeBackend, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "sandboxio.audit")
    async with sandboxio.create("fake://", audit=AuditConfig(sinks=(LoggingSink(),))):
        pass
    events = [json.loads(line.getMessage())["event"] for line in caplog.records if line.name == "sandboxio.audit"]
    assert events == ["create", "kill"]


async def test_an_organisations_sink_gets_everything(sbx_fake: FakeBackend) -> None:
    queue = QueueSink()

    class Plugin:
        @hookimpl
        def sandboxio_audit_sink(self) -> AuditSink:
            return queue

        @hookimpl
        def sandboxio_review_exec(self) -> object:
            return Block("no commands here")

    extensions.register(Plugin(), "audit-test")
    try:
        async with sandboxio.create("fake://") as sandbox:
            with pytest.raises(BlockedByGuard):
                await sandbox.run(["true"])
    finally:
        extensions.unregister("audit-test")
    assert [(event.event, event.outcome) for event in queue.drain()] == [
        ("create", "ok"),
        ("exec", "SBX_E1503"),
        ("kill", "ok"),
    ]


async def test_a_wrong_audit_argument_is_refused(sbx_fake: FakeBackend) -> None:
    with pytest.raises(ConfigurationError, match="AuditConfig"):
        AuditConfig(sinks=(object(),))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="on_sink_failure"):
        AuditConfig(on_sink_failure="ignore")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="audit"):
        await sandboxio.create("fake://", audit=QueueSink())  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError):
        QueueSink(0)
    assert sbx_fake.gates.calls == []


@given(st.lists(st.text(), max_size=4), st.text())
def test_an_event_is_one_line_of_json(argv: list[str], path: str) -> None:
    event = AuditEvent(
        ts=0, event="exec", sandbox_id=None, backend="b", isolation="i", duration_ms=0, outcome="ok",
        argv=tuple(argv), path=path,
    )  # fmt: skip
    line = as_line(event)
    assert len(line.splitlines()) == 1
    assert AuditEvent.model_validate_json(line) == event


async def test_names_that_are_no_text_are_recorded(sandbox: Sandbox, queue: QueueSink) -> None:
    queue.drain()
    await sandbox.files.write("a\udcff", b"")
    event = only(queue)
    assert event.path == "/work/a\\udcff"
    as_line(event)


def test_the_published_schema_is_the_events() -> None:
    published = json.loads((ROOT / "docs" / "audit-event.schema.json").read_text())
    assert published == event_schema(), "run: python -m sandboxio.audit > docs/audit-event.schema.json"
