"""What a creation may say, by the provider's published schema and the server's own checks; anything else is refused."""

import re
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network
from typing import Any, cast

from sandboxio_contract.emulation import EVERYTHING, Egress

MAX_TIMEOUT = 86_400
NEVER = ("10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16")
"""What no sandbox reaches, whatever it was allowed."""
RESOLVER = "8.8.8.8"
_ALL = "0.0.0.0/0"
_DOMAIN = re.compile(r"(\*\.)?([a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.)+[a-z0-9]+\Z|\*\Z", re.IGNORECASE)
_IDEMPOTENCY = re.compile(r"[a-z0-9-]{1,255}\Z")
_FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "templateID": str,
    "timeout": int,
    "metadata": dict,
    "envVars": dict,
    "autoPause": bool,
    "autoPauseMemory": bool,
    "autoResume": dict,
    "allow_internet_access": bool,
    "network": dict,
    "mcp": (dict, type(None)),
    "iam": dict,
    "volumeMounts": list,
}
_NETWORK: Mapping[str, type | tuple[type, ...]] = {
    "allowOut": list,
    "denyOut": list,
    "rules": dict,
    "egressProxy": (dict, type(None)),
    "dnsServers": list,
    "allowPublicTraffic": (bool, type(None)),
    "maskRequestHost": str,
    "httpsPorts": list,
}
_NOT_EMULATED = ("mcp", "iam", "volumeMounts")
_NETWORK_NOT_EMULATED = ("rules", "egressProxy", "maskRequestHost", "httpsPorts")


class Refused(Exception):
    """The request is not one that the provider takes."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.message, self.status = message, status


def check_creation(body: Any) -> Mapping[str, Any]:
    """Return the body of a creation. :raises Refused: it is none."""
    if not isinstance(body, dict):
        raise Refused("request body has an error: doesn't match schema")
    said = cast("dict[str, Any]", body)
    _check_fields(said, _FIELDS, "")
    if "templateID" not in said:
        raise Refused("templateID is required")
    for name in ("metadata", "envVars"):
        if not all(isinstance(value, str) for value in said.get(name, {}).values()):
            raise Refused(f"{name}: values must be strings")
    check_timeout(said.get("timeout", 300))
    for name in _NOT_EMULATED:
        if said.get(name):
            raise Refused(f"the emulator has no {name}", 501)
    network = said.get("network", {})
    _check_fields(network, _NETWORK, "network.")
    for name in _NETWORK_NOT_EMULATED:
        if network.get(name):
            raise Refused(f"the emulator has no network.{name}", 501)
    egress_of(said)
    return said


def check_timeout(value: object) -> int:
    """Return a lifetime. :raises Refused: it is none, or over the plan's limit."""
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise Refused("timeout must be a positive number of seconds")
    if value > MAX_TIMEOUT:
        raise Refused(f"Timeout cannot be greater than {MAX_TIMEOUT // 3600} hours")
    return value


def check_idempotency_key(value: str | None) -> str | None:
    """Return the key. :raises Refused: it has other characters than the API takes."""
    if value is not None and not _IDEMPOTENCY.match(value):
        raise Refused("Idempotency-Key must match [a-z0-9-]{1,255}")
    return value


def egress_of(said: Mapping[str, Any]) -> Egress:
    """Translate what was said about the way out, and nothing else: open where nothing was."""
    network: Mapping[str, Any] = said.get("network") or {}
    deny = [_network(one) for one in network.get("denyOut") or ()]
    closed = said.get("allow_internet_access") is False or _ALL in deny
    allow: list[str] = []
    names: list[str] = []
    for one in network.get("allowOut") or ():
        try:
            allow.append(_network(one))
        except Refused:
            if not _DOMAIN.match(one):
                raise
            names.append(one.lower())
    if names and not closed:
        raise Refused("allowOut with domains requires denyOut to block all traffic (0.0.0.0/0)")
    if names:
        servers = network.get("dnsServers")
        allow += [f"{IPv4Address(one)}/32" for one in ([RESOLVER] if servers is None else servers)]
    return Egress(tuple(allow), EVERYTHING if closed else tuple(deny), tuple(names), NEVER)


def _network(entry: object) -> str:
    try:
        return str(IPv4Network(entry)) if isinstance(entry, str) else ""
    except ValueError:
        raise Refused(f"invalid CIDR or IP address: {entry}") from None


def _check_fields(body: Mapping[str, Any], fields: Mapping[str, type | tuple[type, ...]], where: str) -> None:
    for name, value in body.items():
        if name not in fields:
            raise Refused(f'property "{where}{name}" is unsupported')
        if not isinstance(value, fields[name]) or (fields[name] is int and isinstance(value, bool)):
            raise Refused(f'property "{where}{name}" has the wrong type')
