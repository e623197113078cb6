"""What a caller asks for: resource caps and network policy."""

import ipaddress
import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from sandboxio.values import Value

Strength = Literal["interface", "address", "sni", "dns"]
"""At which layer a network policy is enforced, strongest first."""

STRENGTHS: tuple[Strength, ...] = ("interface", "address", "sni", "dns")

MAX_DISK_MB = 1024 * 1024
MAX_PIDS = 32_768


def _number(value: object) -> object:
    # bool is an int to Python; True MiB is a mistake, not one MiB.
    if isinstance(value, bool):
        raise ValueError("a number is wanted, not a truth value")  # noqa: TRY004 - pydantic wants ValueError
    return value


_Whole = Annotated[int, BeforeValidator(_number)]
_Real = Annotated[float, BeforeValidator(_number)]


class Resources(Value):
    """The caps of one sandbox; ``None`` means the backend's modest default, never "no limit".

    Values above what the probed host, account or template has are refused when planning.
    """

    cpu: _Real | None = Field(default=None, gt=0)
    """Cores; fractions are allowed."""
    memory_mb: _Whole | None = Field(default=None, gt=0)
    """Memory and swap together, MiB."""
    disk_mb: _Whole | None = Field(default=None, gt=0, le=MAX_DISK_MB)
    """What may be written, MiB."""
    pids: _Whole | None = Field(default=None, gt=0, le=MAX_PIDS)
    """Processes and threads that may exist at once."""
    gpu: str | None = Field(default=None, min_length=1)
    """The provider's name of a GPU."""

    @property
    def is_default(self) -> bool:
        """Whether nothing was asked for."""
        return all(getattr(self, name) is None for name in type(self).model_fields)


class NetworkPolicy(Value):
    """What a sandbox may reach; the default is nothing.

    :param egress: ``"deny"``, ``"allow"`` (the outside, never the neighbours) or ``"learn"`` (refused in v0.1).
    :param allow: with ``egress="deny"``: host names, ``*.suffix`` (not the apex), addresses and CIDRs that may be
        reached all the same.
    :param ingress_ports: ports of the sandbox that may be reached from outside.
    :param min_strength: refuse an enforcement that is weaker (``interface > address > sni > dns``).
    """

    egress: Literal["deny", "allow", "learn"] = "deny"
    allow: tuple[str, ...] = ()
    ingress_ports: tuple[Annotated[_Whole, Field(ge=1, le=65_535)], ...] = ()
    min_strength: Strength = "sni"

    @field_validator("allow", mode="before")
    @classmethod
    def _entries(cls, value: object) -> object:
        if isinstance(value, str) or not isinstance(value, (list, tuple)):
            raise ValueError("a tuple of host names, addresses or CIDRs is wanted")  # noqa: TRY004
        entries: tuple[object, ...] = tuple(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        targets = tuple(dict.fromkeys(_normalised(index, entry) for index, entry in enumerate(entries)))
        _refuse_everything(targets)
        return targets

    @field_validator("ingress_ports", mode="before")
    @classmethod
    def _ports(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]

    @model_validator(mode="after")
    def _consistent(self) -> "NetworkPolicy":
        if self.allow and self.egress != "deny":
            raise ValueError(
                f"egress={self.egress!r} contradicts a non-empty allow: the list would do nothing; use egress='deny'"
            )
        return self

    @property
    def wanted(self) -> str:
        """The egress in one word, as receipts name it."""
        return self.egress


def _normalised(index: int, entry: object) -> str:
    """Name an entry by its place: what was passed for a host name may be a URL with a password."""
    try:
        return normalise_target(entry)
    except ValueError as error:
        raise ValueError(f"entry {index} {error}") from None


_LONGEST = 1024
"""Characters looked at: far more than a host name has, few enough for the slow IDNA codec."""
_NUMBER = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)\Z")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)\Z")


def normalise_target(entry: object) -> str:
    """Return an `allow` entry in its one form: lower case, no trailing dot, IDNA, canonical network.

    :raises ValueError: it is no host name, ``*.suffix``, address or CIDR.
    """
    if not isinstance(entry, str) or not entry.strip():
        raise ValueError("is empty or no string")
    text = entry.strip()
    if len(text) > _LONGEST:
        raise ValueError("is longer than any host name")
    network = _as_network(text)
    if network is not None:
        return network
    if "://" in text or "/" in text:
        raise ValueError("is a URL or a malformed CIDR; name the host, address or CIDR alone")
    if ":" in text:
        raise ValueError("has a port; an allowlist names hosts, not ports")
    return _host_name(text)


def _as_network(text: str) -> str | None:
    try:
        if "/" not in text:
            return _address(text[1:-1] if text.startswith("[") and text.endswith("]") else text)
        network = ipaddress.ip_network(text, strict=True)
    except ValueError as error:
        if "host bits" in str(error):
            raise ValueError("has host bits set; write the network's own address") from None
        return None
    if network.prefixlen == 0:
        raise ValueError("opens everything; that is no allowlist: use egress='allow'")
    return str(network)


def _address(text: str) -> str:
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id:
        raise ValueError("names a link of one machine; a sandbox has others")
    return str(address)


def _refuse_everything(targets: tuple[str, ...]) -> None:
    """Refuse networks that are harmless each and open everything together."""
    networks = [network for text in targets if (network := _network_or_none(text)) is not None]
    for version in (4, 6):
        same: list[Any] = [network for network in networks if network.version == version]
        if any(network.prefixlen == 0 for network in ipaddress.collapse_addresses(same)):
            raise ValueError("allow opens everything together; that is no allowlist: use egress='allow'")


def _network_or_none(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        return None


def _host_name(text: str) -> str:
    wildcard = text.startswith("*.")
    name = (text[2:] if wildcard else text).removesuffix(".")
    try:
        ascii_name = name.encode("idna").decode("ascii").lower() if name else ""
    except UnicodeError:
        raise ValueError("is no valid host name") from None
    labels = ascii_name.split(".")
    if len(ascii_name) > 253 or not all(_LABEL.match(label) for label in labels):
        raise ValueError("is no valid host name")
    if _NUMBER.match(labels[-1]):  # resolvers take it for an address: 0x7f000001 is 127.0.0.1
        raise ValueError("looks like a malformed address")
    if wildcard and len(labels) < 2:
        raise ValueError("opens a whole top-level domain")
    return f"*.{ascii_name}" if wildcard else ascii_name
