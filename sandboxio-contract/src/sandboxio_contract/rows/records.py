"""Rows about what is recorded of operations, and of what the provider blocked."""

import contextlib
import secrets
import tempfile
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import sandboxio
from sandboxio import (
    AuditConfig,
    AuditEvent,
    AuditSinkError,
    AuditSinkWarning,
    CapabilityNotSupported,
    ConfigurationError,
    ExecutionTimeout,
    FileSink,
    NetworkPolicy,
    PathNotFound,
    QueueSink,
    Sandbox,
    SandboxError,
)

from sandboxio_contract.rows import row
from sandboxio_contract.rows.inside import DEADLINE, GRACE, SLACK, has_files, has_shell, left_over, raises
from sandboxio_contract.rows.sweep import ASKED
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, Inconclusive, Part, proven, require, summed

Operation = tuple[str, str, str, Callable[[], Awaitable[object]]]
"""Its name, and the event and outcome that it is recorded with."""
HELD = 0.2
"""Seconds for which the request of a cancelled creation is held on."""


class _Fails:
    """A sink that takes nothing as long as it is broken."""

    def __init__(self) -> None:
        self.broken = True

    async def emit(self, event: AuditEvent) -> None:
        if self.broken:
            raise OSError("the disk is full")


class _Sinks:
    """A sink that takes nothing, a queue and a file: what the two took is the same, and each loss is told of.

    :param told: the warnings about sinks, as they come.
    """

    def __init__(self, folder: str, told: "list[warnings.WarningMessage]") -> None:
        self._queue, self._path, self._told = QueueSink(), Path(folder, "audit.jsonl"), told
        self._lines = self._losses = 0
        self.audit = AuditConfig(sinks=(_Fails(), self._queue, FileSink(self._path)))

    def drain(self) -> Sequence[AuditEvent]:
        """Return the records since the last time."""
        events = self._queue.drain()
        lines = self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []
        new, lost = lines[self._lines :], len(self._told) - self._losses
        self._lines, self._losses = len(lines), len(self._told)
        filed = [AuditEvent.model_validate_json(line).model_dump_json() for line in new]
        same = filed == [event.model_dump_json() for event in events]
        require(same, f"of {len(events)} records in the one sink the other has {len(new)}, or other ones")
        require(lost == len(events), f"{lost} AuditSinkWarnings for {len(events)} records that a third sink lost")
        return events


@row("OBS-01")
async def each_operation_leaves_one_record(target: Target) -> Finding:
    """Successes, failures, deadlines and cancellations leave exactly one record each, of the right kind and outcome.

    In a queue and in a file alike, while a third sink fails.
    """
    with tempfile.TemporaryDirectory(prefix="sandboxio-contract-") as folder:
        async with _warned() as told:
            return await _recorded(target, _Sinks(folder, told))


async def _recorded(target: Target, queue: _Sinks) -> Finding:
    audit = queue.audit
    metadata = {"tenant_id": "a", "session_id": "b"}
    async with target.sandbox(audit=audit, metadata=metadata) as sb:
        created = _only(queue, "create()", "create", "ok")
        require(created.sandbox_id == sb.id, f"the record of create() names {created.sandbox_id}, the id is {sb.id}")
        require((created.tenant_id, created.session_id) == ("a", "b"), "the record does not say whose sandbox it is")
        policies = [str(item.get("policy")) for item in created.receipts or ()]
        wanted = [item.policy for item in sb.policy]
        require(policies == wanted, f"the record of create() has the receipts {', '.join(policies)}")
        parts = [Part("create", "proven", "with its receipts")]
        operations = await _operations(target, sb)
        queue.drain()
        for name, event, outcome, call in operations:
            await call()
            made = _only(queue, name, event, outcome)
            require(made.sandbox_id == sb.id, f"the record of {name} names {made.sandbox_id}")
            parts.append(Part(name, "proven", f"{event}, {outcome}"))
        await sb.kill()
        _only(queue, "kill()", "kill", "ok")
        await sb.kill()
    require(not queue.drain(), "ending what has ended left another record")
    parts += await _failed_creations(target, queue, audit)
    return summed(parts)


@row("OBS-01")
async def a_failing_sink_does_what_was_asked_for(target: Target) -> Finding:
    """`on_sink_failure="warn"` warns and goes on; `"fail"` raises with the result, and destroys what can't be recorded."""
    sink = _Fails()
    async with _warned() as told, target.sandbox(audit=AuditConfig(sinks=(sink,))) as sb:
        before = len(told)
        require(before == 1, f"{before} AuditSinkWarnings were emitted for a lost record of create(), not 1")
        require((await sb.run(["true"])).ok, "a lost record changed the result of a command")
        require(len(told) - before == 1, f"{len(told) - before} AuditSinkWarnings for a lost record of run(), not 1")
    mark = {"row": f"sink-{secrets.token_hex(3)}"}
    strict = AuditConfig(sinks=(sink,), on_sink_failure="fail")
    await raises(AuditSinkError, _made(target, target.dsn, strict, mark), "create() without a record")
    left = await left_over(target, mark, within=GRACE + SLACK)
    require(not left, f"a sandbox that could not be recorded lives on: {', '.join(map(str, left))}")
    sink.broken = False
    async with target.sandbox(audit=strict) as sb:
        sink.broken = True
        error = await raises(AuditSinkError, sb.run(["true"]), "run() without a record")
        require(error.result is not None and error.result.ok, f"the error carries the result {error.result!r}")
        failed = await raises(ConfigurationError, sb.run(["true"], cwd="/no/such"), "a failure without a record")
        told_of = any("the disk is full" in note for note in getattr(failed, "__notes__", []))
        require(told_of, "an error that could not be recorded does not say so")
        sink.broken = False
    return proven("warned once for each lost record, or raised with the result; what can't be recorded is destroyed")


@row("NET-07")
async def what_was_blocked_is_counted(target: Target) -> Finding:
    """Where the provider counts the attempts at egress that it blocked, the count is in the record."""
    queue = QueueSink()
    async with target.sandbox(audit=AuditConfig(sinks=(queue,))) as sb:
        counted = await target.look(target.ground.blocked_attempt, sb.id)
        if counted is None:
            return Finding("not applicable", "the provider does not count what it blocks")
        await sb.run(["true"])
        recorded = queue.drain()[-1].network_denials
        require(recorded == counted, f"the provider counts {counted} blocked attempts, the record says {recorded}")
    return proven(f"{counted} in the provider's count and in the record")


def _only(queue: QueueSink | _Sinks, name: str, event: str, outcome: str) -> AuditEvent:
    found = queue.drain()
    require(len(found) == 1, f"{name} left {len(found)} records, not 1: {[one.event for one in found]}")
    (made,) = found
    require(made.event == event, f"{name} is recorded as {made.event!r}, not {event!r}")
    require(made.outcome == outcome, f"{name} is recorded with the outcome {made.outcome!r}, not {outcome!r}")
    require(made.duration_ms >= 0 and made.ts > 0, f"the record of {name} has no time")
    return made


async def _operations(target: Target, sb: Sandbox) -> list[Operation]:
    late = ExecutionTimeout.code

    async def stream() -> None:
        async with sb.stream(["true"]) as proc:
            await proc.wait()

    async def cancelled() -> None:
        with anyio.move_on_after(0.3):
            await sb.run(["sleep", "30"], timeout=20)

    async def connected() -> None:
        queue = QueueSink()
        try:
            again = await sandboxio.connect(target.dsn, sb.id, audit=AuditConfig(sinks=(queue,)))
        except CapabilityNotSupported as error:
            _only(queue, "a refused connect()", "connect", error.code)
            await sb.run(["true"])
            return
        _only(queue, "connect()", "connect", "ok")
        await again.run(["true"])
        _only(queue, "run() of a connected sandbox", "exec", "ok")
        with contextlib.suppress(CapabilityNotSupported):
            await again.detach()
            _only(queue, "detach()", "detach", "ok")
        await sb.run(["true"])

    async def refused() -> None:
        await raises(SandboxError, sb.run([]), "run([])")  # no operation: it is refused as it is called
        await sb.run(["true"])

    found: list[Operation] = [
        ("a command", "exec", "ok", lambda: sb.run(["true"])),
        ("a command that fails", "exec", "ok", lambda: sb.run(["false"])),
        (
            "a deadline",
            "exec",
            late,
            lambda: raises(ExecutionTimeout, sb.run(["sleep", "30"], timeout=DEADLINE), "sleep"),
        ),
        ("a cancellation", "exec", "cancelled", cancelled),
        ("a stream", "stream", "ok", stream),
        ("a wrong argument", "exec", "ok", refused),
        ("a connection", "exec", "ok", connected),
    ]
    if await has_files(sb):
        found += _file_operations(sb)
    if await has_shell(sb):
        found.append(("code", "run_code", "ok", lambda: sb.run_code(":", language="shell")))
    if sb.info().get("kill") != "tree":  # there a deadline ends the sandbox
        found = [one for one in found if one[0] not in ("a deadline", "a cancellation")]
    return found


def _file_operations(sb: Sandbox) -> list[Operation]:
    files, missing = sb.files, PathNotFound.code

    async def opened_to_write() -> None:
        async with files.open_write("recorded") as file:
            await file.write(b"1")

    async def opened_to_read() -> None:
        async with files.open_read("recorded") as file:
            async for _ in file:
                pass

    async def up() -> None:
        with tempfile.NamedTemporaryFile() as local:
            await files.upload(local.name, "recorded")

    async def down() -> None:
        with tempfile.TemporaryDirectory() as local:
            await files.download("recorded", f"{local}/recorded")

    return [
        ("open_write", "file_write", "ok", opened_to_write),
        ("open_read", "file_read", "ok", opened_to_read),
        ("upload", "file_upload", "ok", up),
        ("download", "file_download", "ok", down),
        ("write", "file_write", "ok", lambda: files.write("recorded", b"1")),
        ("read", "file_read", "ok", lambda: files.read("recorded")),
        ("ls", "file_list", "ok", lambda: files.ls(".")),
        ("stat", "file_stat", "ok", lambda: files.stat("recorded")),
        ("mkdir", "file_mkdir", "ok", lambda: files.mkdir("recorded-too")),
        ("remove", "file_remove", "ok", lambda: files.remove("recorded")),
        ("a missing file", "file_read", missing, lambda: raises(PathNotFound, files.read("none"), "read")),
    ]


async def _failed_creations(target: Target, queue: _Sinks, audit: AuditConfig) -> list[Part]:
    wrong: dict[str, dict[str, Any]] = {"a policy that is refused": {"network": NetworkPolicy(egress="learn")}}
    with contextlib.suppress(Inconclusive):
        wrong["a template that can't be had"] = {"dsn": target.ground.absent_template()}
    parts: list[Part] = []
    for name, options in wrong.items():
        error: Any = await raises(SandboxError, target.create(audit=audit, **options), name)
        made = _only(queue, name, "create", error.code)
        require(made.sandbox_id is None, f"the record of {name} names an id")
        parts.append(Part(name, "proven", f"create, {error.code}"))
    return [*parts, *await _cancelled_creation(target, queue, audit)]


async def _cancelled_creation(target: Target, queue: _Sinks, audit: AuditConfig) -> list[Part]:
    """Cancel while the provider is asked for the sandbox: before that there is no operation, and nothing to record."""
    mark = {"row": f"cancelled-{secrets.token_hex(3)}"}
    try:
        with target.ground.spied() as spied:
            gate = spied.wire.gate(spied.creates, "before send")
            async with anyio.create_task_group() as group:
                group.start_soon(_made, target, spied.dsn, audit, mark)
                await target.look(gate.reached.wait, ASKED)
                group.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(HELD)
                    gate.open()
    except Inconclusive:
        return []  # nobody can tell when that is
    _only(queue, "create() that was cancelled", "create", "cancelled")
    left = await left_over(target, mark, within=GRACE + SLACK)
    require(not left, f"a creation that was cancelled left {', '.join(map(str, left))}")
    return [Part("a cancelled creation", "proven", "create, cancelled")]


async def _made(target: Target, dsn: str, audit: AuditConfig, mark: dict[str, str]) -> object:
    made = await target.create(dsn=dsn, audit=audit, metadata=mark)
    await made.kill()
    return made


@asynccontextmanager
async def _warned() -> AsyncGenerator[list[warnings.WarningMessage]]:
    """Collect the warnings about sinks, as they come."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", AuditSinkWarning)
        yield seen
