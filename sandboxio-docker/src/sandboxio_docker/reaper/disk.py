"""When a writable layer is measured, while its sandbox is in use and once more after that; and what that says."""

from dataclasses import dataclass

SHORTEST_S = 2.0
REST_FACTOR = 20.0  # a query walks the whole layer, 1 to 770 ms: it may take a twentieth of the time
FIRST_S = 0.5  # a use that begins is left alone at first; most commands are over by then
BLIND_AFTER = 2  # queries in a row without a size, from an engine that answers everything else


@dataclass(slots=True)
class DiskGauge:
    """The rhythm of one layer's queries.

    :param due_at: the earliest time of the next query, in seconds of the ledger's clock.
    :param owed: a query is owed although nothing runs: what the last process wrote hasn't been seen.
    :param unmeasured: queries in a row that found the engine alive and the layer too large to be measured.
    :param alive: whether somebody lives who may write, as the agent says; ``None`` = it has not said.
    :param held: bytes that the layer's size doesn't show, as the agent says.
    :param summed: queries in a row that found too much only together with those.
    :param used: whether the owner told of a use since the last query began.
    """

    due_at: float
    owed: bool = False
    unmeasured: int = 0
    alive: bool | None = None
    held: int = 0
    summed: int = 0
    used: bool = False

    @property
    def is_blind(self) -> bool:
        """Whether the layer has become so large that it can't be measured any more."""
        return self.unmeasured >= BLIND_AFTER

    def busy_changed(self) -> None:
        """Owe one query, however short the time was that a process lived."""
        self.owed = True

    def told(self, *, alive: bool, held: int, now: float) -> None:
        """Take what the agent says."""
        if alive and not self.alive:
            self.due_at = max(self.due_at, now + FIRST_S)
        self.owed = self.owed or alive != self.alive
        self.alive, self.held = alive, held

    def silent(self) -> None:
        """Nothing is heard of the agent any more."""
        self.alive, self.held = None, 0

    def is_over(self, size: int, limit: int) -> bool:
        """Return whether a size is over the cap.

        Layer and deleted files are not seen at the same moment: a file may have been counted in both. So together they
        are over the cap only the second time.
        """
        self.summed = self.summed + 1 if size + self.held > limit else 0
        return size > limit or self.held > limit or self.summed > 1

    def started(self, *, busy: bool) -> None:
        """A query starts now; only if nothing runs will its answer be the last word."""
        self.owed = busy
        self.used = False

    def finished(self, *, seconds: float, now: float) -> None:
        """A query ended after ``seconds``, whatever its answer."""
        self.due_at = now + max(SHORTEST_S, REST_FACTOR * seconds)

    def answered(self, size_known: bool) -> None:
        """Note whether the query brought a size; else it stays owed."""
        if size_known:
            self.unmeasured = 0
        else:
            self.owed = True
