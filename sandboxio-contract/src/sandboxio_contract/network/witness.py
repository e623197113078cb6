"""What the canary's side saw, whatever the sandbox's side says."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class Sighting:
    """One token or name that reached a server of the suite; `server` is `canary` or `host`, `when` a monotonic second."""

    token: str
    name: str
    protocol: str
    source: str
    server: str
    when: float


@dataclass(frozen=True, slots=True)
class Arrival:
    """A packet at the canary's link; TCP ones are openings (SYN). `port` is the one it was sent to."""

    protocol: str
    destination: str
    port: int
    source: str
    source_port: int
    when: float


@dataclass(frozen=True, slots=True)
class Witness:
    """All sightings of a run, arrivals that no sighting explains, and the guard's drop counters.

    A SYN whose connection never came about is what one-way egress looks like: the token can't follow, the packet did.
    """

    sightings: tuple[Sighting, ...] = ()
    arrivals: tuple[Arrival, ...] = ()
    drops: Mapping[str, int] = field(default_factory=dict[str, int])
    strays: int = 0

    def saw(self, token: str, name: str) -> tuple[Sighting, ...]:
        """Return the sightings of one check of one probe."""
        return tuple(one for one in self.sightings if one.token == token and one.name == name)


def encode(item: Sighting | Arrival) -> dict[str, object]:
    """Return the JSON form of one entry."""
    return cast("dict[str, object]", asdict(item))


def decode(message: Mapping[str, object]) -> Witness:
    """Return the witness that a supervisor reported."""
    seen = [Sighting(**row) for row in cast("list[dict[str, Any]]", message["sightings"])]
    came = [Arrival(**row) for row in cast("list[dict[str, Any]]", message["arrivals"])]
    drops = cast("dict[str, int]", message["drops"])
    return Witness(tuple(seen), tuple(came), drops, cast("int", message["strays"]))
