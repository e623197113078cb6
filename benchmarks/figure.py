"""One measured figure, its goals, and whether they are met."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

OURS = "sandboxio"
ENGINE = "engine"
CLI = "docker CLI"
PEER = "llm-sandbox"
BARE = "bare bwrap"
CONTENDERS = (OURS, ENGINE, CLI, PEER, BARE)


@dataclass(frozen=True, slots=True)
class Goal:
    """Our median is at most ``most`` times that of ``against``; without ``against`` at most ``most`` itself."""

    most: float
    against: str | None = None

    def __str__(self) -> str:
        """Return the goal as the table shows it."""
        return f"≤ {self.most:g} × {self.against}" if self.against else f"≤ {self.most:g}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A goal and what was measured: a ratio or a value, ``None`` if it could not be measured."""

    goal: Goal
    measured: float | None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; ``None`` = not measured."""
        return None if self.measured is None else self.measured <= self.goal.most


@dataclass(slots=True)
class Figure:
    """Samples of one figure by contender, less being better.

    :ivar key: its number in the list of goals; empty for one that only informs.
    :ivar unit: of the samples, such as ``"ms"``.
    :ivar notes: what a reader must know to believe the numbers.
    """

    key: str
    title: str
    unit: str
    samples: Mapping[str, Sequence[float]]
    goals: Sequence[Goal] = ()
    notes: list[str] = field(default_factory=list[str])

    def median(self, contender: str) -> float | None:
        """Return a contender's median, ``None`` if it was not measured."""
        values = self.samples.get(contender)
        return median(values) if values else None

    def ratio(self, against: str) -> float | None:
        """Return our median as a multiple of another's."""
        ours, theirs = self.median(OURS), self.median(against)
        return ours / theirs if ours is not None and theirs else None

    def outcomes(self) -> list[Outcome]:
        """Compare every goal with what was measured."""
        return [Outcome(goal, self.ratio(goal.against) if goal.against else self.median(OURS)) for goal in self.goals]

    def to_json(self) -> dict[str, Any]:
        """Return everything, the raw samples too."""
        outcomes = [{"goal": str(one.goal), "measured": one.measured, "met": one.met} for one in self.outcomes()]
        medians = {name: self.median(name) for name in self.samples}
        return {**asdict(self), "goals": outcomes, "medians": medians}


def milliseconds(samples: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """Turn seconds into milliseconds."""
    return {name: [1000 * value for value in values] for name, values in samples.items()}
