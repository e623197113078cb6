"""SEC-01: a secret in any argument of any public call, and in any answer of the provider, leaves core nowhere."""

import base64
import html
import json
import logging
import re
import traceback
import warnings
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest
import sandboxio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sandboxio import (
    Absent,
    AuditConfig,
    AuditEvent,
    ConfigurationError,
    CreationError,
    FileSink,
    FileSystemError,
    LoggingSink,
    NetworkPolicy,
    Plan,
    PolicyNotEnforced,
    QueueSink,
    Resources,
    Sandbox,
    SandboxError,
    SandboxGone,
    extensions,
    otel,
)
from sandboxio.audit import AuditSink, as_line
from sandboxio.hookspecs import hookimpl
from sandboxio.port import Chunk, Command, Exit, Facts

from .stub import Program, StubBackend, StubConfig, StubSession, raising

pytestmark = pytest.mark.anyio

canaries = st.text(st.sampled_from("abcXYZ0189-_./+=:@ %'\"\\<&ü€"), min_size=8, max_size=24).map(
    lambda text: f"q7{text}Zk"
)
few = settings(
    max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


class NativeError(Exception):
    """What a provider's SDK raises."""


def shown_forms(canary: str) -> list[str]:
    data = canary.encode()
    forms = [
        canary,
        repr(canary)[1:-1],
        json.dumps(canary)[1:-1],
        quote(canary),
        data.hex(),
        base64.b64encode(data).decode(),
        base64.b64encode(canary.encode("utf-16-le")).decode(),
        base64.b32encode(data).decode().rstrip("="),
        html.escape(canary),
        re.escape(canary),
    ]
    return [*forms, canary[:10], canary[-10:]]


def everything_of(error: BaseException | None, seen: set[int]) -> Iterator[str]:
    """Everything that a log, a crash report or a debugger shows of an error and its chain."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    yield from traceback.format_exception(error)
    yield from (str(error), repr(error), repr(error.args), *map(str, getattr(error, "__notes__", [])))
    yield from (f"{name}={value!r}" for name, value in vars(error).items() if not name.endswith("_bytes"))
    yield from everything_of(error.__cause__, seen)
    yield from everything_of(error.__context__, seen)


class Sinks:
    """An organisation's audit sink: every sink that there is, for whatever the process does."""

    def __init__(self, file: Path) -> None:
        self._queue, self._file = QueueSink(), file
        self._all = (self._queue, FileSink(file), LoggingSink())

    @hookimpl
    def sandboxio_audit_sink(self) -> AuditSink:
        return self

    async def emit(self, event: AuditEvent) -> None:
        for sink in self._all:
            await sink.emit(event)

    def drain(self) -> tuple[list[str], list[str]]:
        """Return what was recorded, and every text that shows it."""
        events = self._queue.drain()
        lines = self._file.read_text() if events else ""
        self._file.unlink(missing_ok=True)
        assert len(lines.splitlines()) == len(events), "a sink took less than another"
        return [event.event for event in events], [*map(repr, events), *map(as_line, events), lines]


class Spans:
    """A host that collects spans."""

    use_span = staticmethod(trace.use_span)

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.get_tracer = provider.get_tracer

    def drain(self) -> list[str]:
        spans = [span.to_json() for span in self._exporter.get_finished_spans()]
        self._exporter.clear()
        return spans


class Watch:
    """Collects what leaves core: errors, warnings, logs, audit records and spans.

    :ivar recorded: the events of the records that were searched. :ivar spans: the number of spans.
    """

    def __init__(self, caplog: pytest.LogCaptureFixture, sinks: Sinks) -> None:
        self.texts: list[str] = []
        self.errors: list[BaseException] = []
        self.recorded: set[str] = set()
        self.spans = 0
        self._caplog = caplog
        self._sinks = sinks
        self._spans = Spans()

    @contextmanager
    def block(self) -> Generator[None]:
        self._caplog.clear()
        with (
            warnings.catch_warnings(record=True) as warned,
            self._caplog.at_level(logging.DEBUG),
            otel.begun_with(self._spans),
        ):
            warnings.simplefilter("always")
            try:
                yield
            except Exception as error:  # noqa: BLE001 - whatever comes out is looked at
                self.errors.append(error)
                self.texts += everything_of(error, set())
        self.texts += [str(warning.message) for warning in warned]
        self._take_records()

    def _take_records(self) -> None:
        events, shown = self._sinks.drain()
        spans = self._spans.drain()
        self.recorded.update(events)
        self.spans += len(spans)
        self.texts += [*shown, *spans, self._caplog.text]

    def check(self, canary: str) -> None:
        self._take_records()  # of what was done outside a block
        text = "\n".join(self.texts)
        self.texts.clear()
        for form in shown_forms(canary):
            assert form not in text, f"{form!r} in {text}"


@pytest.fixture
def watch(caplog: pytest.LogCaptureFixture, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    sinks = Sinks(tmp_path_factory.mktemp("audit") / "records")
    extensions.register(sinks, "watch")
    try:
        yield Watch(caplog, sinks)
    finally:
        extensions.unregister("watch")


Arguments = Callable[[str], dict[str, Any]]

CREATE: dict[str, Arguments] = {
    "target": lambda canary: {"target": canary},
    "target, scheme": lambda canary: {"target": f"{canary}://x"},
    "template": lambda canary: {"template": canary},
    "template, user": lambda canary: {"template": f"img@{canary}"},
    "resources": lambda canary: {"resources": canary},
    "network": lambda canary: {"network": canary},
    "env": lambda canary: {"env": canary},
    "env, name": lambda canary: {"env": {canary: "v"}},
    "env, bad name": lambda canary: {"env": {f"{canary}=": "v"}},
    "env, NUL": lambda canary: {"env": {"A": f"{canary}\0"}},
    "env, too long": lambda canary: {"env": {canary: "v" * 200_000}},
    "env, no text": lambda canary: {"env": {canary: 5}},
    "secrets, name": lambda canary: {"secrets": {"KEY": canary, canary: "value"}},
    "secrets, bad name": lambda canary: {"secrets": {"KEY": canary, f"{canary}=": "value"}},
    "secrets, short": lambda canary: {"secrets": {"KEY": canary, canary: "v"}},
    "secrets, NUL": lambda canary: {"secrets": {"KEY": canary, "B": f"{canary}\0"}},
    "secrets, text": lambda canary: {"secrets": canary},
    "timeout": lambda canary: {"timeout": canary},
    "metadata": lambda canary: {"metadata": canary},
    "metadata, key": lambda canary: {"metadata": {canary: "v"}},
    "metadata, value": lambda canary: {"metadata": {"k": f"a {canary} b"}},
    "metadata, base64": lambda canary: {"metadata": {"k": base64.b64encode(canary.encode()).decode()}},
    "metadata, NUL": lambda canary: {"metadata": {canary: "\0"}},
    "require_isolation": lambda canary: {"require_isolation": canary},
    "redact_output": lambda canary: {"redact_output": canary},
    "gpu": lambda canary: {"resources": Resources(gpu=canary)},
    "configuration": lambda canary: {"target": StubConfig(names=(canary,))},
}


@pytest.mark.parametrize("name", CREATE)
@pytest.mark.parametrize("call", ["create", "plan"])
@few
@given(canary=canaries)
async def test_no_argument_of_create_or_plan(
    stub: StubBackend, target: str, watch: Watch, name: str, call: str, canary: str
) -> None:
    arguments = {"target": target, "secrets": {"KEY": canary}, **CREATE[name](canary)}
    before = len(watch.errors)
    with watch.block():
        made = await getattr(sandboxio, call)(**arguments)
        watch.texts.append(repr(made))
        if call == "create":
            await made.kill()
    watch.check(canary)
    assert len(watch.errors) > before, "nothing here is accepted"
    assert stub.calls == []


@few
@given(canary=canaries)
async def test_no_parameter_of_a_dsn(target: str, watch: Watch, canary: str) -> None:
    for dsn in (f"{target}?{canary}=1", f"{target}?count={canary}", f"{target}?timeout={canary}", f"{target}{canary}?"):
        with watch.block():
            await sandboxio.create(dsn, secrets={"KEY": canary})
    with watch.block():  # nobody said that it is one
        await sandboxio.create(f"{target}?count={canary}")
    watch.check(canary)


def registered_twice(canary: Any) -> None:
    sandboxio.register(f"docker{canary}", canary)
    sandboxio.register(f"docker{canary}", "other")


VALUES: list[Callable[[Any], object]] = [
    lambda canary: NetworkPolicy(allow=(f"{canary} x",)),
    lambda canary: NetworkPolicy(allow=(f"https://u:{canary}@example.com",)),
    lambda canary: NetworkPolicy(allow=(f"{canary}:80",)),
    lambda canary: NetworkPolicy(egress=canary),
    lambda canary: NetworkPolicy(ingress_ports=(canary,)),
    lambda canary: NetworkPolicy(min_strength=canary),
    lambda canary: NetworkPolicy().replace(**{f"{canary}1": 1}),
    lambda canary: Resources(cpu=canary),
    lambda canary: Resources(memory_mb=canary),
    lambda canary: Resources().replace(**{f"{canary}1": 1}),
    lambda canary: StubConfig(count=canary),
    lambda canary: StubConfig(names=canary),
    registered_twice,
]


@pytest.mark.parametrize("make", VALUES, ids=range(len(VALUES)))
@few
@given(canary=canaries)
def test_no_argument_of_a_value_although_nobody_knows_yet_that_it_is_a_secret(
    watch: Watch, make: Callable[[Any], object], canary: str
) -> None:
    with watch.block():
        make(canary)
    watch.check(canary)
    assert watch.errors


def wrong(value: object) -> Any:
    """What a caller without a type checker may pass."""
    return value


CALLS: dict[str, Callable[[Sandbox, Any, Path], Awaitable[object]]] = {
    "run": lambda box, canary, here: box.run(canary),
    "run, program": lambda box, canary, here: box.run([canary]),
    "run, argument": lambda box, canary, here: box.run(["false", canary]),
    "run, NUL": lambda box, canary, here: box.run(["true", f"{canary}\0"]),
    "run, surrogate": lambda box, canary, here: box.run(["true", f"{canary}\udfff\ud800"]),
    "run, object": lambda box, canary, here: box.run(["true", wrong({canary})]),
    "run, env": lambda box, canary, here: box.run(["true"], env={f"{canary}=": "v"}),
    "run, env name": lambda box, canary, here: box.run(["true"], env={canary: "\0"}),
    "run, env clash": lambda box, canary, here: box.run(["true"], env={"KEY": canary}),
    "run, env text": lambda box, canary, here: box.run(["true"], env=canary),
    "run, cwd": lambda box, canary, here: box.run(["true"], cwd=f"{canary}\0"),
    "run, user": lambda box, canary, here: box.run(["true"], user=f"{canary}\0"),
    "run, stdin": lambda box, canary, here: box.run(["true"], stdin=f"{canary}\ud800"),
    "run, stdin list": lambda box, canary, here: box.run(["true"], stdin=wrong([canary])),
    "run, max_output": lambda box, canary, here: box.run(["true"], max_output=canary),
    "run, timeout": lambda box, canary, here: box.run(["true"], timeout=canary),
    "run_code": lambda box, canary, here: box.run_code(f"{canary}\ud800"),
    "run_code, its code": lambda box, canary, here: box.run_code(f"# {canary}"),
    "run_code, bytes": lambda box, canary, here: box.run_code(canary.encode()),
    "run_code, language": lambda box, canary, here: box.run_code("1", language=canary),
    "run_code, context": lambda box, canary, here: box.run_code("1", context=canary),
    "run_code, env": lambda box, canary, here: box.run_code("1", env={f"{canary}=": ""}),
    "stream": lambda box, canary, here: consume(box, [canary]),
    "stream, send": lambda box, canary, here: consume(box, ["hang"], canary),
    "read": lambda box, canary, here: box.files.read(canary),
    "read, max_bytes": lambda box, canary, here: box.files.read("a", max_bytes=canary),
    "read_text": lambda box, canary, here: box.files.read_text(canary),
    "read_text, encoding": lambda box, canary, here: box.files.read_text("a", encoding=canary),
    "read_text, undecodable": lambda box, canary, here: box.files.read_text(canary, encoding="ascii"),
    "write": lambda box, canary, here: box.files.write(canary, b"a"),
    "write, surrogate": lambda box, canary, here: box.files.write("a", f"{canary}\ud800"),
    "write, list": lambda box, canary, here: box.files.write("a", wrong([canary])),
    "open_read": lambda box, canary, here: opened(box, canary),
    "open_write": lambda box, canary, here: written(box, canary),
    "upload": lambda box, canary, here: box.files.upload(f"/nowhere/{canary}", "a"),
    "upload, list": lambda box, canary, here: box.files.upload(wrong([canary]), "a"),
    "upload, to": lambda box, canary, here: box.files.upload(here, canary),
    "download": lambda box, canary, here: box.files.download(canary, here / "new"),
    "download, to": lambda box, canary, here: box.files.download("a", f"/nowhere/{canary}"),
    "download, max_bytes": lambda box, canary, here: box.files.download("a", "b", max_bytes=canary),
    "ls": lambda box, canary, here: box.files.ls(canary),
    "mkdir": lambda box, canary, here: box.files.mkdir(canary),
    "remove": lambda box, canary, here: box.files.remove(canary),
    "stat": lambda box, canary, here: box.files.stat(canary),
    "exists": lambda box, canary, here: box.files.exists(canary),
}


async def consume(sandbox: Sandbox, argv: list[str], sent: Any = None) -> None:
    async with sandbox.stream(argv) as process:
        if sent is not None:
            await process.send(sent)
        await process.wait()


async def opened(sandbox: Sandbox, path: str) -> None:
    async with sandbox.files.open_read(path) as reader:
        async for _ in reader:
            pass


async def written(sandbox: Sandbox, path: Any) -> None:
    async with sandbox.files.open_write(path) as writer:
        await writer.write(path)


@pytest.mark.parametrize("name", CALLS)
@few
@given(canary=canaries, code=st.sampled_from([0, 44, 47, 50, 99]))
async def test_no_argument_of_a_call_and_nothing_that_a_command_answers(
    stub: StubBackend, target: str, watch: Watch, tmp_path: Path, name: str, canary: str, code: int
) -> None:
    said = (Chunk("stdout", canary.encode() + b"\xff"), Chunk("stderr", canary.encode()))
    answer = Program(said, Exit(code, limit=canary if code == 99 else None))
    for program in ("sh", "true", "false", "python3"):
        stub.programs[program] = lambda command: answer
    sandbox = await sandboxio.create(target, secrets={"KEY": canary}, audit=AuditConfig(capture_code=True))
    with watch.block():
        result = await CALLS[name](sandbox, canary, tmp_path)
        if not isinstance(result, bytes | str | list):
            watch.texts.append(repr(result))
        if isinstance(result, sandboxio.ExecResult):
            result.raise_for_status()
    watch.texts.append(repr(sandbox) + repr(sandbox.policy) + repr(sandbox.info()))
    await sandbox.kill()
    watch.check(canary)
    assert {"create", "kill"} <= watch.recorded


def native(canary: str) -> Iterator[Exception]:
    """Every way in which an exception can hold a text."""
    yield NativeError(f"bad {canary}")
    yield NativeError({"key": [canary.encode()]})
    noted = NativeError("refused")
    noted.add_note(f"sent {canary}")
    yield noted
    chained = NativeError("refused")
    chained.__cause__ = ValueError(canary)
    yield chained
    nested = NativeError("refused")
    nested.__context__ = SandboxGone(canary, hint=canary, reason=canary)
    yield nested
    yield ExceptionGroup("refused", [ValueError(canary)])
    ours = CreationError(f"refused {canary}", hint=f"say {canary}")
    ours.add_note(canary)
    ours.__cause__ = NativeError(canary)
    yield ours
    yield FileSystemError(f"{canary!r} is missing")


GATES = ("probe", "prepare", "provision", "observe", "open", "start", "receive", "wait", "kill", "destroy", "aclose")


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("point", ["before", "answer"])
@settings(few, max_examples=2)
@given(canary=canaries)
async def test_no_error_of_a_provider(
    stub: StubBackend, target: str, watch: Watch, short_grace: float, gate: str, point: Any, canary: str
) -> None:
    for number in range(len(list(native(canary)))):
        stub.gates.at(gate, point, raising(list(native(canary))[number]))
        with watch.block():
            async with sandboxio.create(target, secrets={"KEY": canary}, metadata={"a": "b"}) as sandbox:
                await sandbox.run(["true"])
        stub.gates.clear()
    watch.check(canary)
    assert "create" in watch.recorded
    assert watch.spans > 0


@few
@given(canary=canaries)
async def test_no_error_of_looking_and_killing_shows_the_providers_own_credential(
    stub: StubBackend, target: str, watch: Watch, monkeypatch: pytest.MonkeyPatch, canary: str
) -> None:
    monkeypatch.setenv("STUB_API_KEY", canary)
    sandbox = await sandboxio.create(target)
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: sandboxio.list_managed(target),
        lambda: sandboxio.list_managed(target, labels={"k": canary}),
        lambda: sandboxio.list_managed(f"{target}?{canary}"),
        lambda: sandboxio.kill_managed(target, sandbox.id),
        lambda: sandboxio.kill_managed(target, canary),
        lambda: sandboxio.plan(target, metadata={"k": canary}),
        lambda: sandboxio.plan(target, probe=True),
    ]
    for call in calls:
        for error in native(canary):
            for gate in ("list", "probe", "destroy"):
                stub.gates.at(gate, "before", raising(error))
            with watch.block():
                await call()
            stub.gates.clear()
    with pytest.raises(ConfigurationError, match="credential"):
        await sandboxio.create(target, metadata={"k": canary})
    await sandbox.kill()
    watch.check(canary)


@few
@given(canary=canaries)
async def test_no_answer_of_a_provider(stub: StubBackend, target: str, watch: Watch, canary: str) -> None:
    changes: list[tuple[str, Callable[[Any], Any]]] = [
        ("change_plan", lambda plan: replace(plan, parameters={"a": [{"b": canary}]})),
        ("change_plan", lambda plan: replace(plan, items=(*plan.items[:-1], Absent("isolation", canary)))),
        ("change_plan", lambda plan: replace(plan, items=(*plan.items, Absent(canary, "")))),
        ("change_plan", lambda plan: replace(plan, items=tuple(_residual(item, canary) for item in plan.items))),
        ("change_plan", lambda plan: replace(plan, cwd=f"/{canary}")),
        ("change_seen", lambda seen: replace(seen, state=canary, labels={canary: canary})),
        ("change_seen", lambda seen: replace(seen, applied={**seen.applied, "cpu": canary})),
        ("change_seen", lambda seen: replace(seen, name=canary)),
        ("probe", lambda facts: Facts({"a": canary}, {"lifetime": 5.0})),
    ]
    for name, change in changes:
        before = getattr(stub, name)
        setattr(stub, name, change if name != "probe" else _answering(change))
        with watch.block():
            made = await sandboxio.plan(target, secrets={"KEY": canary}, probe=True)
            watch.texts.append(repr(made))
        with watch.block():
            async with sandboxio.create(target, secrets={"KEY": canary}) as sandbox:
                watch.texts.append(repr(sandbox) + repr(sandbox.policy) + repr(sandbox.info()))
        setattr(stub, name, before)
    watch.check(canary)


def _residual(item: Any, canary: str) -> Any:
    return replace(item, residuals=(canary,)) if item.policy == "network.egress" else item


def _answering(change: Callable[[Any], Facts]) -> Callable[[Any], Awaitable[Facts]]:
    async def probe(spec: object) -> Facts:
        await anyio.lowlevel.checkpoint()
        return change(spec)

    return probe


async def test_a_plan_that_shows_a_secret_is_refused_before_anything_exists(stub: StubBackend, target: str) -> None:
    def change(plan: Plan) -> Plan:
        return replace(plan, parameters={"labels": {"k": base64.b64encode(b"s3cr3t-value").decode()}})

    stub.change_plan = change
    with pytest.raises(PolicyNotEnforced, match="parameters"):
        await sandboxio.create(target, secrets={"K": "s3cr3t-value"})
    assert stub.calls == []


async def test_what_an_adapter_hands_over_is_masked_from_then_on(stub: StubBackend, target: str) -> None:
    """SEC-01: traffic tokens and accounts' keys from files, which core can't know."""
    tokens = ["backend-t0ken"]
    stub.secret_values = lambda: tokens  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]

    def session() -> StubSession:
        made = StubSession(stub.gates, stub.programs)
        made.secret_values = lambda: ["sess1on-t0ken"]  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
        stub.sessions.append(made)
        return made

    stub.make_session = session
    with pytest.raises(ConfigurationError, match="credential"):
        await sandboxio.create(target, metadata={"k": "backend-t0ken"})
    async with sandboxio.create(target) as sandbox:
        tokens.append("later-t0ken")
        stub.gates.at("start", "before", raising(NativeError("backend-t0ken later-t0ken sess1on-t0ken")))
        with pytest.raises(SandboxError) as caught:
            await sandbox.run(["true"])
    assert "t0ken" not in "".join(everything_of(caught.value, set()))
    assert "***" in str(caught.value)


class Minted(Mapping[str, str]):
    """Secrets that are new each time they are asked for."""

    def __init__(self) -> None:
        self.values_given: list[str] = []

    def __getitem__(self, name: str) -> str:
        self.values_given.append(f"m1nted-{len(self.values_given)}")
        return self.values_given[-1]

    def __iter__(self) -> Iterator[str]:
        return iter(["TOKEN"])

    def __len__(self) -> int:
        return 1


async def test_secrets_that_answer_anew_each_time_are_masked_as_they_were_used(stub: StubBackend, target: str) -> None:
    """SEC-01."""
    minted = Minted()
    async with sandboxio.create(target, secrets=minted) as sandbox:
        assert len(minted.values_given) > 1
        stub.gates.at("start", "before", raising(NativeError(" ".join(minted.values_given))))
        with pytest.raises(SandboxError) as caught:
            await sandbox.run(["true"])
    assert "m1nted" not in "".join(everything_of(caught.value, set()))


async def test_the_listing_shows_no_credential(stub: StubBackend, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with sandboxio.create(target, metadata={"team": "pr0vider-key"}):
        monkeypatch.setenv("STUB_API_KEY", "pr0vider-key")
        (seen,) = await sandboxio.list_managed(target)
        assert seen.labels == {"team": "***"}
        assert "pr0vider" not in repr(seen)


async def test_the_end_of_stderr_is_masked_before_it_is_cut(stub: StubBackend, target: str) -> None:
    secret = "s3cr3t-" + "x9" * 300
    said = b""
    stub.programs["say"] = lambda command: Program((Chunk("stderr", said),), Exit(1))
    for before, after in ((b"", b"a" * 450), (b"b" * 2000, b""), (b"", b"")):
        said = before + secret.encode() + after
        async with sandboxio.create(target, secrets={"K": secret}) as sandbox:
            result = await sandbox.run(["say"])
            assert result.stderr_bytes == said
            cut = await sandbox.run(["say"], max_output=len(before) + 5)
            with pytest.raises(sandboxio.ExecutionError) as whole:
                result.raise_for_status()
            with pytest.raises(sandboxio.ExecutionError) as half:
                cut.raise_for_status()
        assert "x9" not in str(whole.value)
        assert "s3" not in str(half.value)


async def test_what_the_callers_own_callback_raises_becomes_an_error_that_names_it(target: str) -> None:
    def progress(line: str) -> None:
        raise KeyError(line)

    with pytest.raises(SandboxError, match="KeyError"):
        await sandboxio.create(target, secrets={"K": "s3cr3t-value"}, on_progress=progress)


def test_commands_and_requests_show_no_secret_by_their_reprs() -> None:
    from sandboxio.request import Request

    assert "s3cr3t" not in repr(Request("docker://", secrets={"K": "s3cr3t-value"}))
    assert "s3cr3t" not in repr(Command(("true",), {"K": "s3cr3t-value"}))
