"""The threads that talk to the engine, so that a stuck engine never delays an answer to the owner."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue

from .destroyer import Outcome, Result, answers, attempt, is_alone, layer_size
from .engine_http import Engine, EngineSlow, NotRunning
from .http_answer import EngineAway
from .ledger import Entry
from .messages import Claim
from .voice import Voice

MEASURE_S = 60.0
LISTEN_S = 10.0
_STACK = 256 * 1024  # bytes; nothing here recurses


@dataclass(frozen=True, slots=True)
class Attempted:
    """An attempt ended."""

    entry: Entry
    result: Result


@dataclass(frozen=True, slots=True)
class Measured:
    """A size query ended; ``size`` in bytes, ``None`` = the engine is away. ``alone``: only the first process lives."""

    entry: Entry
    size: int | None
    seconds: float
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Immeasurable:
    """The engine answers, but not how large this layer is."""

    entry: Entry
    seconds: float


@dataclass(frozen=True, slots=True)
class Listening:
    """An agent can be heard from now on; ``None`` = it can't, and ``refused`` = there is none to be heard."""

    entry: Entry
    voice: Voice | None
    refused: bool = False


Report = Attempted | Measured | Immeasurable | Listening


class Workers:
    """Threads that destroy, one that measures, and one that finds agents to be heard.

    :param wake: called from a thread after it has put a report into `reports`.
    """

    def __init__(self, engine: Engine, count: int, wake: Callable[[], None]) -> None:
        self.reports: SimpleQueue[Report] = SimpleQueue()
        self._engine = engine
        self._wake = wake
        self._attempts: SimpleQueue[tuple[Entry, Claim]] = SimpleQueue()
        self._measures: SimpleQueue[tuple[Entry, str]] = SimpleQueue()
        self._voices: SimpleQueue[tuple[Entry, Claim]] = SimpleQueue()
        threading.stack_size(_STACK)
        for loop in (self._measure_forever, self._listen_forever, *[self._attempt_forever] * count):
            threading.Thread(target=loop, daemon=True).start()

    def attempt(self, entry: Entry) -> None:
        """Have one attempt made on what the entry claims now."""
        self._attempts.put((entry, entry.claim))

    def measure(self, entry: Entry) -> None:
        """Have the entry's layer measured."""
        assert entry.claim.container is not None
        self._measures.put((entry, entry.claim.container))

    def listen(self, entry: Entry) -> None:
        """Have the entry's agent listened to."""
        self._voices.put((entry, entry.claim))

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
        alone = size is not None and not entry.claim.speaks and is_alone(self._engine, container)
        return Measured(entry, size, time.monotonic() - begun, alone)

    def _listen_forever(self) -> None:
        while True:
            entry, claim = self._voices.get()
            self._report(self._listen(entry, claim))

    def _listen(self, entry: Entry, claim: Claim) -> Listening:
        try:
            found = self._engine.listen(str(claim.container), LISTEN_S)
        except (EngineAway, NotRunning):
            return Listening(entry, None)
        if found is None:
            return Listening(entry, None, refused=True)
        if claim.busy:
            # What it said before nobody has heard: this signal makes it look, and say it again.
            with suppress(EngineAway):
                self._engine.request("POST", f"/containers/{claim.container}/kill?signal=SIGCHLD", LISTEN_S)
        return Listening(entry, Voice(*found))

    def _report(self, report: Report) -> None:
        self.reports.put(report)
        self._wake()
