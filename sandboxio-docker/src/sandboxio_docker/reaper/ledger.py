"""What the reaper holds and when each thing is due; pure, the clock is an argument.

A claim lives until its deadline or its owner's end, then it is *doomed*: attempted again and again until nothing of it
is left. A doomed claim without a known container is looked for by name for a while, since the engine may still be
committing a create request.
"""

import math
from dataclasses import dataclass, replace

from .destroyer import Outcome, Result
from .disk import DiskGauge
from .messages import DISK_REASON, LIFETIME_REASON, OWNER_REASON, Claim

LOOK_AFTER_DEADLINE_S = 600.0
LOOK_AFTER_OWNER_S = 60.0
LOOK_AFTER_TROUBLE_S = 10.0  # an engine that was stuck answers us before it commits what it had queued
ABSENT_ANSWERS = 3
# When an engine is given up that doesn't answer; what it still has, the adapter's next start there removes.
GIVE_UP_S = 86_400.0
GIVE_UP_VANISHED_S = 600.0  # rootless engines and private ones take the socket's directory with them
LISTEN_AGAIN_S = 1.0, 60.0  # the first and the longest wait until an agent is listened to again
ENDED_KEPT = 4096  # ended claims whose reason is remembered for the owner

# The first and the longest wait between two attempts, in seconds; each wait is twice the one before.
_BACKOFF = {
    Outcome.PENDING: (0.1, 1.0),
    Outcome.ABSENT: (0.1, 2.0),
    Outcome.REFUSED: (0.2, 5.0),
    Outcome.AWAY: (0.1, 5.0),
    Outcome.VANISHED: (0.1, 5.0),
}


@dataclass(slots=True)
class Entry:
    """One claim and how far its end has come."""

    claim: Claim
    gauge: DiskGauge
    reason: str | None = None  # why it was doomed; None = it lives
    doomed_at: float = 0.0
    look_until: float = 0.0
    next_at: float = 0.0
    in_flight: bool = False
    listening: bool = False  # its agent is heard, or somebody is about to hear it
    listen_at: float = 0.0
    unheard: int = 0
    ended: bool = False
    absent: int = 0
    repeats: int = 0
    last: Outcome | None = None


class Ledger:
    """Every claim of one owner on one engine. Not thread-safe: the main thread alone touches it.

    :param workers: how many attempts may be under way at once.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._entries: dict[str, Entry] = {}
        self._owner_ended = False
        self._away_repeats = 0  # while the engine is away one attempt at a time asks for it, not one per claim
        self._away_until = 0.0
        self._vanished_since: float | None = None
        self._in_flight = 0
        self._measuring = False

    @property
    def holds_nothing(self) -> bool:
        """Whether no claim is left to be ended."""
        return all(entry.ended for entry in self._entries.values())

    @property
    def finished(self) -> bool:
        """Whether the owner has ended and nothing is left to do for it."""
        return self._owner_ended and self.holds_nothing

    def expect(self, claim: Claim, now: float) -> None:
        """Hold a claim from now on, in place of an earlier one of that name."""
        self._entries.pop(claim.name, None)
        self._entries[claim.name] = Entry(claim, DiskGauge(now, owed=claim.disk_limit is not None))
        self._shorten_memory()

    def update(self, claim: Claim) -> None:
        """Take over what changed; once it is doomed only what is to be destroyed: a late message must not save it."""
        entry = self._entries.get(claim.name)
        if entry is None:
            return
        if entry.reason is not None:
            container = entry.claim.container or claim.container
            entry.claim = replace(entry.claim, container=container, networks=claim.networks)
            return
        if entry.claim.busy != claim.busy:
            entry.gauge.busy_changed()
        entry.gauge.used = entry.gauge.used or claim.busy
        entry.claim = claim

    def forget(self, name: str) -> Entry | None:
        """Drop a claim and return it: its owner has seen it gone."""
        entry = self._entries.pop(name, None)
        if entry is not None:
            entry.ended = True
        return entry

    def status(self, name: str) -> str | None:
        """Return why the claim was doomed, or ``None``."""
        entry = self._entries.get(name)
        return entry.reason if entry else None

    def owner_ended(self) -> None:
        """Doom from now on whatever isn't detached."""
        self._owner_ended = True

    def due(self, now: float) -> list[Entry]:
        """Return the entries to be attempted now, as many as may be; each stays in flight until `attempted`."""
        self._doom(now)
        free = self._free if now >= self._away_until else 0
        ready = [e for e in self._entries.values() if _is_due(e, now)]
        ready.sort(key=lambda entry: entry.next_at)
        chosen = ready[:free]
        for entry in chosen:
            entry.in_flight = True
        self._in_flight += len(chosen)
        return chosen

    def attempted(self, entry: Entry, result: Result, now: float) -> None:
        """Note how an attempt ended and when the next one is due."""
        self._in_flight -= 1
        entry.in_flight = False
        if result.container is not None and entry.claim.container is None:
            entry.claim = replace(entry.claim, container=result.container)
        self._note_engine(result.outcome, now)
        entry.repeats = entry.repeats + 1 if entry.last is result.outcome else 0
        entry.last = result.outcome
        if result.outcome is Outcome.GONE:
            entry.ended = True
        elif result.outcome is Outcome.ABSENT:
            entry.absent += 1
            entry.ended = now >= entry.look_until and entry.absent >= ABSENT_ANSWERS
        else:
            self._note_trouble(entry, result.outcome, now)
        if not entry.ended:
            entry.next_at = now + _wait(result.outcome, entry.repeats)

    def disk_due(self, now: float) -> Entry | None:
        """Return the entry whose layer is to be measured now, if any; one at a time, until `measured`."""
        if self._measuring or now < self._away_until:
            return None
        ready = [e for e in self._entries.values() if _is_measured(e) and e.gauge.due_at <= now]
        if not ready:
            return None
        entry = min(ready, key=lambda one: one.gauge.due_at)
        entry.gauge.started(busy=_is_busy(entry))
        self._measuring = True
        return entry

    def measured(self, entry: Entry, size: int | None, seconds: float, now: float, *, alone: bool = False) -> None:
        """Note a layer's size in bytes, ``None`` = the engine is away, and how long asking took.

        :param alone: whether the engine shows no process besides the first, so that nothing writes until the next use.
        """
        self._measuring = False
        entry.gauge.finished(seconds=seconds, now=now)
        entry.gauge.answered(size is not None)
        limit = entry.claim.disk_limit
        if size is not None and limit is not None and entry.gauge.is_over(size, limit) and entry.reason is None:
            self._condemn(entry, DISK_REASON, now)
        if alone and entry.claim.busy and not entry.gauge.used:
            entry.claim = replace(entry.claim, busy=False)

    def immeasurable(self, entry: Entry, seconds: float, now: float) -> None:
        """Note that the engine answers, but not how large this layer is: in a row, that is over any cap."""
        self._measuring = False
        entry.gauge.finished(seconds=seconds, now=now)
        entry.gauge.unmeasured += 1
        if entry.gauge.is_blind and entry.reason is None:
            self._condemn(entry, DISK_REASON, now)

    def listen_due(self, now: float) -> list[Entry]:
        """Return the entries whose agent is to be listened to from now on; each until `unheard`."""
        ready = [entry for entry in self._entries.values() if _is_mute(entry) and entry.listen_at <= now]
        for entry in ready:
            entry.listening = True
        return ready

    def heard(self, entry: Entry, alive: bool, held: int | None, now: float) -> None:
        """Note what an agent says: whether somebody lives who may write, and what deleted files hold.

        :param held: in bytes; ``None`` = too much to be looked at, which is over any cap.
        """
        entry.unheard = 0
        entry.gauge.told(alive=alive, held=held or 0, now=now)
        limit = entry.claim.disk_limit
        if limit is not None and (held is None or held > limit) and entry.reason is None:
            self._condemn(entry, DISK_REASON, now)

    def unheard(self, entry: Entry, now: float, *, refused: bool = False) -> None:
        """Note that an agent can't be heard any more, or not yet; ``refused``: there is none."""
        first, longest = LISTEN_AGAIN_S
        entry.listening = False
        entry.listen_at = math.inf if refused else now + min(longest, first * 2 ** min(entry.unheard, 16))
        entry.unheard += 1
        entry.gauge.silent()

    def next_wake(self) -> float | None:
        """Return when something is due next; ``None`` = only when somebody reports."""
        times = [time for entry in self._entries.values() if (time := self._wake_of(entry)) is not None]
        return min(times, default=None)

    @property
    def _free(self) -> int:
        return max((1 if self._away_repeats else self._workers) - self._in_flight, 0)

    def _wake_of(self, entry: Entry) -> float | None:
        if entry.ended or entry.in_flight:
            return None
        if entry.reason is not None:
            return max(entry.next_at, self._away_until) if self._free else None
        measure = entry.gauge.due_at if _is_measured(entry) and not self._measuring else entry.claim.deadline
        listen = entry.listen_at if _is_mute(entry) else entry.claim.deadline
        return min(entry.claim.deadline, max(measure, self._away_until), listen)

    def _doom(self, now: float) -> None:
        for entry in self._entries.values():
            if entry.reason is not None:
                self._give_up(entry, now)
            elif now >= entry.claim.deadline:
                self._condemn(entry, LIFETIME_REASON, now)
            elif self._owner_ended and not entry.claim.detached:
                self._condemn(entry, OWNER_REASON, now)

    def _condemn(self, entry: Entry, reason: str, now: float) -> None:
        entry.reason = reason
        entry.doomed_at = entry.next_at = now
        entry.look_until = now + (LOOK_AFTER_OWNER_S if reason == OWNER_REASON else LOOK_AFTER_DEADLINE_S)

    def _give_up(self, entry: Entry, now: float) -> None:
        since = max(entry.doomed_at, now if self._vanished_since is None else self._vanished_since)
        if now - entry.doomed_at > GIVE_UP_S or now - since > GIVE_UP_VANISHED_S:
            entry.ended = True

    def _note_engine(self, outcome: Outcome, now: float) -> None:
        if outcome is not Outcome.VANISHED:
            self._vanished_since = None
        elif self._vanished_since is None:
            self._vanished_since = now
        if outcome not in (Outcome.AWAY, Outcome.VANISHED):
            self._away_repeats = 0
            self._away_until = 0.0
        elif now >= self._away_until:  # else this attempt began before the engine was known to be away
            self._away_until = now + _wait(outcome, self._away_repeats)
            self._away_repeats += 1

    def _note_trouble(self, entry: Entry, outcome: Outcome, now: float) -> None:
        entry.absent = 0
        if outcome is not Outcome.PENDING:
            entry.look_until = max(entry.look_until, now + LOOK_AFTER_TROUBLE_S)

    def _shorten_memory(self) -> None:
        ended = [name for name, entry in self._entries.items() if entry.ended]
        for name in ended[: max(len(ended) - ENDED_KEPT, 0)]:
            del self._entries[name]


def _is_due(entry: Entry, now: float) -> bool:
    return entry.reason is not None and not entry.ended and not entry.in_flight and entry.next_at <= now


def _is_measured(entry: Entry) -> bool:
    claim = entry.claim
    wanted = _is_busy(entry) or entry.gauge.owed
    return entry.reason is None and claim.disk_limit is not None and claim.container is not None and wanted


def _is_busy(entry: Entry) -> bool:
    return entry.claim.busy if entry.gauge.alive is None else entry.gauge.alive


def _is_mute(entry: Entry) -> bool:
    claim = entry.claim
    wanted = claim.speaks and claim.disk_limit is not None and claim.container is not None
    return wanted and entry.reason is None and not entry.listening


def _wait(outcome: Outcome, repeats: int) -> float:
    first, longest = _BACKOFF[outcome]
    return float(min(longest, first * 2 ** min(repeats, 16)))
