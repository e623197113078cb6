"""Spans: under the caller's own, named by the conventions, without anything secret, and only where the host wants them."""

import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import anyio
import pytest
import sandboxio
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from sandboxio import ExecutionTimeout, otel
from sandboxio.sync import create_sync
from sandboxio.testing import Answer, FakeBackend

pytestmark = pytest.mark.anyio
SECRET = "s3cr3t-canary-value"


class Spans:
    """A host that collects spans."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._provider = TracerProvider()
        self._provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.get_tracer = self._provider.get_tracer

    def drain(self) -> dict[str, ReadableSpan]:
        spans = {span.name: span for span in self._exporter.get_finished_spans()}
        self._exporter.clear()
        return spans


@pytest.fixture
def spans() -> Iterator[Spans]:
    made = Spans()
    with otel.begun_with(SimpleNamespace(get_tracer=made.get_tracer, use_span=trace.use_span)):
        yield made


async def test_spans_are_the_callers_children(sbx_fake: FakeBackend, spans: Spans) -> None:
    """OBS-01."""
    sbx_fake.on(["say", SECRET], Answer("four", exit_code=3))
    with spans.get_tracer("host").start_as_current_span("host") as parent:
        metadata = {"tenant_id": "t1", "session_id": "s1"}
        async with sandboxio.create("fake://", metadata=metadata, secrets={"TOKEN": SECRET}) as sandbox:
            await sandbox.run(["say", SECRET])
            await sandbox.files.write(f"dir/{SECRET}", b"12")
            async with sandbox.stream(["true"]) as process:
                await process.wait()
    ended = spans.drain()
    ours = {name: span for name, span in ended.items() if name != "host"}
    assert set(ours) == {
        f"execute_tool sandbox.{event}" for event in ("create", "exec", "file_write", "stream", "kill")
    }
    for span in ours.values():
        assert span.parent is not None
        assert span.parent.span_id == parent.get_span_context().span_id
        assert SECRET not in span.to_json()
    attributes = ours["execute_tool sandbox.exec"].attributes or {}
    assert attributes["gen_ai.operation.name"] == "execute_tool"
    assert attributes["gen_ai.tool.name"] == "sandbox.exec"
    assert attributes["gen_ai.conversation.id"] == "s1"
    assert attributes["sandboxio.tenant.id"] == "t1"
    assert attributes["process.exit.code"] == 3
    assert attributes["sandboxio.bytes_out"] == 4
    assert attributes["sandboxio.outcome"] == "ok"
    assert set(attributes) <= {*otel.ATTRIBUTES.values(), otel.OPERATION, otel.TOOL, otel.TOOL_TYPE}


async def test_failures_and_cancellations_end_their_spans(sbx_fake: FakeBackend, spans: Spans) -> None:
    sbx_fake.on(["stuck"], Answer(hangs=True))
    async with sandboxio.create("fake://") as sandbox:
        with pytest.raises(ExecutionTimeout):
            await sandbox.run(["stuck"], timeout=0.05)
        span = spans.drain()["execute_tool sandbox.exec"]
        assert (span.status.status_code, (span.attributes or {})["error.type"]) == (StatusCode.ERROR, "SBX_E1302")
        with anyio.move_on_after(0.05):
            await sandbox.run(["stuck"])
        span = spans.drain()["execute_tool sandbox.exec"]
        assert (span.attributes or {})["error.type"] == "cancelled"


def test_the_synchronous_facade_nests_them_too(sbx_fake: FakeBackend, spans: Spans) -> None:
    with spans.get_tracer("host").start_as_current_span("host") as parent, create_sync("fake://") as sandbox:
        sandbox.run(["true"])
        with sandbox.files.open_write("a") as writer:
            writer.write(b"1")
    ended = spans.drain()
    for name in ("exec", "file_write", "create", "kill"):
        context = ended[f"execute_tool sandbox.{name}"].parent
        assert context is not None
        assert context.span_id == parent.get_span_context().span_id


def test_nothing_is_configured_and_nothing_needed() -> None:
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "import anyio, sandboxio\n"
        "async def main():\n"
        "    async with sandboxio.create('fake://') as sandbox:\n"
        "        assert (await sandbox.run(['true'])).ok\n"
        "anyio.run(main)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
