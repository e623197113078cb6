"""The target of `create()`: a DSN or a typed configuration."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast
from urllib.parse import parse_qsl

from pydantic import ConfigDict, ValidationError

from sandboxio.errors import ConfigurationError
from sandboxio.redaction import raise_from, shown_name
from sandboxio.values import Value, configuration_error

DSN_FORM = "<backend>://[<template>][?param=value]"

_SCHEME = re.compile(r"(?P<backend>[a-z][a-z0-9_-]*)://(?P<rest>.*)\Z", re.DOTALL)
_CREDENTIAL = re.compile(r"key|token|secret|passw|pwd|credential|auth|bearer|cookie|private", re.IGNORECASE)
_TEMPLATE = re.compile(r"/?[A-Za-z0-9][A-Za-z0-9._:/+-]*\Z")
_DIGEST = re.compile(r"sha(?:256|384|512):[0-9A-Fa-f]+\Z")


class BackendConfig(Value):
    """Base of the adapters' typed configurations; pass one instead of a DSN.

    Fields that are plain scalars are the DSN's parameters, unless `secret_fields` names them.
    """

    backend: ClassVar[str]
    template: str | None = None
    """Image or template to start from; ``None`` is the backend's default."""


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed target; no adapter was imported for it.

    :param params: the DSN's parameters but ``timeout``, not yet interpreted.
    :param timeout: the DSN's timeout as written.
    """

    backend: str
    template: str | None = None
    params: Mapping[str, str] | None = field(default=None, repr=False)
    timeout: str | None = field(default=None, repr=False)
    config: BackendConfig | None = None


def parse_target(target: "str | BackendConfig") -> Target:
    """Read a target; messages never repeat a parameter's value, which may be a secret in the wrong place.

    :raises ConfigurationError: it is malformed, or holds something that looks like a credential.
    """
    if isinstance(target, BackendConfig):
        return Target(type(target).backend, target.template, config=target)
    if not isinstance(target, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise ConfigurationError(
            f"a target is a DSN or a typed configuration, not {type(target).__name__}",
            hint=f"write {DSN_FORM}, such as docker://, or pass such as DockerConfig(…)",
        )
    match = _SCHEME.match(target)
    if not match:
        raise ConfigurationError(
            "the target is no DSN (lower-case backend name, then ://)", hint=f"write {DSN_FORM}, such as docker://"
        )
    template, mark, query = match["rest"].partition("?")
    if "#" in match["rest"]:
        raise ConfigurationError("a DSN has no #fragment", hint=f"write {DSN_FORM}")
    params = _parameters(match["backend"], query) if mark else {}
    name = check_template(match["backend"], template, "the DSN's template") if template else None
    return Target(match["backend"], name, params, params.pop("timeout", None))


def check_template(backend: str, text: object, what: str) -> str:
    """Return an image or template name, untouched.

    :raises ConfigurationError: it has characters that no such name has, or a user or password.
    """
    if not isinstance(text, str):
        raise ConfigurationError(f"{what} is a string, not {type(text).__name__}", hint="pass the image's name as text")
    name, at, digest = text.partition("@")
    if at and not _DIGEST.match(digest):
        raise ConfigurationError(
            f"{what} carries no user or password", hint=f"set the environment variables that {backend} documents"
        )
    if not _TEMPLATE.match(name):
        raise ConfigurationError(f"{what} has characters that no image or template name has", hint="correct the name")
    return text


def _parameters(backend: str, query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError:
        raise_from(ConfigurationError("the DSN's parameters are malformed", hint="write ?name=value&name=value"), None)
    params: dict[str, str] = {}
    for name, value in pairs:
        if not name:
            raise ConfigurationError("a parameter of the DSN has no name", hint="write ?name=value&name=value")
        if _CREDENTIAL.search(name):
            raise ConfigurationError(
                f"a DSN may not carry credentials (parameter {shown_name(name)})",
                hint=f"set the environment variable that {backend} documents for it",
            )
        if name in params:
            raise ConfigurationError(f"the DSN names {shown_name(name)} twice", hint="name it once")
        params[name] = value
    return params


def resolve_config(target: Target, config_class: type[BackendConfig], template: str | None) -> BackendConfig:
    """Turn a target into the backend's typed configuration, ``template`` being the caller's argument.

    :raises ConfigurationError: unknown parameter, wrong value, or two different templates.
    """
    if template is not None and target.template is not None and template != target.template:
        raise ConfigurationError("the target and template= name different templates", hint="name one of them")
    config = target.config or _from_parameters(target, config_class)
    if not isinstance(config, config_class):
        raise ConfigurationError(
            f"{type(config).__name__} is no configuration of {target.backend}",
            hint=f"pass a {config_class.__name__}, or a DSN: {target.backend}://",
        )
    chosen = target.template if template is None else template
    if chosen is not None:
        chosen = check_template(target.backend, chosen, "template=")
    resolved: BackendConfig = config.replace(template=chosen) if chosen != config.template else config
    return resolved


def _from_parameters(target: Target, config_class: type[BackendConfig]) -> BackendConfig:
    given: Mapping[str, str] = target.params or {}
    known = _scalar_fields(config_class)
    for name in given:
        if name not in known:
            raise ConfigurationError(
                f"{target.backend} has no DSN parameter {shown_name(name)}",
                hint=f"it has: timeout{''.join(', ' + field for field in sorted(known))}",
            )
    try:
        # A DSN's values are text: read leniently here ("1" is a number and a truth value), strictly everywhere else.
        parsed = _lenient(config_class).model_validate_strings(dict(given))
    except ValidationError as error:
        raise_from(configuration_error(config_class.__name__, error, config_class.model_fields), None)
    return config_class(**{name: getattr(parsed, name) for name in parsed.model_fields_set})


def _scalar_fields(config_class: type[BackendConfig]) -> set[str]:
    scalars: tuple[object, ...] = (str, int, float, bool, str | None, int | None, float | None, bool | None)
    fields = config_class.model_fields.items()
    return {name for name, info in fields if name != "template" and cast("object", info.annotation) in scalars}


def _lenient(config_class: type[BackendConfig]) -> Any:
    name = f"{config_class.__name__}Dsn"
    return type(name, (config_class,), {"model_config": ConfigDict(strict=False), "__module__": __name__})
