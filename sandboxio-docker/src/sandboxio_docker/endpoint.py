"""Where one Docker engine listens; plain data, so that the reaper's child process can be told."""

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from sandboxio.errors import ConfigurationError

from sandboxio_docker import address, contexts
from sandboxio_docker.contexts import Tls

SSH = (
    *("ssh", "-T", "-a", "-x"),
    # Nobody is there to answer a question.
    *("-o", "BatchMode=yes"),
    *("-o", "LogLevel=ERROR"),
    *("-o", "ConnectTimeout=10"),
    # A dead peer must be noticed on either side: owner death rests on it.
    *("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3"),
    # What the user's own configuration may want of a shell on that host, and what would be in the way of many connections.
    *("-o", "ClearAllForwardings=yes", "-o", "RemoteCommand=none", "-o", "PermitLocalCommand=no"),
    # A connection that others ride on would end them with its own end.
    *("-o", "ControlMaster=no"),
)
DIAL = "docker system dial-stdio"
"""What runs on the other side, as for the docker command itself (docker/cli ``cli/connhelper``, read 2026-11)."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of one engine and how to speak to it.

    :param base_url: ``unix:///path``, ``tcp://host:port`` (in clear), ``https://host:port`` (TLS) or
        ``ssh://[user@]host[:port]``.
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
        """The path of the unix socket; ``None`` for everything else."""
        return self.base_url.removeprefix("unix://") if self.base_url.startswith("unix://") else None

    @property
    def ssh_command(self) -> tuple[str, ...] | None:
        """The program whose stdin and stdout are a connection to the engine; ``None`` where it is not ssh."""
        if not self.base_url.startswith("ssh://"):
            return None
        user, host, port = address.ssh_parts(self.base_url)
        login = (*(("-l", user) if user else ()), *(("-p", port) if port else ()))
        return (*SSH, *login, "--", host, DIAL)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of TCP and TLS."""
        parts = urlsplit(self.base_url)
        return parts.hostname or "localhost", parts.port or (2376 if self.is_tls else 2375)

    @property
    def is_tls(self) -> bool:
        """Whether the connection is encrypted by TLS."""
        return self.base_url.startswith("https://")

    @property
    def is_network(self) -> bool:
        """Whether it is reached over TCP or TLS, by this program itself."""
        return self.base_url.startswith(("tcp://", "https://"))

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
    """Find the engine as the ``docker`` command does.

    ``host``, else ``DOCKER_HOST``, else the context of ``DOCKER_CONTEXT``, else that of ``config.json``, else the local
    socket. TLS of a context is that of its own files; else it follows ``DOCKER_TLS_VERIFY``, ``DOCKER_TLS`` and
    ``DOCKER_CERT_PATH`` (docker/cli ``resolveContextName``, read 2026-11).

    :raises ConfigurationError: an address or context that can't be used; it is never passed over for another engine.
    """
    if host is not None:
        return _endpoint(host, _tls_of_environment(), "the engine's address in DockerConfig(host=…)")
    if named := os.environ.get("DOCKER_HOST"):
        return _endpoint(named, _tls_of_environment(), "DOCKER_HOST")
    context = contexts.chosen()
    if context is not None:
        return _endpoint(context.host, context.tls, f"the host of the Docker context {context.name!r}")
    return _endpoint("", _tls_of_environment(), "the default address")


def _endpoint(text: str, tls: Tls | None, origin: str) -> Endpoint:
    default = address.DEFAULT if tls is None else address.DEFAULT_TLS
    url = address.normalized(text or default, tls=tls is not None, origin=origin)
    if not url.startswith("https://"):
        return Endpoint(url)
    files = tls or Tls()
    return Endpoint(url, files.ca, files.cert, files.key, files.verify)


def _tls_of_environment() -> Tls | None:
    verify, path = bool(os.environ.get("DOCKER_TLS_VERIFY")), os.environ.get("DOCKER_CERT_PATH")
    if not verify and not path and not os.environ.get("DOCKER_TLS"):
        return None
    folder = Path(path) if path else contexts.config_folder()
    found = contexts.tls_of(folder, verify=verify)
    if verify and found.ca is None:
        raise ConfigurationError(
            f"DOCKER_TLS_VERIFY is set, and there is no {folder / 'ca.pem'}",
            hint="set DOCKER_CERT_PATH to the folder of ca.pem, cert.pem and key.pem",
        )
    return found
