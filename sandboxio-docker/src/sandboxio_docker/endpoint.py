"""Where one Docker engine listens; plain data, so that the reaper's child process can be told."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from sandboxio.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of one engine and how to speak to it.

    :param base_url: ``unix:///path``, ``tcp://host:port`` (in clear) or ``https://host:port`` (TLS).
    :param ca: file of the certificate authority that signs the engine's certificate; ``None`` = the system's.
    :param cert: file of the client's certificate, ``key`` the file of its private key.
    :param verify: whether the engine's certificate is checked.
    :param api_version: the negotiated version, such as ``"1.41"``; empty until it is known.
    """

    base_url: str
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    verify: bool = True
    api_version: str = ""

    @property
    def socket_path(self) -> str | None:
        """The path of the unix socket; ``None`` for TCP and TLS."""
        return self.base_url.removeprefix("unix://") if self.base_url.startswith("unix://") else None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of TCP and TLS."""
        parts = urlsplit(self.base_url)
        return parts.hostname or "localhost", parts.port or (2376 if self.is_tls else 2375)

    @property
    def is_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.base_url.startswith("https://")

    @property
    def is_local(self) -> bool:
        """Whether the engine runs on this machine for certain."""
        return self.socket_path is not None

    def with_version(self, api_version: str) -> "Endpoint":
        """Return the same endpoint, its API version known."""
        return replace(self, api_version=api_version)

    def to_json(self) -> str:
        """Return a form that another process reads back with `from_json`; it holds file names, no key."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Endpoint":
        """Read what `to_json` wrote."""
        return cls(**json.loads(text))


def resolve(host: str | None) -> Endpoint:
    """Find the engine as the Docker SDK does: ``host``, else ``DOCKER_HOST``, else the current Docker context.

    TLS follows ``DOCKER_TLS_VERIFY`` and ``DOCKER_CERT_PATH``, or the context's files.

    :raises ConfigurationError: a transport that this adapter does not speak, or unreadable TLS files.
    """
    from docker.errors import DockerException
    from docker.utils import kwargs_from_env, parse_host

    try:
        found: dict[str, Any] = dict(kwargs_from_env())
        if host is not None:
            found["base_url"] = host
        if "base_url" not in found:
            found = _from_context() | found
        _refuse_credentials(str(found.get("base_url") or ""))
        tls = found.get("tls")
        url = parse_host(found.get("base_url"), tls=bool(tls))
    except DockerException as error:
        raise ConfigurationError(
            f"the address of the Docker engine can't be used: {error}",
            hint="correct DOCKER_HOST, DOCKER_CERT_PATH, the Docker context, or DockerConfig(host=…)",
        ) from error
    return _endpoint(url, tls)


def _refuse_credentials(url: str) -> None:
    """Refuse what would be shown in messages and logs, before anything repeats it."""
    user, at, _ = urlsplit(url).netloc.rpartition("@")
    if at and (":" in user or not url.startswith("ssh://")):
        raise ConfigurationError(
            "the address of the Docker engine carries a user or a password",
            hint="take it out; an engine knows its clients by TLS certificates (DOCKER_CERT_PATH)",
        )


def _from_context() -> dict[str, Any]:
    # Not `kwargs_from_context`: the oldest SDK that we accept has contexts, but not that shortcut.
    import os

    from docker.context import ContextAPI

    context: Any = ContextAPI.get_context(os.environ.get("DOCKER_CONTEXT"))
    if context is None or not context.Host:
        return {}
    return {"base_url": context.Host, "tls": context.TLSConfig}


def _endpoint(url: str, tls: Any) -> Endpoint:
    if url.startswith("http+unix://"):
        path = url.removeprefix("http+unix://")
        return Endpoint("unix://" + (path if path.startswith("/") else f"/{path}"))
    if url.startswith("http://"):
        return Endpoint("tcp://" + url.removeprefix("http://"))
    if url.startswith("https://"):
        cert, key = tls.cert if tls and tls.cert else (None, None)
        return Endpoint(url, tls.ca_cert if tls else None, cert, key, verify=bool(tls.verify) if tls else True)
    raise ConfigurationError(
        f"the Docker engine at {url.partition('://')[0]}:// can't be reached by this adapter yet",
        hint="forward the engine's socket (ssh -nNT -L /tmp/docker.sock:/var/run/docker.sock HOST) and use unix://, or use TLS",
    )
