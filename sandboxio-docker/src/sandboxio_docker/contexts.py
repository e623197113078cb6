"""Docker contexts as the ``docker`` command keeps them; it need not be installed.

Read here and not by the SDK, which takes the default engine for a context that is missing, and speaks in clear to one
whose TLS files are only a ``ca.pem`` (docker-py 7.2 ``docker/context``, docker/cli ``cli/context``; read 2026-11).
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from sandboxio.errors import ConfigurationError

DEFAULT = "default"
"""The name that stands for ``DOCKER_HOST``, or the local socket."""


@dataclass(frozen=True, slots=True)
class Tls:
    """The files of a TLS connection, and whether the engine's certificate is checked."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    verify: bool = True


@dataclass(frozen=True, slots=True)
class Context:
    """One context's engine; ``tls`` is ``None`` where the connection is in clear."""

    name: str
    host: str
    tls: Tls | None


def config_folder() -> Path:
    """Return the folder of the docker command's settings."""
    return Path(os.environ.get("DOCKER_CONFIG") or Path("~/.docker").expanduser())


def chosen() -> Context | None:
    """Return the context of ``DOCKER_CONTEXT``, else of ``config.json``; ``None`` = the default one.

    :raises ConfigurationError: it is not there, or can't be read: another engine is not taken instead.
    """
    name = os.environ.get("DOCKER_CONTEXT") or _current()
    return None if name in ("", DEFAULT) else read(name)


def read(name: str) -> Context:
    """Return the context of this name.

    :raises ConfigurationError: there is none, or it can't be read.
    """
    folder, identity = config_folder() / "contexts", hashlib.sha256(name.encode()).hexdigest()
    file = folder / "meta" / identity / "meta.json"
    if not file.exists():
        raise ConfigurationError(
            f"there is no Docker context {name!r}",
            hint="`docker context ls` shows what there is; correct DOCKER_CONTEXT, or set DOCKER_HOST",
        )
    endpoint = _object(_object(_json(file).get("Endpoints")).get("docker"))
    host, skip = endpoint.get("Host", ""), endpoint.get("SkipTLSVerify", False)
    if not endpoint or not isinstance(host, str) or not isinstance(skip, bool):
        raise ConfigurationError(f"the Docker context {name!r} names no Docker engine", hint="name another one")
    return Context(name, host, _tls(folder / "tls" / identity / "docker", skip=skip))


def tls_of(folder: Path, *, verify: bool) -> Tls:
    """Return which of ``ca.pem``, ``cert.pem`` and ``key.pem`` there are.

    :raises ConfigurationError: a certificate without its key, or the other way round.
    """
    ca, cert, key = (
        str(folder / name) if (folder / name).is_file() else None for name in ("ca.pem", "cert.pem", "key.pem")
    )
    if (cert is None) != (key is None):
        raise ConfigurationError(
            f"{folder} has only one of cert.pem and key.pem", hint="put the other one beside it, or remove it"
        )
    return Tls(ca, cert, key, verify)


def _tls(folder: Path, *, skip: bool) -> Tls | None:
    found = tls_of(folder, verify=not skip)
    return found if skip or found.ca or found.cert else None


def _current() -> str:
    file = config_folder() / "config.json"
    name: object = _json(file).get("currentContext", "") if file.exists() else ""
    return name if isinstance(name, str) else ""


def _json(file: Path) -> Mapping[str, Any]:
    try:
        return _object(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        # No word of its content: config.json may hold registry passwords.
        reason = error.strerror if isinstance(error, OSError) else "it is no JSON"
        raise ConfigurationError(
            f"which Docker engine is meant can't be read from {file}: {reason}",
            hint="correct the file, or set DOCKER_HOST or DOCKER_CONTEXT",
        ) from None


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
