"""What is recorded of each operation, and where the records go."""

import json
import logging
import os
import stat
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, field_validator

from sandboxio.errors import ConfigurationError
from sandboxio.values import Value

EventName = Literal[
    "create",
    "connect",
    "exec",
    "run_code",
    "stream",
    "file_read",
    "file_write",
    "file_upload",
    "file_download",
    "file_list",
    "file_mkdir",
    "file_remove",
    "file_stat",
    "detach",
    "kill",
]
"""What was done; ``exec`` is `Sandbox.run`."""


class AuditEvent(BaseModel):
    """One operation, as it ended. Secrets are masked in every field.

    :param ts: when it began, seconds since the epoch.
    :param sandbox_id: ``None`` where no sandbox came into being.
    :param isolation: the sandbox's tier.
    :param tenant_id: ``metadata["tenant_id"]``; ``session_id`` likewise.
    :param argv: the command as it was started; a string command is the third of ``sh -c``.
    :param code_sha256: hex digest of the code of ``run_code``, in UTF-8.
    :param code: the code itself, only with ``AuditConfig(capture_code=True)``.
    :param path: what a file operation was about, in the sandbox.
    :param exit_code: ``None`` where the command did not end by itself.
    :param bytes_in: bytes that went into the sandbox (stdin, a file's content), ``None`` where nothing was to go in.
    :param bytes_out: bytes that came out of it (output, kept or not; a file's content).
    :param network_denials: egress attempts that the provider blocked in the sandbox so far; ``None`` where it does not
        report them.
    :param outcome: ``"ok"``, ``"cancelled"``, the code of the error, such as ``"SBX_E1302"``, the class of any other, or
        ``"OrphanedSandboxWarning"`` for a kill whose end was not seen.
    :param receipts: on ``create`` and ``connect``, one object per policy item: how it is enforced, and by whom.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    ts: float
    event: EventName
    backend: str
    isolation: str
    sandbox_id: str | None = None
    tenant_id: str | None = None
    session_id: str | None = None
    argv: tuple[str, ...] | None = None
    code_sha256: str | None = None
    code: str | None = None
    path: str | None = None
    exit_code: int | None = None
    duration_ms: float
    bytes_in: int | None = None
    bytes_out: int | None = None
    network_denials: int | None = None
    outcome: str
    receipts: tuple[dict[str, Any], ...] | None = None


@runtime_checkable
class AuditSink(Protocol):
    """Where events go. It may be asked from any task and any loop, and must not change what it gets."""

    async def emit(self, event: AuditEvent) -> None:
        """Keep one event; whatever it raises is a failure of the sink."""
        ...


class AuditConfig(Value):
    """What becomes of the records of one sandbox.

    :param sinks: each gets every event.
    :param on_sink_failure: ``"warn"`` emits `AuditSinkWarning`; ``"fail"`` raises `AuditSinkError`: a sandbox whose
        creation can't be recorded is destroyed, the result of a run whose record is lost is on the error.
    :param capture_code: whether the code of ``run_code`` is recorded, and not only its digest.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", strict=True, hide_input_in_errors=True, arbitrary_types_allowed=True
    )

    sinks: tuple[AuditSink, ...] = ()
    on_sink_failure: Literal["warn", "fail"] = "warn"
    capture_code: bool = False

    @field_validator("sinks")
    @classmethod
    def _takes_events(cls, sinks: tuple[AuditSink, ...]) -> tuple[AuditSink, ...]:
        wrong = [type(sink).__name__ for sink in sinks if not callable(sink.emit)]  # callers may be untyped
        if wrong:
            raise ValueError(f"emit of {wrong[0]} is no function")
        return sinks


class NoopSink:
    """Keeps nothing."""

    async def emit(self, event: AuditEvent) -> None:
        """Drop the event."""


class LoggingSink:
    """Logs each event as one line of JSON.

    :param logger: ``"sandboxio.audit"`` by default.
    """

    def __init__(self, logger: logging.Logger | None = None, level: int = logging.INFO) -> None:
        self._logger = logger or logging.getLogger("sandboxio.audit")
        self._level = level

    async def emit(self, event: AuditEvent) -> None:
        """Log the event."""
        self._logger.log(self._level, "%s", as_line(event))


class FileSink:
    """Appends each event to a file as one line of JSON, in one write, so that several processes may share it.

    The file is made with mode 0600. A link, or a file that others may read or write, is refused.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)

    async def emit(self, event: AuditEvent) -> None:
        """Append the event; in a thread, since a file system may hang."""
        line = as_line(event).encode() + b"\n"
        await anyio.to_thread.run_sync(self._append, line, abandon_on_cancel=True)

    def _append(self, line: bytes) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or stat.S_IMODE(found.st_mode) & 0o077:
                raise ConfigurationError(
                    f"the audit file {self._path!r} is no file that only its owner may use",
                    hint="chmod it to 0600, or name another file",
                )
            if os.write(descriptor, line) != len(line):
                raise OSError(f"the audit file {self._path!r} took a part of the record only")
        finally:
            os.close(descriptor)


class QueueSink:
    """Keeps the events in memory until the host takes them.

    :param size: events kept at the most; one more is a failure of the sink, and is not kept.
    """

    def __init__(self, size: int = 10_000) -> None:
        if size < 1:
            raise ConfigurationError("QueueSink(size=…) keeps at least one event", hint="pass a size of 1 or above")
        self._size = size
        self._events: deque[AuditEvent] = deque()
        self._lock = threading.Lock()

    async def emit(self, event: AuditEvent) -> None:
        """Keep the event. :raises BufferError: nobody took the ones before."""
        with self._lock:
            if len(self._events) >= self._size:
                raise BufferError(f"the queue is full: {self._size} events were not taken")
            self._events.append(event)

    def drain(self) -> Sequence[AuditEvent]:
        """Take all events, oldest first; from any thread."""
        with self._lock:
            events = tuple(self._events)
            self._events.clear()
        return events


def as_line(event: AuditEvent) -> str:
    """Return an event as one line of JSON in ASCII: nothing in it can pass for the end of a line."""
    return json.dumps(event.model_dump(mode="json", exclude_none=True))


def event_schema() -> dict[str, Any]:
    """Return the JSON schema of `AuditEvent`, as it stands in ``docs/audit-event.schema.json``."""
    return AuditEvent.model_json_schema(mode="serialization")


if __name__ == "__main__":
    print(json.dumps(event_schema(), indent=2))  # noqa: T201 - this is how the published file is written
