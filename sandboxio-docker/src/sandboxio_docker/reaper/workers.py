"""The threads that talk to the engine, so that a stuck engine never delays an answer to the owner."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue

from .destroyer import Outcome, Result, answers, attempt, layer_size
from .engine_http import Engine, EngineAway, EngineSlow
from .ledger import Entry
from .messages import Claim

MEASURE_S = 60.0
_STACK = 256 * 1024  # bytes; nothing here recurses


@dataclass(frozen=True, slots=True)
class Attempted:
    """An attempt ended."""

    entry: Entry
    result: Result


@dataclass(frozen=True, slots=True)
class Measured:
    """A size query ended; ``size`` in bytes, ``None`` = the engine is away."""

    entry: Entry
    size: int | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Immeasurable:
    """The engine answers, but not how large this layer is."""

    entry: Entry
    seconds: float


Report = Attempted | Measured | Immeasurable


class Workers:
    """Threads that destroy, and one that measures.

    :param wake: called from a thread after it has put a report into `reports`.
    """

    def __init__(self, engine: Engine, count: int, wake: Callable[[], None]) -> None:
        self.reports: SimpleQueue[Report] = SimpleQueue()
        self._engine = engine
        self._wake = wake
        self._attempts: SimpleQueue[tuple[Entry, Claim]] = SimpleQueue()
        self._measures: SimpleQueue[tuple[Entry, str]] = SimpleQueue()
        threading.stack_size(_STACK)
        for loop in (self._measure_forever, *[self._attempt_forever] * count):
            threading.Thread(target=loop, daemon=True).start()

    def attempt(self, entry: Entry) -> None:
        """Have one attempt made on what the entry claims now."""
        self._attempts.put((entry, entry.claim))

    def measure(self, entry: Entry) -> None:
        """Have the entry's layer measured."""
        assert entry.claim.container is not None
        self._measures.put((entry, entry.claim.container))

    def _attempt_forever(self) -> None:
        while True:
            entry, claim = self._attempts.get()
            self._report(Attempted(entry, self._attempt(claim)))

    def _attempt(self, claim: Claim) -> Result:
        try:
            return attempt(self._engine, claim)
        except Exception:  # noqa: BLE001 - a thread that ends here would leave its claim in flight for ever: try again
            return Result(Outcome.REFUSED)

    def _measure_forever(self) -> None:
        while True:
            entry, container = self._measures.get()
            self._report(self._measure(entry, container))

    def _measure(self, entry: Entry, container: str) -> Report:
        begun = time.monotonic()
        size: int | None = None
        try:
            size = layer_size(self._engine, container, MEASURE_S)
        except EngineSlow:
            # Millions of files make a layer that no query measures: that must not switch the cap off.
            if answers(self._engine, container):
                return Immeasurable(entry, time.monotonic() - begun)
        except EngineAway:
            size = None
        return Measured(entry, size, time.monotonic() - begun)

    def _report(self, report: Report) -> None:
        self.reports.put(report)
        self._wake()
