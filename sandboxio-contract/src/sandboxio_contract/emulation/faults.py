"""What goes wrong between a provider and its clients, to be struck into chosen requests."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, get_args

from sandboxio_contract.ground.wire import Call

Kind = Literal["stall", "reset", "429", "500", "504 after commit", "garbage", "cut"]
"""``stall``: nothing is answered. ``reset``: the connection breaks before anything is carried out. ``429``, ``500``: an error
in the provider's own form, nothing carried out. ``504 after commit``: carried out, and a gateway's error for an answer.
``garbage``: carried out, and an answer that is no answer. ``cut``: carried out, and the answer breaks off."""
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(slots=True)
class Fault:
    """One kind of trouble for matching requests.

    :param times: how many of them it strikes; ``None``: all.
    """

    kind: Kind
    matches: Callable[[Call], bool]
    times: int | None = 1
    struck: list[Call] = field(default_factory=list[Call])

    @property
    def spent(self) -> bool:
        """Whether it strikes no more."""
        return self.times is not None and len(self.struck) >= self.times


class Faults:
    """Those that are set."""

    def __init__(self) -> None:
        self._set: list[Fault] = []

    def strike(self, kind: Kind, matches: Callable[[Call], bool], times: int | None = 1) -> Fault:
        """Set one from now on."""
        fault = Fault(kind, matches, times)
        self._set.append(fault)
        return fault

    def clear(self) -> None:
        """Let everything go well again."""
        self._set.clear()

    def take(self, call: Call) -> Fault | None:
        """Return the fault that strikes a request, which counts for it."""
        for fault in self._set:
            if not fault.spent and fault.matches(call):
                fault.struck.append(call)
                return fault
        return None
