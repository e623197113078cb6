"""OpenTelemetry spans: only its API is used, only where the host installed it, and nothing is configured here.

Names follow OpenTelemetry's semantic conventions 1.41.0, the last with those for generative AI (``gen_ai.*``, read
2026-11); what they have no name for is ``sandboxio.*``. Every attribute name of this library stands in this file.
"""

from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import Any

from sandboxio.audit import AuditEvent

INSTRUMENTATION = "sandboxio"
SCHEMA = "https://opentelemetry.io/schemas/1.41.0"
OPERATION = "gen_ai.operation.name"
TOOL = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
CONVERSATION = "gen_ai.conversation.id"
ERROR = "error.type"
ATTRIBUTES = {
    "sandbox_id": "sandboxio.sandbox.id",
    "backend": "sandboxio.backend",
    "isolation": "sandboxio.isolation",
    "tenant_id": "sandboxio.tenant.id",
    "session_id": CONVERSATION,
    "path": "sandboxio.file.path",
    "code_sha256": "sandboxio.code.sha256",
    "exit_code": "process.exit.code",
    "bytes_in": "sandboxio.bytes_in",
    "bytes_out": "sandboxio.bytes_out",
    "network_denials": "sandboxio.network.denials",
    "outcome": "sandboxio.outcome",
}
"""Field of `AuditEvent` → attribute; arguments and code are in the audit record only."""


_host: Any = None
"""What `begun_with` named."""


@contextmanager
def begun_with(host: Any) -> Generator[None]:
    """Have spans begin with ``host`` in place of OpenTelemetry's own module while the block runs, in the whole process.

    For suites that look at spans: OpenTelemetry itself can be told only once per process where they go.

    :param host: has ``get_tracer`` and ``use_span``.
    """
    global _host
    before, _host = _host, host
    try:
        yield
    finally:
        _host = before


def _trace() -> Any:
    return _installed() if _host is None else _host


@cache
def _installed() -> Any:
    """Return OpenTelemetry's module, ``None`` where it is not installed; a failed import is slow, so it is tried once."""
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    return trace


class Span:
    """The span of one operation, or nothing where OpenTelemetry is not installed."""

    def __init__(self, span: Any) -> None:
        self._span = span

    @property
    def is_recorded(self) -> bool:
        """Whether the host collects spans."""
        return self._span is not None and bool(self._span.is_recording())

    @classmethod
    def begin(cls, event: str) -> "Span":
        """Begin a span under the caller's current one."""
        trace = _trace()
        if trace is None:
            return cls(None)
        attributes = {OPERATION: "execute_tool", TOOL: f"sandbox.{event}", TOOL_TYPE: "extension"}
        tracer = trace.get_tracer(INSTRUMENTATION, schema_url=SCHEMA)
        return cls(tracer.start_span(f"execute_tool sandbox.{event}", attributes=attributes))

    @contextmanager
    def current(self) -> Generator[None]:
        """Be the parent of what begins in the block."""
        if self._span is None:
            yield
            return
        with _trace().use_span(self._span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
            yield

    def end(self, event: AuditEvent) -> None:
        """End it with what the record says."""
        if self._span is None:
            return
        from opentelemetry.trace import Status, StatusCode

        for field, name in ATTRIBUTES.items():
            value = getattr(event, field)
            if value is not None:
                self._span.set_attribute(name, value)
        if event.outcome != "ok":
            self._span.set_attribute(ERROR, event.outcome)
            self._span.set_status(Status(StatusCode.ERROR, event.outcome))
        self._span.end()
