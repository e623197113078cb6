"""What a row may find, and how the findings of several rows become one verdict."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NoReturn

Status = Literal[
    "proven",
    "refused",
    "simulated",
    "proven with residual",
    "not-provable",
    "not run",
    "violated",
    "not applicable",
    "not built",
]
"""``proven``: seen from inside, or in the provider's own answer. ``proven with residual``: a leak that the receipt names.
``refused``: the right error before anything was made. ``simulated``: a fake. ``not-provable``: it could not be told, with
the reason; never a pass. ``not run``: the target itself could not be had. ``not applicable``: a rule about another backend. ``not built``: no row judges it yet."""

_SEVERITY: tuple[Status, ...] = (
    "not applicable",
    "not built",
    "proven",
    "refused",
    "simulated",
    "proven with residual",
    "not-provable",
    "not run",
    "violated",
)


@dataclass(frozen=True, slots=True)
class Part:
    """One of several things that a row looked at."""

    name: str
    status: Status
    evidence: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What one row found; ``evidence`` is a sentence for the report."""

    status: Status
    evidence: str
    parts: tuple[Part, ...] = ()


class Violated(Exception):
    """Raised by a row: the backend broke the rule, and this is the fact."""


class Inconclusive(Exception):
    """Raised by a row: it can't be told here, and this is why."""


class Refused(Exception):
    """Raised by a row: the backend refuses with the right error what the row is about, and nothing else came of it."""


class NotRun(Exception):
    """Raised where the target itself can't be had, so that nothing is judged: an error of the run."""


def proven(evidence: str) -> Finding:
    """Return the finding of a rule that was seen to hold."""
    return Finding("proven", evidence)


def refused(evidence: str) -> Finding:
    """Return the finding of a request that raised the right error before anything was made."""
    return Finding("refused", evidence)


def require(condition: object, fact: str) -> None:
    """Convict with ``fact`` unless ``condition`` holds."""
    if not condition:
        raise Violated(fact)


def violated(fact: str) -> NoReturn:
    """Convict. :raises Violated: always."""
    raise Violated(fact)


def worst(statuses: Iterable[Status]) -> Status:
    """Return the most severe status; ``not built`` for none."""
    found = set(statuses)
    for status in reversed(_SEVERITY):
        if status in found:
            return status
    return "not built"


def summed(parts: Iterable[Part]) -> Finding:
    """Return the finding of a row that looked at several things: as good as its worst part."""
    found = tuple(parts)
    status = worst(part.status for part in found)
    if status in ("proven", "refused"):
        return Finding(status, f"{len(found)} of {len(found)}: " + ", ".join(part.name for part in found), found)
    short = "; ".join(f"{part.name}: {part.evidence}" for part in found if part.status == status)
    good = [part.name for part in found if part.status in ("proven", "refused")]
    rest = f"; proven: {', '.join(good)}" if good else ""
    return Finding(status, short + rest, found)
