"""A request for a sandbox: its arguments, and how they become a specification and a backend."""

import logging
import os
import re
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import anyio
from pydantic import SecretStr

from sandboxio import extensions, plugins
from sandboxio.audit import AuditConfig
from sandboxio.calls import LOOK_BOUND, PortCalls
from sandboxio.coverage import refuse_learning
from sandboxio.errors import BackendUnavailable, ConfigurationError
from sandboxio.isolation import IsolationTier
from sandboxio.policy import NetworkPolicy, Resources
from sandboxio.port import Backend, BackendInfo, HoldsSecrets
from sandboxio.readback import Expected
from sandboxio.records import Recorder
from sandboxio.redaction import Redactor
from sandboxio.spec import (
    DEFAULT_TIMEOUT,
    MAX_TIMEOUT,
    SandboxSpec,
    check_env,
    check_metadata,
    check_secrets,
    check_timeout,
    new_create_id,
)
from sandboxio.target import BackendConfig, Target, parse_target, resolve_config
from sandboxio.threads import in_thread

T = TypeVar("T")

DEFAULT_TARGET = "docker://"
WITHOUT_ENGINE = "bubblewrap://"
"""What an error names where the default target was taken and does not answer; nothing ever falls back to it by itself."""

_INSTANCES: Mapping[type, str] = {
    Resources: "pass sandboxio.Resources(cpu=…, memory_mb=…), or leave it out for the defaults",
    NetworkPolicy: 'pass sandboxio.NetworkPolicy(egress="deny" or "allow"), or leave it out: nothing is reached then',
    IsolationTier: f"pass one of {', '.join(f'sandboxio.IsolationTier.{tier.name}' for tier in IsolationTier)}",
}
"""What to pass where a value of the class is wanted."""

_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?\Z", re.ASCII)

FULL_ID = "pass a full id, as list_managed() and Sandbox.id show it"
"""The fix where a sandbox's id is wanted."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{7,254}\Z")
"""What the id of a sandbox looks like anywhere; a few characters are an abbreviation."""

_logger = logging.getLogger("sandboxio")


class Unsaid:
    """The default of create's timeout, which a DSN may still change; ``None`` is a mistake of the caller's."""

    def __repr__(self) -> str:
        """Show the value."""
        return f"<{DEFAULT_TIMEOUT:g} s>"


UNSAID = Unsaid()


@dataclass(frozen=True, slots=True, repr=False)  # a repr would show the secrets
class Request:
    """The arguments of `create`, not looked at yet."""

    target: "str | BackendConfig | None"
    template: str | None = None
    resources: Resources | None = None
    network: NetworkPolicy | None = None
    env: Mapping[str, str] | None = None
    secrets: Mapping[str, str | SecretStr] | None = None
    timeout: object = UNSAID
    metadata: Mapping[str, str] | None = None
    require_isolation: IsolationTier | None = None
    redact_output: bool = False
    audit: object = None

    def redactor(self) -> Redactor:
        """Return a redactor of the secrets as they were passed: messages about wrong arguments are masked, too."""
        given = self.secrets.values() if isinstance(self.secrets, Mapping) else ()
        return Redactor(plain for value in given if isinstance(plain := _plain(value), str))


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that was looked at: a valid spec, the backend that it is for, and where it is recorded."""

    calls: PortCalls
    spec: SandboxSpec
    recorder: Recorder


async def prepare(request: Request, target: Target, redactor: Redactor) -> Prepared:
    """Load the adapter, validate every argument and resolve every default; nothing is sent."""
    adapter = await _loaded(target, redactor)
    spec = _spec(request, target, adapter.info)
    # As they were read into the spec: a mapping may have changed since, or answer anew each time.
    redactor.learn([*_secret_fields(spec.config), *(value.get_secret_value() for value in spec.secrets.values())])
    recorder = await recorder_of(request.audit, redactor)
    return Prepared(await _connected(adapter, spec.config, redactor), spec, recorder)


async def recorder_of(audit: object, redactor: Redactor) -> Recorder:
    """Return where a sandbox's operations are recorded; callers may be untyped."""
    config = _instance(AuditConfig() if audit is None else audit, AuditConfig, "audit")
    is_plain = extensions.is_empty()
    return Recorder(config, redactor) if is_plain else await in_thread(Recorder.of, config, redactor)


async def calls_to(target: Target, redactor: Redactor) -> PortCalls:
    """Return the calls to the backend that a target names."""
    return (await existing(target, redactor))[0]


async def existing(target: Target, redactor: Redactor) -> tuple[PortCalls, BackendConfig]:
    """Return the calls to the backend that a target names, and its configuration."""
    adapter = await _loaded(target, redactor)
    config = resolve_config(target, adapter.info.config, None)
    redactor.learn(_secret_fields(config))
    return await _connected(adapter, config, redactor), config


async def _loaded(target: Target, redactor: Redactor) -> plugins.Adapter:
    adapter = await in_thread(plugins.load, target.backend)
    redactor.ask(lambda: _credentials(adapter.info))
    return adapter


async def _connected(adapter: plugins.Adapter, config: BackendConfig, redactor: Redactor) -> PortCalls:
    backend: Backend = await in_thread(adapter.make_backend, config, redactor)
    if isinstance(backend, HoldsSecrets):
        redactor.ask(backend.secret_values)
    return PortCalls(backend, redactor)


async def in_time(loading: Awaitable[T]) -> T:
    """Wait for an adapter where no deadline of the caller's holds.

    :raises BackendUnavailable: its import, or what it does at first, did not end in time.
    """
    with anyio.move_on_after(LOOK_BOUND):
        return await loading
    raise BackendUnavailable(
        f"the backend's adapter was not loaded within {LOOK_BOUND:g} s",
        hint=plugins.SLOW_HINT,
    )


def read_target(target: "str | BackendConfig | None", redactor: Redactor) -> Target:
    """Read a target, ``None`` standing for ``$SANDBOXIO_BACKEND``, else `DEFAULT_TARGET`."""
    if target is not None:
        return parse_target(target)
    chosen = os.environ.get("SANDBOXIO_BACKEND") or DEFAULT_TARGET
    parsed = parse_target(chosen)
    # The parameters are not shown: something secret may stand there by mistake.
    _logger.info("no target given: using %s://%s", parsed.backend, redactor.text(parsed.template or ""))
    return parsed


def is_default(target: object) -> bool:
    """Whether nobody named a target: neither the caller nor the environment."""
    return target is None and not os.environ.get("SANDBOXIO_BACKEND")


def check_id(sandbox_id: object) -> str:
    """Return what may be the full id of a sandbox; whether it is one the provider's answer tells."""
    if not isinstance(sandbox_id, str) or not _ID.match(sandbox_id):
        raise ConfigurationError("that can't be the id of a sandbox", hint=FULL_ID)
    return sandbox_id


def check_expected(expected: Expected) -> Expected:
    """Return what `connect` expects; callers may be untyped.

    :raises ConfigurationError: a wrong argument. :raises CapabilityNotSupported: ``egress="learn"``.
    """
    if expected.network is not None:
        refuse_learning(_instance(expected.network, NetworkPolicy, "network"))
    if expected.resources is not None:
        _instance(expected.resources, Resources, "resources")
    _check_tier(expected.require_isolation)
    return replace(expected, metadata=check_metadata(expected.metadata, {}))


def _check_tier(required: object) -> None:
    if required is not None and _instance(required, IsolationTier, "require_isolation") is IsolationTier.UNKNOWN:
        raise ConfigurationError("require_isolation=UNKNOWN requires nothing", hint="name a tier, or leave it out")


def _spec(request: Request, target: Target, info: BackendInfo) -> SandboxSpec:
    _check_tier(request.require_isolation)
    config = resolve_config(target, info.config, request.template)
    env = check_env(request.env, "env")
    secrets = check_secrets(request.secrets, env)
    return SandboxSpec(
        backend=info.name,
        config=config,
        template=config.template,
        resources=_resources(request.resources, config, info),
        network=_instance(NetworkPolicy() if request.network is None else request.network, NetworkPolicy, "network"),
        env=env,
        secrets=secrets,
        timeout=resolved_timeout(request.timeout, target, _longest(info)),
        metadata=check_metadata(request.metadata, secrets),
        require_isolation=request.require_isolation,
        create_id=new_create_id(),
        redact_output=_instance(request.redact_output, bool, "redact_output"),
    )


def _resources(given: Resources | None, config: BackendConfig, info: BackendInfo) -> Resources:
    resources = _instance(Resources() if given is None else given, Resources, "resources")
    if not info.resource_caps_supported and not resources.replace(gpu=None).is_default:  # a GPU is no cap
        raise ConfigurationError(
            f"caps on {info.name} belong to the template {config.template or 'in use'}, not to the sandbox",
            hint="change cpu, memory and disk in the template, and leave resources= out",
        )
    return resources


def _instance(value: object, cls: type[T], name: str) -> T:
    if not isinstance(value, cls):
        raise ConfigurationError(
            f"{name}= takes a {cls.__name__}, not {type(value).__name__}",
            hint=_INSTANCES.get(cls, "pass True or False"),
        )
    return value


def resolved_timeout(given: object, target: Target, maximum: float) -> float:
    """Return the timeout of `create`: the argument, else the DSN's, else the default."""
    if not isinstance(given, Unsaid):
        return check_timeout(given, "create(timeout=…)", maximum)
    if target.timeout is None:
        return min(DEFAULT_TIMEOUT, maximum)
    if not _SECONDS.match(target.timeout):
        raise ConfigurationError("the DSN's timeout is no number of seconds", hint="write ?timeout=SECONDS")
    seconds = float(target.timeout)
    return check_timeout(seconds, "the DSN's timeout", maximum)


def _longest(info: BackendInfo) -> float:
    return min(MAX_TIMEOUT, info.baseline.maxima.get("lifetime", MAX_TIMEOUT))


def _plain(value: object) -> object:
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def _secret_fields(config: BackendConfig) -> list[str]:
    return [value.get_secret_value() for value in vars(config).values() if isinstance(value, SecretStr)]


def _credentials(info: BackendInfo) -> list[str]:
    return [value for name in info.credentials if (value := os.environ.get(name))]
