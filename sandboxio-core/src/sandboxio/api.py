"""The functions of the package: create, connect, plan, list_managed, kill_managed, backend_info."""

import logging
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import anyio
from pydantic import SecretStr

from sandboxio import plugins
from sandboxio.audit import AuditConfig
from sandboxio.calls import LOOK_BOUND, PortCalls
from sandboxio.connecting import Connection
from sandboxio.creation import create as create_opened
from sandboxio.creation import plan_offline, plan_probed
from sandboxio.destruction import close_backend, closing, destroy_for_sure
from sandboxio.errors import BackendUnavailable, ConfigurationError, CreateTimeout
from sandboxio.guards import review_create
from sandboxio.isolation import IsolationTier
from sandboxio.pending import Pending
from sandboxio.planning import Plan
from sandboxio.policy import NetworkPolicy, Resources
from sandboxio.port import BackendInfo, Observation, Progress
from sandboxio.readback import Expected
from sandboxio.records import Record, Subject
from sandboxio.redaction import Redactor
from sandboxio.request import (
    FULL_ID,
    UNSAID,
    WITHOUT_ENGINE,
    Prepared,
    Request,
    Unsaid,
    calls_to,
    check_id,
    in_time,
    is_default,
    prepare,
    read_target,
    resolved_timeout,
)
from sandboxio.sandbox import Sandbox
from sandboxio.spec import MAX_TIMEOUT, check_metadata, refuse_credential
from sandboxio.target import BackendConfig
from sandboxio.teardown import check_grace
from sandboxio.threads import in_thread

_logger = logging.getLogger("sandboxio")


@dataclass(frozen=True, slots=True)
class ManagedSandbox:
    """A sandbox that is ours, as the provider lists it.

    :param created_at: seconds since the epoch.
    """

    sandbox_id: str
    backend: str
    state: str
    created_at: float
    labels: Mapping[str, str]


class Creation(Pending):
    """What `create` returns: await it, or enter it. Nothing happens before; it can be used once."""

    function = "create"

    def __init__(self, request: Request, progress: Progress | None) -> None:
        super().__init__()
        self._request = request
        self._progress = _no_progress if progress is None else progress

    async def _open(self) -> Sandbox:
        redactor = self._request.redactor()
        with redactor.border():
            check_grace()
            _check_progress(self._progress)
            target = read_target(self._request.target, redactor)
            # The maximum is known once the adapter is loaded; that has to end in time, too.
            timeout = resolved_timeout(self._request.timeout, target, MAX_TIMEOUT)
            with anyio.move_on_after(timeout) as scope, _naming_another(self._request.target):
                prepared = await prepare(self._request, target, redactor)
                scope.deadline = min(scope.deadline, anyio.current_time() + prepared.spec.timeout)
                return await self._make(prepared)
            raise CreateTimeout(f"{target.backend} did not make a sandbox within {timeout:g} s")

    async def _make(self, prepared: Prepared) -> Sandbox:
        calls, spec = prepared.calls, prepared.spec
        made: list[Sandbox] = []
        record = Record("create", Subject(spec.backend, calls.backend.info.tier.value, spec.metadata))
        try:
            async with prepared.recorder.operation(record):
                await review_create(spec, calls.redactor)
                opened = await create_opened(calls, spec, lambda line: self._progress(calls.redactor.text(line)))
                prepared.recorder.ask(opened.session)
                made.append(Sandbox(calls, opened, prepared.recorder))
                record.subject = Subject(spec.backend, opened.plan.tier.value, spec.metadata, opened.seen.sandbox_id)
                record.receipts = opened.plan.receipts()
        except BaseException as error:
            if made:  # its record was lost, or the caller was interrupted while it was written
                await made[0].__aexit__(type(error), error, None)
            else:
                await close_backend(calls)
            raise
        return made[0]


def create(
    target: "str | BackendConfig | None" = None,
    *,
    template: str | None = None,
    resources: Resources | None = None,
    network: NetworkPolicy | None = None,
    env: Mapping[str, str] | None = None,
    secrets: Mapping[str, str | SecretStr] | None = None,
    timeout: "float | Unsaid" = UNSAID,
    metadata: Mapping[str, str] | None = None,
    require_isolation: IsolationTier | None = None,
    redact_output: bool = False,
    audit: AuditConfig | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Creation:
    """Make a sandbox: ``async with sandboxio.create() as sb``, or ``sb = await sandboxio.create()`` and ``sb.kill()``.

    :param target: a DSN such as ``"docker://python:3.12-slim"``, a typed configuration, or ``None`` for
        ``$SANDBOXIO_BACKEND``, else ``docker://``.
    :param template: the image or template, if the target names none.
    :param resources: caps; each has a modest default and can't be unset.
    :param network: what may be reached; nothing by default.
    :param env: variables of every command.
    :param secrets: variables of every command that are shown nowhere; what commands print is theirs to show, see
        ``redact_output``.
    :param timeout: seconds for the creation, and the sandbox's lifetime; 300 by default.
    :param metadata: labels, by which orphans are found.
    :param require_isolation: the least tier; checked before anything is asked of the provider.
    :param redact_output: mask the secrets in what commands print, too, in any of their usual encodings and wherever a chunk
        ends; files stay as they are.
    :param audit: where every operation on the sandbox is recorded; see `sandboxio.audit`.
    :param on_progress: is told in words what takes long, such as an image pull.
    :raises ConfigurationError: a wrong argument. :raises CapabilityNotSupported: a policy that the backend can't enforce.
    :raises PolicyNotEnforced: a policy that it did not enforce. :raises CreateTimeout: it took too long.
    :raises BlockedByGuard: an organisation's guard says no. :raises AuditSinkError: it can't be recorded, and has to be.
    :raises BackendUnavailable: the engine or service does not answer. :raises CreationError: anything else; nothing is
        left behind in any case.
    """
    request = Request(
        target, template, resources, network, env, secrets, timeout, metadata, require_isolation, redact_output, audit
    )
    return Creation(request, on_progress)


def connect(
    target: "str | BackendConfig | None",
    sandbox_id: str,
    *,
    network: NetworkPolicy | None = None,
    resources: Resources | None = None,
    require_isolation: IsolationTier | None = None,
    metadata: Mapping[str, str] | None = None,
    audit: AuditConfig | None = None,
) -> Connection:
    """Use a sandbox of ours that runs: ``async with sandboxio.connect(target, sandbox_id) as sb``.

    It looks before it touches: nothing is resumed, no lifetime is extended, and a sandbox that is not as expected is left
    as it was. **Leaving the block kills the sandbox**, whoever made it; `Sandbox.detach` first to leave it alive.

    The maker's ``env`` and ``secrets`` are not known here and reach no command of this connection. Receipts say what was
    read back; what can't be is ``unverified``.

    :param target: as for `create`; its template and timeout mean nothing here.
    :param sandbox_id: the full id, as `Sandbox.id` or `list_managed` gives it.
    :param network: the policy that the sandbox must have.
    :param resources: caps that it must have, exactly; those left ``None`` may have any value.
    :param require_isolation: the least tier that is read back.
    :param metadata: entries that must be among its labels; pass your tenant's.
    :param audit: where this connection's operations are recorded.
    :raises ConfigurationError: a wrong argument.
    :raises ConnectError: it is not ours, does not run, is over, or its metadata differs.
    :raises PolicyNotEnforced: an expectation is not met or can't be read back, or something is weaker than we ever make it.
    :raises BackendUnavailable: the engine or service does not answer within 60 s.
    """
    return Connection(target, sandbox_id, Expected(network, resources, require_isolation, metadata or {}), audit)


async def plan(
    target: "str | BackendConfig | None" = None,
    *,
    template: str | None = None,
    resources: Resources | None = None,
    network: NetworkPolicy | None = None,
    env: Mapping[str, str] | None = None,
    secrets: Mapping[str, str | SecretStr] | None = None,
    timeout: "float | Unsaid" = UNSAID,
    metadata: Mapping[str, str] | None = None,
    require_isolation: IsolationTier | None = None,
    probe: bool = False,
) -> Plan:
    """Say how each policy would be enforced, or raise as `create` would; nothing is made.

    :param probe: ask the engine or account first, by reads only; otherwise nothing is sent.
    """
    request = Request(target, template, resources, network, env, secrets, timeout, metadata, require_isolation)
    redactor = request.redactor()
    with redactor.border():
        prepared = await in_time(prepare(request, read_target(target, redactor), redactor))
        async with closing(prepared.calls) as calls:
            offline = plan_offline(calls, prepared.spec)
            return await plan_probed(calls, prepared.spec) if probe else offline


async def backend_info(target: "str | BackendConfig | None" = None) -> BackendInfo:
    """Return what a backend declares: name, features, tier with its evidence, port. Nothing is opened.

    :raises BackendUnavailable: its adapter was not loaded within 60 s; likewise `plan`, `list_managed`, `kill_managed`.
    """
    adapter = await in_time(in_thread(plugins.load, read_target(target, Redactor()).backend))
    return adapter.info


async def list_managed(
    target: "str | BackendConfig | None" = None, *, labels: Mapping[str, str] | None = None
) -> list[ManagedSandbox]:
    """Return the sandboxes of ours that carry all of ``labels``; others are never listed."""
    redactor = Redactor()
    with redactor.border():
        async with closing(await in_time(calls_to(read_target(target, redactor), redactor))) as calls:
            wanted = check_metadata(labels, {})
            refuse_credential("labels", wanted, redactor)
            found = await calls.iterate(LOOK_BOUND, lambda: calls.backend.list(wanted))
            return [_managed(calls, seen) for seen in found if wanted.items() <= seen.labels.items()]


async def kill_managed(target: "str | BackendConfig | None", sandbox_id: str) -> None:
    """End a sandbox of ours by its full id; one that is gone is success.

    :raises ConfigurationError: it is only the beginning of an id, or nothing that could be one.
    """
    redactor = Redactor()
    with redactor.border():
        async with closing(await in_time(calls_to(read_target(target, redactor), redactor))) as calls:
            found = await calls.iterate(LOOK_BOUND, lambda: calls.backend.list({}))
            if sandbox_id in {seen.sandbox_id for seen in found}:
                await destroy_for_sure(calls, sandbox_id, {})
            else:
                _check_absent(sandbox_id, found)


def _check_absent(sandbox_id: object, found: list[Observation]) -> None:
    """Refuse what is no id of a sandbox that is gone, but none at all: silence would pass for success."""
    ident = check_id(sandbox_id)
    if any(seen.sandbox_id.startswith(ident) for seen in found):
        raise ConfigurationError("that is the beginning of an id, and may match another's sandbox", hint=FULL_ID)


def _managed(calls: PortCalls, seen: Observation) -> ManagedSandbox:
    text = calls.redactor.text
    labels = {text(key): text(value) for key, value in seen.labels.items()}
    return ManagedSandbox(seen.sandbox_id, calls.backend.info.name, text(seen.state), seen.created_at, labels)


@contextmanager
def _naming_another(target: object) -> Generator[None]:
    """Have the error of a default target that does not answer name the one that needs no engine."""
    try:
        yield
    except BackendUnavailable as error:
        if is_default(target):
            error.hint = f"{error.hint}; or name a target that needs no engine: create({WITHOUT_ENGINE!r})"
        raise


def _check_progress(progress: object) -> None:
    if not callable(progress):  # callers may be untyped
        raise ConfigurationError(
            f"on_progress= takes a function, not {type(progress).__name__}",
            hint="pass a function of one text, such as print, or leave it out",
        )


def _no_progress(line: str) -> None:
    _logger.info("%s", line)
