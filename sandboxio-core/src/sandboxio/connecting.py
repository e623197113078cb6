"""From the id of a sandbox that runs to a further session with it; what doesn't fit is left as it was."""

import time

import anyio

from sandboxio.audit import AuditConfig
from sandboxio.calls import LOOK_BOUND, PortCalls
from sandboxio.coverage import refuse_secrets, warn_about
from sandboxio.creation import Opened
from sandboxio.destruction import close_backend, close_session
from sandboxio.errors import BackendUnavailable, ConnectError, CreationError, SandboxError, SandboxGone
from sandboxio.pending import Pending
from sandboxio.port import HoldsSecrets, Session
from sandboxio.readback import Expected, recognised
from sandboxio.records import Record, Recorder, Subject
from sandboxio.redaction import Redactor
from sandboxio.request import check_expected, check_id, existing, read_target, recorder_of
from sandboxio.sandbox import Sandbox
from sandboxio.target import BackendConfig
from sandboxio.teardown import check_grace


class Connection(Pending):
    """What `connect` returns: await it, or enter it. Nothing happens before; it can be used once."""

    function = "connect"

    def __init__(
        self, target: "str | BackendConfig | None", sandbox_id: str, expected: Expected, audit: AuditConfig | None
    ) -> None:
        super().__init__()
        self._target = target
        self._sandbox_id = sandbox_id
        self._expected = expected
        self._audit = audit

    async def _open(self) -> Sandbox:
        redactor = Redactor()
        with redactor.border():
            check_grace()
            expected, sandbox_id = check_expected(self._expected), check_id(self._sandbox_id)
            with anyio.move_on_after(LOOK_BOUND):
                recorder = await recorder_of(self._audit, redactor)
                calls, config = await existing(read_target(self._target, redactor), redactor)
                return await self._connected(calls, config, sandbox_id, expected, recorder)
            raise BackendUnavailable(
                f"no connection to the sandbox within {LOOK_BOUND:g} s",
                hint="check that the backend is up and not overloaded",
            )

    async def _connected(
        self, calls: PortCalls, config: BackendConfig, sandbox_id: str, expected: Expected, recorder: Recorder
    ) -> Sandbox:
        info, opened = calls.backend.info, None
        record = Record("connect", Subject(info.name, info.tier.value, expected.metadata, sandbox_id))
        try:
            async with recorder.operation(record):
                opened = await _connect(calls, config, sandbox_id, expected)
                recorder.ask(opened.session)
                record.subject = Subject(info.name, opened.plan.tier.value, opened.plan.spec.metadata, sandbox_id)
                record.receipts = opened.plan.receipts()
        except BaseException:
            if opened is not None:  # its record was lost, or the caller was interrupted while it was written
                await close_session(calls, opened.session)
            await close_backend(calls)
            raise
        return Sandbox(calls, opened, recorder)


async def _connect(calls: PortCalls, config: BackendConfig, sandbox_id: str, expected: Expected) -> Opened:
    """Look at a sandbox, judge it, and only then open a session with it."""
    backend = calls.backend
    seen = await calls.bounded(LOOK_BOUND, lambda: backend.observe(sandbox_id), ConnectError)
    with calls.mapped(ConnectError):
        plan = recognised(backend.info, config, sandbox_id, seen, expected)
    assert seen is not None
    # A label may hold anything; that it holds a secret of ours is no reason to show it.
    refuse_secrets(plan, calls.redactor)
    # Its life began before now: then, on the clock that core counts by.
    asked_at = time.monotonic() - max(0.0, time.time() - seen.created_at)
    session = await _further(calls, sandbox_id)
    try:
        warn_about(plan)
        with calls.mapped(ConnectError):
            if isinstance(session, HoldsSecrets):
                calls.redactor.ask(session.secret_values)
            cwd = str(session.info().get("cwd") or "/")
    except BaseException:
        await close_session(calls, session)
        raise
    return Opened(plan, seen, session, cwd, asked_at)


async def _further(calls: PortCalls, sandbox_id: str) -> Session:
    try:
        return await calls.bounded(LOOK_BOUND, lambda: calls.backend.open(sandbox_id), ConnectError)
    except (SandboxGone, CreationError) as error:
        raise _not_reached(sandbox_id, error) from error.__cause__


def _not_reached(sandbox_id: str, error: SandboxError) -> ConnectError:
    if isinstance(error, SandboxGone):
        text = f"the sandbox {sandbox_id[:12]} ended while it was being connected to: {error.message}"
        return ConnectError(text, hint="create a new sandbox")
    return ConnectError(f"the sandbox {sandbox_id[:12]} could not be reached: {error.message}", hint=error.hint)
