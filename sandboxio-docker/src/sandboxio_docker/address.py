"""An engine's address as people write it: read strictly, and never repeated in a message: it may hold a password."""

import re
from urllib.parse import urlsplit

from sandboxio.errors import ConfigurationError

DEFAULT = "unix:///var/run/docker.sock"
DEFAULT_TLS = "tcp://localhost:2376"
"""Where the ``docker`` command looks if TLS is asked for and no address given (docker/cli ``opts.ParseHost``, read 2026-11)."""
FORMS = "unix:///PATH, tcp://HOST:PORT, https://HOST:PORT or ssh://[USER@]HOST[:PORT]"

# What reaches the ssh program: no option, no space, nothing that a shell or ssh's own %-expansions would take apart.
_SSH = re.compile(
    r"(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9_.+@-]*)@)?"
    r"(?P<host>[A-Za-z0-9_][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
)


def normalized(text: str, *, tls: bool, origin: str) -> str:
    """Return the address as ``unix:///…``, ``tcp://host:port``, ``https://host:port`` or ``ssh://…``.

    :param tls: whether ``tcp://`` means TLS.
    :param origin: where the address was found, for messages.
    :raises ConfigurationError: it is malformed, holds a password, or names a transport that is not spoken.
    """
    scheme, mark, rest = text.strip().partition("://")
    if not mark and ":" in scheme:
        scheme, rest = "tcp", text.strip()
    if scheme in ("tcp", "http", "https"):
        return _tcp(rest, tls=scheme == "https" or (tls and scheme == "tcp"), origin=origin)
    if scheme == "ssh":
        return _checked_ssh(rest, origin)
    if scheme in ("unix", "http+unix"):
        return f"unix:///{rest.lstrip('/')}" if rest.strip("/") else DEFAULT
    raise _unspoken(scheme, origin)


def ssh_parts(url: str) -> tuple[str | None, str, str | None]:
    """Return user, host and port of a normalized ``ssh://`` address; what is ``None``, ssh's own configuration says."""
    match = _SSH.fullmatch(url.removeprefix("ssh://"))
    assert match is not None
    return match["user"], match["host"].strip("[]"), match["port"]


def _checked_ssh(rest: str, origin: str) -> str:
    target = rest.rstrip("/")
    if ":" in target.rpartition("@")[0]:
        raise ConfigurationError(
            f"{origin} carries a password", hint="take it out, and let ssh log in with a key: ssh://USER@HOST"
        )
    match = _SSH.fullmatch(target)
    if match is None or not _is_port(match["port"]):
        raise ConfigurationError(
            f"{origin} is no ssh address: a user or host of letters, digits, '.', '-' and '_' is expected, and no path",
            hint="write ssh://[USER@]HOST[:PORT]; for anything else name a Host in ~/.ssh/config and write ssh://NAME",
        )
    return f"ssh://{target}"


def _tcp(rest: str, *, tls: bool, origin: str) -> str:
    if "@" in rest:
        raise ConfigurationError(
            f"{origin} carries a user or a password, which no Docker engine takes",
            hint="take it out; TLS shows who you are by DOCKER_CERT_PATH, or the Docker context's files",
        )
    scheme, default = ("https", 2376) if tls else ("tcp", 2375)
    try:
        parts = urlsplit(f"//{rest}")
        host, port = parts.hostname, parts.port or default
    except ValueError:
        host, port, parts = None, 0, urlsplit("")
    if not host or parts.path.strip("/") or parts.query or parts.fragment:
        raise ConfigurationError(f"{origin} is no host and port", hint=f"write {FORMS}")
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _is_port(text: str | None) -> bool:
    return text is None or 0 < int(text) < 65_536


def _unspoken(scheme: str, origin: str) -> ConfigurationError:
    if scheme == "npipe":
        return ConfigurationError(
            f"{origin} is a Windows named pipe, which this adapter does not speak: its host-side reaper needs a POSIX system",
            hint="run under WSL 2, where Docker Desktop's integration serves unix:///var/run/docker.sock",
        )
    named = f"{scheme}://, a transport" if re.fullmatch(r"[a-z][a-z0-9+]{0,15}", scheme) else "an address"
    return ConfigurationError(f"{origin} is {named} that this adapter does not speak", hint=f"write {FORMS}")
