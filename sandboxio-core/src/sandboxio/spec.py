"""The specification of one sandbox: every argument validated, every default resolved, frozen."""

import re
import secrets as random
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

from pydantic import SecretStr

from sandboxio.errors import ConfigurationError
from sandboxio.isolation import IsolationTier
from sandboxio.policy import NetworkPolicy, Resources
from sandboxio.redaction import Redactor, raise_from, shown_name, shown_number
from sandboxio.secret_forms import SHORTEST
from sandboxio.target import BackendConfig

T = TypeVar("T")

DEFAULT_TIMEOUT = 300.0
"""Seconds that a sandbox lives if nothing else is said."""
MAX_TIMEOUT = 86_400.0
"""Seconds; the longest lifetime that may be asked for."""
MAX_STRING = 131_071
"""Bytes of one argument or environment entry that Linux takes, without its NUL."""

_NAME = re.compile(r"[^=\0\n]+\Z")


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """One sandbox as asked for.

    :param config: the typed configuration of the backend; its ``template`` is resolved.
    :param env: environment variables of every command.
    :param secrets: the same, never shown.
    :param timeout: seconds, both for the creation and as the lifetime.
    :param metadata: reaches the provider's labels.
    :param create_id: a client-chosen unique name, by which an orphan is found.
    :param redact_output: whether secrets are masked in what commands print, too.
    """

    backend: str
    config: BackendConfig
    template: str | None
    resources: Resources
    network: NetworkPolicy
    env: Mapping[str, str] = field(repr=False)
    secrets: Mapping[str, SecretStr] = field(repr=False)
    timeout: float
    metadata: Mapping[str, str]
    require_isolation: IsolationTier | None
    create_id: str
    redact_output: bool = False


def new_create_id() -> str:
    """Return a fresh name that every provider accepts: lower-case letters, digits and dashes."""
    return f"sbx-{random.token_hex(10)}"


def check_timeout(value: object, what: str, maximum: float = MAX_TIMEOUT) -> float:
    """Return a finite number of seconds above 0.

    :raises ConfigurationError: ``None``, no number, ≤ 0, NaN, infinite, or above ``maximum``.
    """
    hint = f"pass seconds above 0 and up to {maximum:g}; there is no unlimited"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigurationError(f"{what}: a number of seconds is wanted, not {type(value).__name__}", hint=hint)
    if not 0 < value <= maximum:  # false for NaN, and an integer of any size compares
        raise ConfigurationError(f"{what}: {shown_number(value)} is out of range", hint=hint)
    return float(value)


def check_env(env: Mapping[str, str] | None, what: str) -> Mapping[str, str]:
    """Return environment variables as a read-only copy; a message shows the key, never the value."""
    checked = dict(check_mapping(env, what))
    for name, value in checked.items():
        check_variable(name, value, what)
    return MappingProxyType(checked)


def check_mapping(value: Mapping[str, T] | None, what: str) -> Mapping[str, T]:
    """Return a mapping, empty for ``None``; callers may be untyped."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"{what}: a mapping of names to values is wanted, not {type(value).__name__}",
            hint=f"pass {what.rpartition(' ')[2]}={{'NAME': 'value'}}, or leave it out",
        )
    return value


def check_variable(name: object, value: object, what: str) -> None:
    """Refuse a name or value that no process environment can carry."""
    if not isinstance(name, str) or not _NAME.match(name):
        raise ConfigurationError(
            f"{what}: {shown_name(name)} is no variable name", hint="use a non-empty string without '=', NUL or newline"
        )
    where = f"{what}[{shown_name(name)}]"
    if not isinstance(value, str):
        raise ConfigurationError(
            f"{where}: a string is wanted, not {type(value).__name__}",
            hint="pass text, such as str(value); to unset a variable, leave it out",
        )
    size = len(check_text(name, what)) + len(check_text(value, where)) + 1
    if size > MAX_STRING:
        raise ConfigurationError(
            f"{where}: {size} bytes is over Linux's limit of {MAX_STRING} for one entry",
            hint="write large values to a file with files.write()",
        )


def check_text(text: str, what: str) -> bytes:
    """Return the bytes of a string that crosses into a sandbox; bytes from `os.fsdecode` come back as they were.

    :raises ConfigurationError: it holds a NUL or a lone surrogate.
    """
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise_from(ConfigurationError(f"{what} holds a lone surrogate", hint="pass valid Unicode text"), None)
    if b"\0" in data:
        raise ConfigurationError(
            f"{what} holds a NUL byte", hint="NUL can't be part of it; pass it over stdin or a file"
        )
    return data


def check_secrets(secrets: Mapping[str, str | SecretStr] | None, env: Mapping[str, str]) -> Mapping[str, SecretStr]:
    """Return secrets wrapped, so that no repr shows a value."""
    checked: dict[str, SecretStr] = {}
    for name, value in check_mapping(secrets, "secrets").items():
        plain = value.get_secret_value() if isinstance(value, SecretStr) else value
        check_variable(name, plain, "secrets")
        if len(plain) < SHORTEST:
            raise ConfigurationError(
                f"secrets[{shown_name(name)}] has fewer than {SHORTEST} characters and can't be redacted",
                hint="pass it in env= if it is no secret",
            )
        if name in env:
            raise ConfigurationError(f"{shown_name(name)} is in both env and secrets", hint="keep it in one of them")
        checked[name] = SecretStr(plain)
    return MappingProxyType(checked)


def check_metadata(metadata: Mapping[str, str] | None, secrets: Mapping[str, SecretStr]) -> Mapping[str, str]:
    """Return labels as a read-only copy; what a provider can't carry is refused by its plan."""
    checked = dict(check_mapping(metadata, "metadata"))
    for key, value in checked.items():
        if not isinstance(key, str) or not isinstance(value, str) or not key:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                "metadata: non-empty string keys and string values are wanted", hint="pass {'tenant_id': 'a', …}"
            )
        check_text(key, "a metadata key")
        check_text(value, f"metadata[{shown_name(key)}]")
        refuse_secret("a key of metadata", key, secrets)
        refuse_secret(f"metadata[{shown_name(key)}]", value, secrets)
    return MappingProxyType(checked)


def refuse_secret(what: str, value: object, secrets: Mapping[str, SecretStr]) -> None:
    """Refuse plain data that providers show in clear and that holds a secret, in any form."""
    for name, secret in secrets.items():
        if Redactor([secret.get_secret_value()]).holds_whole(value):
            raise ConfigurationError(f"{what} contains the value of the secret {shown_name(name)}", hint="take it out")


def refuse_credential(what: str, value: object, redactor: Redactor) -> None:
    """Refuse plain data that providers show in clear and that holds anything else that is masked."""
    if redactor.holds_whole(value):
        raise ConfigurationError(f"{what} contains a credential of the backend", hint="take it out")
