"""What stands in the place of a behaviour of core while it is broken; `sandboxio_contract.liars.cores` says where."""

import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, NoReturn

from sandboxio import coverage, destruction, readback, request, sandbox
from sandboxio.audit import AuditEvent, QueueSink
from sandboxio.calls import PortCalls
from sandboxio.command_files import CommandFiles
from sandboxio.errors import ConfigurationError, OrphanedSandboxWarning, ProviderError, SandboxError, SandboxGone
from sandboxio.execution import Budget
from sandboxio.isolation import IsolationTier
from sandboxio.lease import Lease
from sandboxio.notices import warn
from sandboxio.planning import Plan
from sandboxio.policy import NetworkPolicy
from sandboxio.port import BackendInfo, Command, ProcessDriver
from sandboxio.readback import Expected
from sandboxio.records import Record, Recorder
from sandboxio.redaction import Redactor
from sandboxio.result import Collected
from sandboxio.spec import DEFAULT_TIMEOUT, SandboxSpec, check_timeout
from sandboxio.sync import SyncSandbox
from sandboxio.sync.waiting import Waiter
from sandboxio.target import BackendConfig
from sandboxio.teardown import OwnTask
from sandboxio.values import Value

# As they were before anything was broken.
_spec: Callable[..., SandboxSpec] = vars(request)["_spec"]
_own_timeout: Callable[[float | None], float | None] = vars(sandbox)["_own_timeout"]
_check_isolation = coverage.check_isolation
_clean: Callable[..., None] = vars(Redactor)["_clean"]
_init, _ended, _start, _call, _run = Value.__init__, Recorder.ended, Lease.start, Waiter.call, SyncSandbox.run
_warn_orphan, _recognised, _expired = destruction.warn_orphan, readback.recognised, Budget.expired
_list, _mkdir, _write = CommandFiles.list, CommandFiles.mkdir, CommandFiles.write
_written: Callable[..., Coroutine[Any, Any, list[str]]] = vars(Recorder)["_written"]
_gone_error: Callable[..., SandboxGone] = vars(Lease)["_gone_error"]
_finish: Callable[..., Coroutine[Any, Any, object]] = vars(OwnTask)["finish"]


def nothing_of(*_: object, **__: object) -> None:
    """Do nothing."""


def opening(asked: request.Request, *rest: Any) -> SandboxSpec:
    """Open the network where nothing is said about it."""
    spec = _spec(asked, *rest)
    return replace(spec, network=NetworkPolicy(egress="allow")) if asked.network is None else spec


def degrading(*given: Any) -> SandboxSpec:
    """Take learning for deny."""
    spec = _spec(*given)
    return replace(spec, network=NetworkPolicy()) if spec.network.egress == "learn" else spec


def taken(value: Value, **fields: Any) -> None:
    """Take fields as they are where they are wrong."""
    try:
        _init(value, **fields)
    except ConfigurationError:
        object.__setattr__(value, "__dict__", dict(vars(type(value).model_construct(**fields))))


def known_only(spec: SandboxSpec, tier: IsolationTier) -> None:
    """Judge the isolation where a tier is required that means something."""
    if spec.require_isolation is not IsolationTier.UNKNOWN:
        _check_isolation(spec, tier)


def inherited(timeout: float | None) -> float | None:
    """Take a wrong timeout for none."""
    try:
        return _own_timeout(timeout)
    except ConfigurationError:
        return None


def defaulting(value: object, *rest: Any) -> float:
    """Take no timeout for the default."""
    return check_timeout(DEFAULT_TIMEOUT if value is None else value, *rest)


def unreasoned(lease: Lease, _: str, *rest: Any) -> SandboxGone:
    """Return the error for a sandbox that is gone, for no reason."""
    return _gone_error(lease, "unknown", *rest)


async def unprotected(lease: Lease) -> None:
    """End the sandbox in the caller's own task."""
    await vars(Lease)["_end"](lease)


async def numb(task: "OwnTask[Any]", grace: float, on_expiry: Callable[[], None]) -> object:
    """Outlast an interruption and keep it quiet."""
    await task.outlast(grace)
    return await _finish(task, 0.1, on_expiry)


def unexpecting(info: BackendInfo, config: BackendConfig, sandbox_id: str, seen: Any, _: Expected) -> Plan:
    """Recognise a sandbox without a look at what is expected of it."""
    return _recognised(info, config, sandbox_id, seen, Expected())


def emptied(budget: Budget, lease: Lease, _: Collected) -> Exception:
    """Return the error for a budget that is used up, without what was printed."""
    return _expired(budget, lease, Collected(1))


def never(*_: object) -> bool:
    """Say no."""
    return False


def severed(error: BaseException, _: BaseException | None) -> NoReturn:
    """Raise an error of ours alone."""
    raise error from None


def terse(calls: PortCalls, sandbox_id: str, *_: object) -> None:
    """Name a sandbox that may be left by its id."""
    warn(f"{sandbox_id} of {calls.backend.info.name} may be left", OrphanedSandboxWarning)


def again(*given: Any) -> None:
    """Warn twice of a sandbox that may be left."""
    _warn_orphan(*given)
    _warn_orphan(*given)


def none_found(*_: object) -> list[tuple[int, int]]:
    """Find no secret."""
    return []


def as_it_is(_: Redactor, error: BaseException) -> BaseException:
    """Return an error of the provider's."""
    return error


def noted(redactor: Redactor, error: SandboxError, seen: Any) -> None:
    """Mask everything of an error but its notes."""
    kept: list[str] = list(getattr(error, "__notes__", []))
    _clean(redactor, error, seen)
    if kept:
        error.__notes__ = kept


def shown(one: sandbox.Sandbox) -> str:
    """Show a sandbox with its variables."""
    spec = vars(one)["_lease"].plan.spec
    return f"<Sandbox {one.id} { {name: value.get_secret_value() for name, value in spec.secrets.items()} }>"


async def traced(recorder: Recorder, record: Record, span: Any, error: BaseException | None) -> None:
    """Put the arguments on the span."""
    if span.is_recorded:
        span._span.set_attribute("process.command_args", str(record.argv))
    await _ended(recorder, record, span, error)


async def logged(lease: Lease, command: Command, backstop: float) -> ProcessDriver:
    """Log what is started with which variables."""
    logging.getLogger("sandboxio").debug("starting %s with %s", command.argv[0], dict(command.env))
    return await _start(lease, command, backstop)


async def successes(recorder: Recorder, record: Record, span: Any, error: BaseException | None) -> None:
    """Record what did not fail."""
    if error is None:
        await _ended(recorder, record, span, error)


async def twice(recorder: Recorder, record: Record, span: Any, error: BaseException | None) -> None:
    """Record everything twice."""
    await _ended(recorder, record, span, error)
    await _ended(recorder, record, span, error)


def without(event: str) -> Callable[..., Coroutine[Any, Any, None]]:
    """Record everything but one kind of operation."""

    async def selective(recorder: Recorder, record: Record, span: Any, error: BaseException | None) -> None:
        if record.event != event:
            await _ended(recorder, record, span, error)

    return selective


async def to_one_only(recorder: Recorder, event: AuditEvent) -> list[str]:
    """Write to the first queue alone where there are several sinks."""
    sinks = recorder._sinks  # pyright: ignore[reportPrivateUsage]
    if len(sinks) == 1:
        return await _written(recorder, event)
    for queue in [sink for sink in sinks if isinstance(sink, QueueSink)][:1]:
        await queue.emit(event)
    return ["another failed"]


async def until_one_fails(recorder: Recorder, event: AuditEvent) -> list[str]:
    """Write to one sink after the other, until one fails."""
    for sink in recorder._sinks:  # pyright: ignore[reportPrivateUsage]
        try:
            await sink.emit(event)
        except OSError as error:
            return [str(error)]
    return []


def wrapping(waiter: Waiter, form: str, work: Callable[[], Any]) -> Any:
    """Raise another error than the call did."""
    try:
        return _call(waiter, form, work)
    except SandboxError as error:
        raise ProviderError(str(error)) from None


def narrow(one: SyncSandbox, cmd: list[str], *, timeout: float | None = None) -> Any:
    """Run a command with little choice."""
    return _run(one, cmd, timeout=timeout)
