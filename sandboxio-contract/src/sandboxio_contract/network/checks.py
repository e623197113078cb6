"""The checks of one probe: what is tried, where, and which answer would be a true one."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Literal

from sandboxio_contract.network import tokens

Kind = Literal[
    "tcp", "udp", "dns", "dns-tcp", "dns-configured", "lookup", "gateway", "multicast", "icmp", "unix", "vsock"
]
DEADLINE = 1.5
LATE = 2.0


@dataclass(frozen=True, slots=True)
class Check:
    """One thing to try. `name` is stable and appears in the report; `key` belongs to who would have to answer."""

    name: str
    kind: Kind
    addresses: tuple[str, ...]
    port: int
    key: bytes = field(repr=False)

    def argument(self) -> str:
        """Return the form in which the probe is told of it."""
        return f"{self.name},{self.kind},{'+'.join(self.addresses)},{self.port}"


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks of one probe, under a token that was never used before.

    `missing` names checks that this machine can't offer, with the reason. `baseline` holds the guard's drop counters at the
    time of making, so that what an earlier probe tripped isn't held against this one. Times are monotonic seconds.
    """

    items: tuple[Check, ...]
    token: str
    missing: Mapping[str, str] = field(default_factory=dict[str, str])
    baseline: Mapping[str, int] = field(default_factory=dict[str, int])
    delay: float = 0.0
    deadline: float = DEADLINE
    created: float = field(default_factory=time.monotonic)

    def __iter__(self) -> Iterator[Check]:
        """Iterate over the checks."""
        return iter(self.items)

    def renewed(self) -> "Checks":
        """Return the same checks under a fresh token: a control must not be taken for the sandbox it is the control of."""
        return replace(self, token=tokens.new_token(), created=time.monotonic())

    def only(self, names: Sequence[str]) -> "Checks":
        """Return these checks reduced to some of them, under a fresh token."""
        return replace(self.renewed(), items=tuple(one for one in self.items if one.name in names))

    def expected(self, check: Check) -> str:
        """Return the answer that only the suite's own server can give for a check."""
        named = check.kind.startswith("dns") or check.kind == "lookup"
        return (tokens.nonce_address if named else tokens.nonce)(check.key, self.token, check.name)

    def seconds(self) -> float:
        """Return an upper bound for the time that the probe takes, start of the interpreter included."""
        return self.delay + self.deadline + 10.0


def probe_command(checks: Checks, python: str = "python3") -> tuple[tuple[str, ...], bytes]:
    """Return what to run in the sandbox, argv and standard input; nothing is written there."""
    source = resources.files("sandboxio_contract.network").joinpath("probe.py").read_bytes()
    numbers = (f"{checks.deadline:.3f}", f"{checks.delay:.3f}")
    return (python, "-I", "-S", "-", checks.token, *numbers, *(one.argument() for one in checks)), source
