"""When a writable layer is measured: while its sandbox is busy, and once more after that."""

from dataclasses import dataclass

SHORTEST_S = 2.0
REST_FACTOR = 20.0  # a query walks the whole layer, 1 to 770 ms: it may take a twentieth of the time
BLIND_AFTER = 2  # queries in a row without a size, from an engine that answers everything else


@dataclass(slots=True)
class DiskGauge:
    """The rhythm of one layer's queries.

    :param due_at: the earliest time of the next query, in seconds of the ledger's clock.
    :param owed: a query is owed although nothing runs: what the last process wrote hasn't been seen.
    :param unmeasured: queries in a row that found the engine alive and the layer too large to be measured.
    """

    due_at: float
    owed: bool = False
    unmeasured: int = 0

    @property
    def is_blind(self) -> bool:
        """Whether the layer has become so large that it can't be measured any more."""
        return self.unmeasured >= BLIND_AFTER

    def busy_changed(self) -> None:
        """Owe one query, however short the time was that a process lived."""
        self.owed = True

    def started(self, *, busy: bool) -> None:
        """A query starts now; only if nothing runs will its answer be the last word."""
        self.owed = busy

    def finished(self, *, seconds: float, now: float) -> None:
        """A query ended after ``seconds``, whatever its answer."""
        self.due_at = now + max(SHORTEST_S, REST_FACTOR * seconds)

    def answered(self, size_known: bool) -> None:
        """Note whether the query brought a size; else it stays owed."""
        if size_known:
            self.unmeasured = 0
        else:
            self.owed = True
