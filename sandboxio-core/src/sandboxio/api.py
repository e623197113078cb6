"""The functions of the package: create, plan, list_managed, kill_managed, backend_info."""

import logging
import os
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread
from pydantic import SecretStr

from sandboxio import plugins
from sandboxio.calls import LOOK_BOUND, PortCalls
from sandboxio.creation import create as create_opened
from sandboxio.creation import destroy_for_sure, plan_offline, plan_probed
from sandboxio.errors import ConfigurationError, CreateTimeout
from sandboxio.isolation import IsolationTier
from sandboxio.planning import Plan
from sandboxio.policy import NetworkPolicy, Resources
from sandboxio.port import Backend, BackendInfo, Progress
from sandboxio.redaction import Redactor
from sandboxio.sandbox import Sandbox
from sandboxio.spec import (
    DEFAULT_TIMEOUT,
    MAX_TIMEOUT,
    SandboxSpec,
    check_env,
    check_metadata,
    check_secrets,
    check_timeout,
    new_create_id,
    refuse_secret,
)
from sandboxio.target import BackendConfig, Target, parse_target, resolve_config

if TYPE_CHECKING:
    from types import TracebackType

T = TypeVar("T")

DEFAULT_TARGET = "docker://"

_logger = logging.getLogger("sandboxio")


class _Default:
    """The default of create's timeout, which a DSN may still change; ``None`` is a mistake of the caller's."""

    def __repr__(self) -> str:
        return f"<{DEFAULT_TIMEOUT:g} s>"


_DEFAULT = _Default()


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of `create`, not looked at yet."""

    target: "str | BackendConfig | None"
    template: str | None = None
    resources: Resources | None = None
    network: NetworkPolicy | None = None
    env: Mapping[str, str] | None = None
    secrets: Mapping[str, str | SecretStr] | None = None
    timeout: object = _DEFAULT
    metadata: Mapping[str, str] | None = None
    require_isolation: IsolationTier | None = None


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


class Creation:
    """What `create` returns: await it, or enter it. Nothing happens before; it can be used once."""

    def __init__(self, request: Request, progress: Progress | None) -> None:
        self._request = request
        self._progress = progress or _no_progress
        self._used = False
        self._sandbox: Sandbox | None = None

    def __await__(self) -> Generator[Any, None, Sandbox]:
        """Create the sandbox; the caller kills it."""
        return self._create().__await__()

    async def __aenter__(self) -> Sandbox:
        """Create the sandbox for the block."""
        self._sandbox = await self._create()
        return self._sandbox

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        """Kill the sandbox, whatever left the block."""
        if self._sandbox is not None:
            await self._sandbox.kill()

    async def _create(self) -> Sandbox:
        if self._used:
            raise ConfigurationError("this create() was used already", hint="call create() again for another sandbox")
        self._used = True
        prepared = await _prepare(self._request)
        spec = prepared.spec
        with anyio.move_on_after(spec.timeout):
            opened = await create_opened(prepared.calls, spec, self._progress)
            return Sandbox(prepared.calls, opened)
        raise CreateTimeout(f"{spec.backend} did not make a sandbox within {spec.timeout:g} s")


def create(
    target: "str | BackendConfig | None" = None,
    *,
    template: str | None = None,
    resources: Resources | None = None,
    network: NetworkPolicy | None = None,
    env: Mapping[str, str] | None = None,
    secrets: Mapping[str, str | SecretStr] | None = None,
    timeout: "float | _Default" = _DEFAULT,
    metadata: Mapping[str, str] | None = None,
    require_isolation: IsolationTier | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Creation:
    """Make a sandbox: ``async with sandboxio.create() as sb``, or ``sb = await sandboxio.create()`` and ``sb.kill()``.

    :param target: a DSN such as ``"docker://python:3.12-slim"``, a typed configuration, or ``None`` for
        ``$SANDBOXIO_BACKEND``, else ``docker://``.
    :param template: the image or template, if the target names none.
    :param resources: caps; each has a modest default and can't be unset.
    :param network: what may be reached; nothing by default.
    :param env: variables of every command.
    :param secrets: variables of every command that are shown nowhere.
    :param timeout: seconds for the creation, and the sandbox's lifetime; 300 by default.
    :param metadata: labels, by which orphans are found.
    :param require_isolation: the least tier; checked before anything is asked of the provider.
    :param on_progress: is told in words what takes long, such as an image pull.
    :raises ConfigurationError: a wrong argument. :raises CapabilityNotSupported: a policy that the backend can't enforce.
    :raises PolicyNotEnforced: a policy that it did not enforce. :raises CreateTimeout: it took too long.
    :raises BackendUnavailable: the engine or service does not answer. :raises CreationError: anything else; nothing is
        left behind in any case.
    """
    request = Request(target, template, resources, network, env, secrets, timeout, metadata, require_isolation)
    return Creation(request, on_progress)


async def plan(
    target: "str | BackendConfig | None" = None,
    *,
    template: str | None = None,
    resources: Resources | None = None,
    network: NetworkPolicy | None = None,
    env: Mapping[str, str] | None = None,
    secrets: Mapping[str, str | SecretStr] | None = None,
    timeout: "float | _Default" = _DEFAULT,
    metadata: Mapping[str, str] | None = None,
    require_isolation: IsolationTier | None = None,
    probe: bool = False,
) -> Plan:
    """Say how each policy would be enforced, or raise as `create` would; nothing is made.

    :param probe: ask the engine or account first, by reads only; otherwise nothing is sent.
    """
    request = Request(target, template, resources, network, env, secrets, timeout, metadata, require_isolation)
    prepared = await _prepare(request)
    with prepared.calls.mapped():
        offline = plan_offline(prepared.calls.backend, prepared.spec)
    return await plan_probed(prepared.calls, prepared.spec) if probe else offline


async def backend_info(target: "str | BackendConfig | None" = None) -> BackendInfo:
    """Return what a backend declares: name, features, tier with its evidence, port. Nothing is opened."""
    adapter = await anyio.to_thread.run_sync(plugins.load, _target(target).backend)
    return adapter.info


async def list_managed(
    target: "str | BackendConfig | None" = None, *, labels: Mapping[str, str] | None = None
) -> list[ManagedSandbox]:
    """Return the sandboxes of ours that carry all of ``labels``; others are never listed."""
    calls = await _calls(_target(target))
    wanted = check_metadata(labels, {})
    found = await calls.iterate(LOOK_BOUND, calls.backend.list(wanted))
    name = calls.backend.info.name
    return [ManagedSandbox(seen.sandbox_id, name, seen.state, seen.created_at, seen.labels) for seen in found]


async def kill_managed(target: "str | BackendConfig | None", sandbox_id: str) -> None:
    """End a sandbox of ours by its full id; one that is gone is success.

    :raises ConfigurationError: it is no full id of a sandbox that is ours and alive.
    """
    calls = await _calls(_target(target))
    if not sandbox_id:
        raise ConfigurationError("the sandbox id is empty", hint="pass a full id, as list_managed() returns it")
    found = await calls.iterate(LOOK_BOUND, calls.backend.list({}))
    ids = {seen.sandbox_id for seen in found}
    if sandbox_id not in ids:
        if any(known.startswith(sandbox_id) for known in ids):
            raise ConfigurationError("a prefix may match another's sandbox", hint="pass the full id")
        return
    await destroy_for_sure(calls, sandbox_id, {})


@dataclass(frozen=True, slots=True)
class _Prepared:
    calls: PortCalls
    spec: SandboxSpec


async def _prepare(request: Request) -> _Prepared:
    target = _target(request.target)
    adapter = await anyio.to_thread.run_sync(plugins.load, target.backend)
    spec = _spec(request, target, adapter.info)
    redactor = Redactor(_secret_values(spec, adapter.info))
    backend = await anyio.to_thread.run_sync(adapter.make_backend, spec.config)
    return _Prepared(PortCalls(backend, redactor), spec)


async def _calls(target: Target) -> PortCalls:
    adapter = await anyio.to_thread.run_sync(plugins.load, target.backend)
    config = resolve_config(target, adapter.info.config, None)
    backend: Backend = await anyio.to_thread.run_sync(adapter.make_backend, config)
    return PortCalls(backend, Redactor(_credentials(adapter.info)))


def _target(target: "str | BackendConfig | None") -> Target:
    if target is not None:
        return parse_target(target)
    chosen = os.environ.get("SANDBOXIO_BACKEND") or DEFAULT_TARGET
    parsed = parse_target(chosen)
    _logger.info("no target given: using %s", parsed.backend)
    return parsed


def _spec(request: Request, target: Target, info: BackendInfo) -> SandboxSpec:
    if request.require_isolation is IsolationTier.UNKNOWN:
        raise ConfigurationError("require_isolation=UNKNOWN requires nothing", hint="name a tier, or leave it out")
    config = resolve_config(target, info.config, request.template)
    env = check_env(request.env, "env")
    secrets = check_secrets(request.secrets, env)
    refuse_secret("the template", config.template or "", secrets)
    return SandboxSpec(
        backend=info.name,
        config=config,
        template=config.template,
        resources=_resources(request.resources, config, info),
        network=_instance(request.network or NetworkPolicy(), NetworkPolicy, "network"),
        env=env,
        secrets=secrets,
        timeout=_timeout(request.timeout, target, info),
        metadata=check_metadata(request.metadata, secrets),
        require_isolation=request.require_isolation,
        create_id=new_create_id(),
    )


def _resources(given: Resources | None, config: BackendConfig, info: BackendInfo) -> Resources:
    resources = _instance(given or Resources(), Resources, "resources")
    if not info.resource_caps_supported and not resources.is_default:
        raise ConfigurationError(
            f"caps on {info.name} belong to the template {config.template or 'in use'}, not to the sandbox",
            hint="change cpu, memory and disk in the template, and leave resources= out",
        )
    return resources


def _instance(value: object, cls: type[T], name: str) -> T:
    if not isinstance(value, cls):
        raise ConfigurationError(f"{name}= takes a {cls.__name__}, not {type(value).__name__}")
    return value


def _timeout(given: object, target: Target, info: BackendInfo) -> float:
    maximum = min(MAX_TIMEOUT, info.baseline.maxima.get("lifetime", MAX_TIMEOUT))
    if not isinstance(given, _Default):
        return check_timeout(given, "create(timeout=…)", maximum)
    if target.timeout is None:
        return min(DEFAULT_TIMEOUT, maximum)
    try:
        seconds = float(target.timeout)
    except ValueError:
        raise ConfigurationError("the DSN's timeout is no number", hint="write ?timeout=SECONDS") from None
    return check_timeout(seconds, "the DSN's timeout", maximum)


def _secret_values(spec: SandboxSpec, info: BackendInfo) -> list[str]:
    return [secret.get_secret_value() for secret in spec.secrets.values()] + _credentials(info)


def _credentials(info: BackendInfo) -> list[str]:
    return [value for name in info.credentials if (value := os.environ.get(name))]


def _no_progress(line: str) -> None:
    _logger.info("%s", line)
