"""The typed configuration of the Docker adapter."""

import ipaddress
import re
from typing import ClassVar

from pydantic import field_validator, model_validator
from sandboxio.target import BackendConfig

CAPABILITIES = {"CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "FSETID": 4, "KILL": 5, "SETGID": 6, "SETUID": 7}
"""What may be given back, and each one's bit: what ordinary images need as root, none of it a way to the network, to devices
or out of the container. With all of them only ``mknod`` was seen to be missing (measured 2026-11)."""
SWITCH_USER = ("SETUID", "SETGID", "KILL")
"""What ``run(user=…)`` needs: to become that user, and to end what it left running."""
ROOT_USERS = ("", "0", "root", "0:0", "root:root")
MAX_ID = 2**31 - 1
SUBNET = 29
"""The prefix length of a sandbox's own network in a `DockerConfig.network_pool`: the gateway, the sandbox, four to spare."""

_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"
_USER = re.compile(rf"{_NAME}(?::{_NAME})?\Z")
_RUNTIME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}\Z")


class DockerConfig(BackendConfig):
    """Which engine, which image, and how its containers differ from the usual ones.

    ``template`` is an image reference; `sandboxio_docker.info.DEFAULT_TEMPLATE` if it is ``None``. Fields that are plain
    scalars can be written in a DSN: ``docker://python:3.12-slim?read_only=1&user=1000``.
    """

    backend: ClassVar[str] = "docker"
    host: str | None = None
    """The engine's address (``unix://``, ``ssh://``, ``tcp://``, ``https://``); ``None`` = ``DOCKER_HOST``, else the Docker context."""
    accept_vsock: bool = False
    """Accept ``egress="deny"`` where it can't be shown that vsock sockets are refused; the receipt names the residual."""
    capabilities: tuple[str, ...] = ()
    """Give these capabilities back to root in the sandbox; all others stay dropped. A closed list: `CAPABILITIES`.

    SETUID comes with KILL only: processes of another user that could not be ended would outlive their command.
    """
    user: str | None = None
    """Run everything as this user: ``name``, ``uid``, ``user:group``; ``None`` = the image's. A bare ``uid`` that the image
    does not know has group 0 (measured, Docker 20.10). A default working directory that has to be made (``/work``) is
    writable for it; the image's own WORKDIR stays as it is."""
    read_only: bool = False
    """Mount the root file system read-only. ``/tmp`` and ``/work``, which is then the working directory, are memory:
    they hold ``Resources.disk_mb`` together (half each), and what they hold counts to ``memory_mb``."""
    runtime: str | None = None
    """The engine's runtime; ``None`` = its default one. Any but runc and crun has to prove from inside that it is gVisor,
    and its caps are read back on the host; then the isolation is ``GVISOR``, else the creation is refused."""
    network_pool: str | None = None
    """Take the network of a sandbox with ``egress="allow"`` from this IPv4 CIDR, a /29 each, instead of the engine's pools,
    which end at about 30. What overlaps another network or a route of this machine is left out."""

    @field_validator("capabilities", mode="before")
    @classmethod
    def _closed_list(cls, value: object) -> object:
        if not isinstance(value, (tuple, list)):
            raise ValueError("a tuple of names is wanted")  # noqa: TRY004 - pydantic wants ValueError
        names: tuple[object, ...] = tuple(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        for name in names:
            if name not in CAPABILITIES:
                raise ValueError(f"{name!r} can't be given back; these can: {', '.join(CAPABILITIES)}")
        if "SETUID" in names and "KILL" not in names:
            raise ValueError("SETUID without KILL: what a command runs as another user could not be ended; add 'KILL'")
        return tuple(name for name in CAPABILITIES if name in names)

    @field_validator("user")
    @classmethod
    def _possible_user(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if not _USER.match(value):
            raise ValueError("a user is written name, uid, user:group or uid:gid")
        if any(part.isdigit() and int(part) > MAX_ID for part in value.split(":")):
            raise ValueError(f"the engine's largest user or group id is {MAX_ID}")
        return value

    @field_validator("runtime")
    @classmethod
    def _possible_runtime(cls, value: str | None) -> str | None:
        if value is not None and not _RUNTIME.match(value):
            raise ValueError("a runtime's name has letters, digits, '.', '_' and '-'")
        return value

    @field_validator("network_pool")
    @classmethod
    def _possible_pool(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            pool = ipaddress.IPv4Network(value)
        except ValueError:  # whose text holds the value, which in a DSN may be a secret in the wrong place
            raise ValueError("an IPv4 CIDR without host bits is wanted, such as 10.200.0.0/16") from None
        if pool.prefixlen > SUBNET:
            raise ValueError(f"a /{pool.prefixlen} has no room for a /{SUBNET}")
        if not any(pool.subnet_of(space) for space in PRIVATE):
            raise ValueError("only private addresses: others would hide what really has them from the host")
        return str(pool)

    @model_validator(mode="after")
    def _effective(self) -> "DockerConfig":
        if self.capabilities and self.user not in (None, *ROOT_USERS):
            raise ValueError(
                f"capabilities are of no use to the user {self.user!r}: only root has them;"
                " leave capabilities= or user= out"
            )
        return self


PRIVATE = tuple(
    ipaddress.IPv4Network(space) for space in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")
)
