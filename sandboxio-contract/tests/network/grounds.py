"""Checks, outcomes and witnesses made by hand, for tests of what is concluded from them."""

from collections.abc import Mapping

from sandboxio_contract.network.checks import Check, Checks
from sandboxio_contract.network.outcome import Outcome, Result, Status
from sandboxio_contract.network.tokens import new_token

KEY = b"k" * 32
TCP = Check("tcp4-80", "tcp", ("203.0.113.7",), 80, KEY)
DNS = Check("dns4-udp", "dns", ("203.0.113.7",), 53, KEY)
LOOKUP = Check("dns-lookup", "lookup", ("*",), 0, KEY)
VSOCK = Check("vsock", "vsock", ("*",), 0, KEY)


def checks(
    *items: Check, missing: Mapping[str, str] | None = None, baseline: Mapping[str, int] | None = None
) -> Checks:
    return Checks(items or (TCP, DNS, LOOKUP), new_token(), missing or {}, baseline or {})


def outcome(of: Checks, status: Status, detail: str = "") -> Outcome:
    return Outcome(of.token, {one.name: Result(status, detail) for one in of}, complete=True)


def said(of: Checks, word: str = "unreachable", detail: str = "ENETUNREACH") -> str:
    return "".join(f"check {one.name} {word} {detail}\n" for one in of)
