"""One record per operation, written also when the operation failed or was cancelled."""

import hashlib
import operator
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio

from sandboxio import extensions
from sandboxio.audit import AuditConfig, AuditEvent, AuditSink, EventName
from sandboxio.bounds import seconds_from
from sandboxio.errors import (
    AuditSinkError,
    AuditSinkWarning,
    PartialOutput,
    SandboxError,
)
from sandboxio.notices import warn, yielding
from sandboxio.otel import Span
from sandboxio.port import CountsDenials, Session
from sandboxio.redaction import Redactor, safe_str
from sandboxio.result import ExecResult
from sandboxio.teardown import SETTLE, OwnTask

DEFAULT_BOUND = 2.0
MAX_BOUND = 60.0


Count = Callable[[int], object]
"""Is told of bytes as they go by."""


def uncounted(size: int) -> None:
    """Count nothing."""


def audit_bound() -> float:
    """Seconds that the sinks get for one record: ``$SBX_AUDIT_TIMEOUT``, 2 by default.

    :raises ConfigurationError: it is no such number.
    """
    return seconds_from("SBX_AUDIT_TIMEOUT", DEFAULT_BOUND, MAX_BOUND)


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose operation it is.

    :param labels: the sandbox's metadata.
    """

    backend: str
    isolation: str
    labels: Mapping[str, str]
    sandbox_id: str | None = None


@dataclass(slots=True)
class Record:
    """An operation while it runs; who runs it fills in what comes to be known.

    :param outcome: what it comes to, where that is not what leaves the block.
    :param result: what the operation returned, for the error of a record that was lost.
    """

    event: EventName
    subject: Subject
    argv: tuple[str, ...] | None = None
    code: bytes | None = None
    path: str | None = None
    exit_code: int | None = None
    bytes_in: int | None = None
    bytes_out: int | None = None
    receipts: tuple[dict[str, Any], ...] | None = None
    outcome: str | None = None
    result: ExecResult | None = None
    ts: float = field(default_factory=time.time)
    began: float = field(default_factory=time.monotonic)

    def begin(self) -> None:
        """Start the clock; it was asked for earlier."""
        self.ts, self.began = time.time(), time.monotonic()

    def returned(self, result: ExecResult) -> None:
        """Note how a command ended."""
        self.result, self.exit_code = result, result.exit_code
        self.bytes_out = len(result.stdout_bytes) + len(result.stderr_bytes)

    def went_in(self, size: int) -> None:
        """Count bytes that went into the sandbox."""
        self.bytes_in = (self.bytes_in or 0) + size

    def came_out(self, size: int) -> None:
        """Count bytes that came out of it."""
        self.bytes_out = (self.bytes_out or 0) + size

    def left_by(self, error: BaseException | None) -> None:
        """Note what an error holds of a command's output."""
        if isinstance(error, PartialOutput) and self.bytes_out is None:
            self.bytes_out = len(error.stdout_bytes) + len(error.stderr_bytes)


class Recorder:
    """Writes the records of one sandbox to its sinks, and its spans to whatever the host configured.

    :param sinks: those of the organisation, beside those of ``config``.
    :raises ConfigurationError: ``$SBX_AUDIT_TIMEOUT`` is wrong.
    """

    def __init__(self, config: AuditConfig, redactor: Redactor, sinks: tuple[AuditSink, ...] = ()) -> None:
        self._config = config
        self._redactor = redactor
        self._sinks = (*config.sinks, *sinks)
        self._bound = audit_bound()
        self._denials: Callable[[], int] | None = None

    @classmethod
    def of(cls, config: AuditConfig, redactor: Redactor) -> "Recorder":
        """Return the recorder of one sandbox; plugins are imported at the first call.

        :raises ConfigurationError: an organisation's plugin can't be loaded or gives no sink.
        """
        return cls(config, redactor, organisation_sinks())

    def ask(self, session: Session) -> None:
        """From now on record how many attempts at egress the provider blocked, where a session tells."""
        if isinstance(session, CountsDenials):
            self._denials = session.network_denials

    @asynccontextmanager
    async def operation(self, record: Record, *, nests: bool = True) -> AsyncGenerator[None]:
        """Around an operation: it is recorded when the block is left, however it is left.

        :param nests: whether spans that begin in the block are its children; only for a block of one task.
        :raises AuditSinkError: the operation succeeded, its record was lost, and ``on_sink_failure`` is ``"fail"``.
        """
        span = Span.begin(record.event)
        try:
            with span.current() if nests else nullcontext():
                yield
        except BaseException as error:
            await self.ended(record, span, error)
            raise
        await self.ended(record, span, None)

    async def ended(self, record: Record, span: Span, error: BaseException | None) -> None:
        """Write the record of an operation that was left by ``error``, immune to cancellation."""
        if not self._sinks and not span.is_recorded:
            return
        record.left_by(error)
        failures: list[str] = []
        event = self._event(record, record.outcome or _outcome(error), self._blocked(failures))
        span.end(event)
        failures += await self._written(event)
        if failures:
            self._report("; ".join(failures), record, error)

    def _blocked(self, failures: list[str]) -> int | None:
        """Return what the provider counted; a record without the count is still one, and is said not to be whole."""
        try:
            return None if self._denials is None else operator.index(self._denials())
        except Exception as failure:  # noqa: BLE001 - a provider's own code, after the operation: it replaces nothing
            failures.append(
                self._redactor.text(f"counting denials failed: {type(failure).__name__}: {safe_str(failure)}")
            )
            return None

    async def _written(self, event: AuditEvent) -> list[str]:
        """Give an event to all sinks at once, so that none waits for another, and return what failed."""
        writing = [(sink, OwnTask(partial(sink.emit, event))) for sink in self._sinks]
        interrupted = await _outlast([task for _, task in writing], self._bound)
        late = [task for _, task in writing if not task.done and task.cancel()]
        interrupted = await _outlast(late, SETTLE) or interrupted
        if interrupted is not None:
            raise interrupted
        return [text for sink, task in writing if (text := self._failure(sink, task))]

    def _failure(self, sink: AuditSink, task: OwnTask[None]) -> str | None:
        name = f"the audit sink {type(sink).__name__}"
        if task.given_up:
            return f"{name} did not take a record within {self._bound:g} s"
        try:
            task.result()
        except KeyboardInterrupt:
            raise
        except BaseException as failure:  # noqa: BLE001 - a sink's failure is what the policy is about
            return f"{name} failed: " + self._redactor.text(f"{type(failure).__name__}: {safe_str(failure)}")
        return None

    def _report(self, text: str, record: Record, error: BaseException | None) -> None:
        if self._config.on_sink_failure == "warn":
            with yielding(error):
                warn(f"{text} (the record of {record.event})", AuditSinkWarning)
        elif error is None:
            hint = "repair the sink, or set AuditConfig(on_sink_failure='warn')"
            lost = AuditSinkError(f"{text}; what it was about is done: {record.event}", hint=hint)
            lost.result = record.result
            raise lost
        elif isinstance(error, Exception):
            error.add_note(text)

    def _event(self, record: Record, outcome: str, denials: int | None) -> AuditEvent:
        subject, code = record.subject, record.code
        captured = code is not None and self._config.capture_code
        fields = {
            "ts": record.ts,
            "event": record.event,
            "sandbox_id": subject.sandbox_id,
            "backend": subject.backend,
            "isolation": subject.isolation,
            "tenant_id": subject.labels.get("tenant_id"),
            "session_id": subject.labels.get("session_id"),
            "argv": None if record.argv is None else tuple(map(_text, record.argv)),
            "code": code.decode("utf-8", "replace") if captured and code is not None else None,
            "path": None if record.path is None else _text(record.path),
            "exit_code": record.exit_code,
            "duration_ms": (time.monotonic() - record.began) * 1000,
            "bytes_in": record.bytes_in,
            "bytes_out": record.bytes_out,
            "network_denials": denials,
            "outcome": outcome,
            "receipts": record.receipts,
        }
        # After masking: a digest says nothing, and must stay one.
        digest = None if code is None else hashlib.sha256(code).hexdigest()
        # The names of fields and events are ours, even where somebody's secret is the same word.
        masked: Any = {name: self._redactor.plain(value) for name, value in fields.items()}
        return AuditEvent.model_validate({**masked, "event": record.event, "code_sha256": digest})


_organisation: dict[int, tuple[object, AuditSink]] = {}
"""Sinks by the identity of the plugin that gave them."""


def organisation_sinks() -> tuple[AuditSink, ...]:
    """Return the sinks of the organisation's plugins; each plugin is asked once.

    :raises ConfigurationError: one fails, or gives no sink.
    """
    sinks: list[AuditSink] = []
    for extension in extensions.loaded("sandboxio_audit_sink"):
        plugin = extension.plugin
        if id(plugin) not in _organisation:
            _organisation[id(plugin)] = (plugin, _sink_of(extension))
        sinks.append(_organisation[id(plugin)][1])
    return tuple(sinks)


def _sink_of(extension: extensions.Extension) -> AuditSink:
    try:
        sink = extension.call("sandboxio_audit_sink")
    except Exception as error:
        raise extension.broken(error) from error
    if not isinstance(sink, AuditSink):
        raise extension.broken(TypeError(f"{type(sink).__name__} is no AuditSink"))
    return sink


async def _outlast(tasks: list[OwnTask[None]], seconds: float) -> BaseException | None:
    """Wait until all have ended or the time is over; see `OwnTask.outlast`."""
    until = time.monotonic() + seconds
    hits = [await task.outlast(until - time.monotonic()) for task in tasks]
    return next(filter(None, hits), None)


def _text(text: str) -> str:
    """Return a name that may hold bytes which are no text, as text."""
    return text.encode("utf-8", "backslashreplace").decode()


def _outcome(error: BaseException | None) -> str:
    if error is None:
        return "ok"
    if isinstance(error, SandboxError):
        return error.code
    if isinstance(error, (KeyboardInterrupt, GeneratorExit, anyio.get_cancelled_exc_class())):
        return "cancelled"
    return type(error).__name__
