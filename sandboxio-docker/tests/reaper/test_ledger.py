"""What is due when: exact, on a clock that only the test moves."""

from dataclasses import replace
from itertools import pairwise

import pytest
from sandboxio_docker.reaper.destroyer import Outcome, Result
from sandboxio_docker.reaper.ledger import Entry, Ledger
from sandboxio_docker.reaper.messages import Claim

FAR = 1_000_000.0


def claim(name: str = "a", deadline: float = FAR, container: str | None = "c1") -> Claim:
    return Claim(name, deadline, container)


def ledger_of(*claims: Claim, workers: int = 8) -> Ledger:
    ledger = Ledger(workers)
    for one in claims:
        ledger.expect(one, 0.0)
    return ledger


def run(ledger: Ledger, outcomes: list[Outcome], until: float, start: float = 0.0) -> list[float]:
    """Let time pass from one wake to the next; each attempt takes no time; return when attempts were made."""
    now, attempts = start, list[float]()
    while True:
        for entry in ledger.due(now):
            attempts.append(round(now, 3))
            outcome = outcomes.pop(0) if len(outcomes) > 1 else outcomes[0]
            ledger.attempted(entry, Result(outcome), now)
        wake = ledger.next_wake()
        if wake is None or wake > until:
            return attempts
        assert wake > now, "a busy loop"
        now = wake


def only(entries: list[Entry]) -> Entry:
    assert len(entries) == 1
    return entries[0]


def test_a_living_claim_is_due_at_its_deadline_and_not_before() -> None:
    ledger = ledger_of(claim(deadline=300.0))
    assert ledger.due(299.999) == []
    assert ledger.next_wake() == 300.0
    assert only(ledger.due(300.0)).claim.name == "a"
    assert ledger.status("a") == "lifetime"


def test_the_owners_end_dooms_what_is_not_detached() -> None:
    ledger = ledger_of(claim("a"), replace(claim("b"), detached=True, deadline=500.0))
    ledger.owner_ended()
    assert only(ledger.due(1.0)).claim.name == "a"
    assert not ledger.finished
    assert only(ledger.due(500.0)).claim.name == "b"


def test_gone_is_the_end() -> None:
    ledger = ledger_of(claim())
    ledger.owner_ended()
    assert run(ledger, [Outcome.GONE], FAR) == [0.0]
    assert ledger.finished
    assert ledger.next_wake() is None


def test_a_ledger_whose_owner_lives_is_never_finished() -> None:
    ledger = ledger_of(claim(deadline=0.0))
    run(ledger, [Outcome.GONE], FAR)
    assert ledger.holds_nothing
    assert not ledger.finished


def test_an_engine_that_is_away_is_asked_at_bounded_intervals_until_it_is_back() -> None:
    ledger = ledger_of(claim())
    ledger.owner_ended()
    attempts = run(ledger, [Outcome.AWAY] * 9 + [Outcome.GONE], FAR)
    assert attempts == [0.0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3, 11.3, 16.3, 21.3]
    assert ledger.finished


def test_while_the_engine_is_away_one_claim_asks_for_all() -> None:
    ledger = ledger_of(*[claim(f"n{number}") for number in range(100)], workers=8)
    ledger.owner_ended()
    first = ledger.due(0.0)
    assert len(first) == 8
    for entry in first:
        ledger.attempted(entry, Result(Outcome.AWAY), 0.0)
    assert ledger.due(0.05) == []
    probe = only(ledger.due(0.1))  # eight failures at one time count as one
    assert ledger.next_wake() is None  # only its report is waited for
    ledger.attempted(probe, Result(Outcome.GONE), 0.2)
    assert len(ledger.due(0.2)) == 8  # back: all at once again


def test_refusals_and_removals_in_progress_are_retried() -> None:
    ledger = ledger_of(claim())
    ledger.owner_ended()
    outcomes = [Outcome.REFUSED] * 3 + [Outcome.PENDING] * 5 + [Outcome.GONE]
    assert run(ledger, outcomes, FAR) == [0.0, 0.2, 0.6, 1.4, 1.5, 1.7, 2.1, 2.9, 3.9]
    assert ledger.finished


def test_one_refusal_does_not_hold_up_the_others() -> None:
    ledger = ledger_of(claim("a"), claim("b"), workers=1)
    ledger.owner_ended()
    ledger.attempted(only(ledger.due(0.0)), Result(Outcome.REFUSED), 0.0)
    assert only(ledger.due(0.0)).claim.name == "b"


def test_a_busy_pool_is_no_reason_to_wake() -> None:
    ledger = ledger_of(claim("a"), claim("b"), workers=1)
    ledger.owner_ended()
    entry = only(ledger.due(0.0))
    assert ledger.due(0.0) == []
    assert ledger.next_wake() is None
    ledger.attempted(entry, Result(Outcome.GONE), 1.0)
    assert ledger.next_wake() == 0.0


def test_what_was_expected_at_the_owners_end_is_looked_for_a_minute() -> None:
    ledger = ledger_of(claim(container=None))
    ledger.owner_ended()
    attempts = run(ledger, [Outcome.ABSENT], FAR)
    assert attempts[:6] == [0.0, 0.1, 0.3, 0.7, 1.5, 3.1]
    assert max(b - a for a, b in pairwise(attempts)) == pytest.approx(2.0)
    assert 60.0 <= attempts[-1] < 62.1
    assert ledger.finished


def test_a_condemned_name_is_looked_for_ten_minutes() -> None:
    ledger = ledger_of(claim(deadline=-1.0, container=None))
    attempts = run(ledger, [Outcome.ABSENT], FAR)
    assert 600.0 <= attempts[-1] < 602.1
    assert ledger.holds_nothing


def test_a_name_whose_deadline_comes_without_a_container_is_condemned() -> None:
    ledger = ledger_of(claim(deadline=100.0, container=None))
    attempts = run(ledger, [Outcome.ABSENT], FAR)
    assert attempts[0] == 100.0
    assert 700.0 <= attempts[-1] < 702.1


def test_an_engine_that_was_stuck_gets_time_to_commit_what_it_had_queued() -> None:
    ledger = ledger_of(claim(container=None))
    ledger.owner_ended()
    attempts = run(ledger, [Outcome.AWAY] * 25 + [Outcome.ABSENT], FAR)
    back = attempts[25]
    assert back > 60.0
    assert len(attempts[25:]) >= 3  # several answers that there is none
    assert attempts[24] + 10.0 <= attempts[-1] < attempts[24] + 13.0


def test_what_is_found_by_name_is_then_destroyed_by_its_id() -> None:
    ledger = ledger_of(claim(deadline=-1.0, container=None))
    ledger.attempted(only(ledger.due(0.0)), Result(Outcome.PENDING, "c9"), 0.0)
    entry = only(ledger.due(0.1))
    assert entry.claim.container == "c9"
    ledger.attempted(entry, Result(Outcome.GONE, "c9"), 0.1)
    assert ledger.holds_nothing


def test_no_engine_for_a_day_is_given_up() -> None:
    ledger = ledger_of(claim())
    ledger.owner_ended()
    attempts = run(ledger, [Outcome.AWAY], FAR)
    assert attempts[-1] == pytest.approx(86_400.0, abs=5.1)
    assert ledger.finished


def test_an_engine_whose_place_is_gone_is_given_up_after_ten_minutes() -> None:
    ledger = ledger_of(claim("a"), claim("b"), replace(claim("c"), detached=True, deadline=5000.0))
    ledger.owner_ended()
    attempts = run(ledger, [Outcome.VANISHED], 4999.0)
    assert attempts[:4] == [0.0, 0.0, 0.1, 0.3]
    assert attempts[-1] == pytest.approx(600.0, abs=5.1)
    again = run(ledger, [Outcome.VANISHED], FAR, start=5000.0)  # what is doomed later gets its ten minutes too
    assert again[0] == 5000.0
    assert again[-1] == pytest.approx(5600.0, abs=5.1)
    assert ledger.finished


def test_an_engine_whose_place_comes_back_is_not_given_up() -> None:
    ledger = ledger_of(claim())
    ledger.owner_ended()
    attempts = run(ledger, [Outcome.VANISHED] * 100 + [Outcome.AWAY] + [Outcome.VANISHED] * 100 + [Outcome.GONE], FAR)
    assert len(attempts) == 202
    assert ledger.finished


def test_a_late_message_does_not_save_what_is_doomed() -> None:
    ledger = ledger_of(claim(deadline=10.0, container=None))
    entry = only(ledger.due(10.0))
    ledger.update(Claim("a", FAR, "c7", ("n1",), detached=True))
    ledger.attempted(entry, Result(Outcome.ABSENT), 10.0)
    again = only(ledger.due(10.1))
    assert (again.claim.container, again.claim.networks) == ("c7", ("n1",))
    assert again.claim.deadline == 10.0


def test_a_new_expectation_of_a_name_forgets_the_old_container() -> None:
    ledger = ledger_of(claim(container="old"))
    ledger.expect(claim(container=None), 5.0)
    ledger.owner_ended()
    assert only(ledger.due(6.0)).claim.container is None


def test_what_is_forgotten_during_an_attempt_is_not_taken_up_again() -> None:
    ledger = ledger_of(claim())
    ledger.owner_ended()
    entry = only(ledger.due(0.0))
    ledger.forget("a")
    ledger.attempted(entry, Result(Outcome.PENDING), 0.1)
    assert ledger.finished
    assert ledger.next_wake() is None


def test_ended_claims_are_remembered_within_bounds() -> None:
    ledger = ledger_of(*[claim(f"n{number}", deadline=-1.0) for number in range(5000)], workers=5000)
    run(ledger, [Outcome.GONE], 1.0)
    ledger.expect(claim("last"), 2.0)
    assert len(ledger._entries) == 4097
    assert ledger.status("n0") is None
    assert ledger.status("n4999") == "lifetime"


# From here on: the disk cap.


def capped(name: str = "a", *, busy: bool = True, limit: int = 1000) -> Claim:
    return replace(claim(name), disk_limit=limit, busy=busy)


def measure(ledger: Ledger, now: float, size: int | None, seconds: float = 0.01) -> Entry:
    entry = ledger.disk_due(now)
    assert entry is not None
    ledger.measured(entry, size, seconds, now + seconds)
    return entry


def quiet(ledger: Ledger, now: float = 1.0) -> None:
    """Spend the query that a first arming owes."""
    measure(ledger, now, 0)


def test_over_the_cap_is_doomed_and_the_reason_told() -> None:
    ledger = ledger_of(capped())
    measure(ledger, 0.0, 1000)
    assert ledger.status("a") is None
    measure(ledger, 2.01, 1001)
    assert ledger.status("a") == "disk_mb"
    assert only(ledger.due(2.1)).claim.name == "a"


@pytest.mark.parametrize(("seconds", "rest"), [(0.001, 2.0), (0.1, 2.0), (0.77, 15.4), (10.0, 200.0)])
def test_a_query_may_take_a_twentieth_of_the_time(seconds: float, rest: float) -> None:
    ledger = ledger_of(capped())
    measure(ledger, 0.0, 0, seconds)
    assert ledger.next_wake() == pytest.approx(seconds + rest)
    assert ledger.disk_due(seconds + rest - 0.001) is None
    assert ledger.disk_due(seconds + rest) is not None


def test_one_query_at_a_time() -> None:
    ledger = ledger_of(capped("a"), capped("b"))
    first = ledger.disk_due(0.0)
    assert first is not None
    assert ledger.disk_due(0.0) is None
    assert ledger.next_wake() == FAR  # its report wakes, nothing else
    ledger.measured(first, 0, 0.01, 0.01)
    second = ledger.disk_due(0.01)
    assert second is not None
    assert second.claim.name != first.claim.name


def test_an_idle_sandbox_is_not_measured() -> None:
    ledger = ledger_of(capped(busy=False))
    quiet(ledger)
    assert ledger.disk_due(1000.0) is None
    assert ledger.next_wake() == FAR


def test_one_more_query_after_the_last_process_has_ended() -> None:
    ledger = ledger_of(capped(busy=False))
    quiet(ledger)
    ledger.update(capped(busy=True))
    measure(ledger, 10.0, 0)
    ledger.update(capped(busy=False))
    measure(ledger, 13.0, 0)
    assert ledger.disk_due(1000.0) is None


def test_a_process_too_short_to_be_seen_is_followed_by_a_query() -> None:
    ledger = ledger_of(capped(busy=False))
    quiet(ledger)
    for _ in range(100):
        ledger.update(capped(busy=True))
        ledger.update(capped(busy=False))
    assert ledger.disk_due(2.0) is None  # a hundred commands, and still two seconds between two queries
    measure(ledger, 3.01, 5000)
    assert ledger.status("a") == "disk_mb"


def test_a_process_that_ends_during_a_query_is_followed_by_another_one() -> None:
    ledger = ledger_of(capped())
    entry = ledger.disk_due(0.0)
    assert entry is not None
    ledger.update(capped(busy=False))
    ledger.measured(entry, 0, 0.01, 0.01)
    measure(ledger, 2.01, 0)
    assert ledger.disk_due(1000.0) is None


def test_an_engine_that_is_away_does_not_use_up_the_query_that_is_owed() -> None:
    ledger = ledger_of(capped(busy=False))
    measure(ledger, 0.0, None)
    assert ledger.status("a") is None
    measure(ledger, 2.01, 5000)
    assert ledger.status("a") == "disk_mb"


def test_a_layer_that_can_not_be_measured_twice_in_a_row_is_over_the_cap() -> None:
    ledger = ledger_of(capped())
    for now, measured in ((0.0, False), (1300.0, True), (1400.0, False)):
        entry = ledger.disk_due(now)
        assert entry is not None
        if measured:
            ledger.measured(entry, 1, 1.0, now)
        else:
            ledger.immeasurable(entry, 60.0, now)
    assert ledger.status("a") is None
    entry = ledger.disk_due(2700.0)
    assert entry is not None
    ledger.immeasurable(entry, 60.0, 2760.0)
    assert ledger.status("a") == "disk_mb"


def test_no_cap_no_query() -> None:
    ledger = ledger_of(replace(claim(), busy=True))
    assert ledger.disk_due(10.0) is None


# From here on: what an agent says.


def spoken(name: str = "a", *, busy: bool = False) -> Claim:
    return replace(capped(name, busy=busy), speaks=True)


def heard(now: float, alive: bool = True, held: int | None = 0, claim: Claim | None = None) -> tuple[Ledger, Entry]:
    """Return a ledger whose only agent has said that."""
    ledger = ledger_of(claim or spoken())
    quiet(ledger, 0.0)
    entry = only(ledger.listen_due(now))
    ledger.heard(entry, alive, held, now)
    return ledger, entry


def test_an_agent_is_listened_to_once_its_container_is_known_and_no_exec_sandbox_at_all() -> None:
    ledger = ledger_of(replace(spoken("a"), container=None), capped("b"), replace(spoken("c"), disk_limit=None))
    assert ledger.listen_due(1.0) == []
    ledger.update(spoken("a"))
    assert ledger.next_wake() == 0.0
    assert only(ledger.listen_due(1.0)).claim.name == "a"
    assert ledger.listen_due(1.0) == []


def test_a_use_that_begins_is_measured_after_a_moment_and_while_it_lasts() -> None:
    ledger, _ = heard(100.0)
    assert ledger.next_wake() == 100.5
    measure(ledger, 100.5, 0)
    measure(ledger, 102.51, 0)
    measure(ledger, 104.53, 1001)
    assert ledger.status("a") == "disk_mb"


def test_when_nothing_lives_one_more_query_follows_and_then_none() -> None:
    ledger, entry = heard(100.0)
    measure(ledger, 100.5, 0)
    ledger.heard(entry, alive=False, held=0, now=101.0)
    measure(ledger, 102.51, 0)
    assert ledger.disk_due(1000.0) is None
    assert ledger.next_wake() == FAR


def test_the_agent_is_believed_and_not_what_the_owner_told_long_ago() -> None:
    ledger, entry = heard(100.0, alive=False, claim=spoken(busy=True))
    measure(ledger, 102.01, 0)
    assert ledger.disk_due(1000.0) is None
    ledger.unheard(entry, 1000.0)
    assert ledger.disk_due(1000.0) is not None  # nobody says that nothing lives any more


def test_deleted_files_alone_over_the_cap() -> None:
    ledger, entry = heard(100.0, held=1000)
    assert ledger.status("a") is None
    ledger.heard(entry, alive=True, held=1001, now=102.0)
    assert ledger.status("a") == "disk_mb"


def test_more_than_can_be_looked_at_is_over_the_cap() -> None:
    ledger, _ = heard(100.0, held=None)
    assert ledger.status("a") == "disk_mb"


def test_layer_and_deleted_files_together_are_over_the_cap_the_second_time() -> None:
    ledger, entry = heard(100.0, held=600)
    measure(ledger, 100.5, 600)  # one file, perhaps: counted here before it was deleted, or linked after
    ledger.heard(entry, alive=True, held=0, now=101.0)
    measure(ledger, 102.51, 600)
    ledger.heard(entry, alive=True, held=600, now=103.0)
    measure(ledger, 104.53, 600)
    assert ledger.status("a") is None
    measure(ledger, 106.55, 401)
    assert ledger.status("a") == "disk_mb"


def test_an_agent_that_is_not_heard_any_more_is_listened_to_again_ever_more_rarely() -> None:
    ledger, entry = heard(100.0, alive=False)
    ledger.heard(entry, alive=False, held=0, now=100.0)
    waits: list[float] = []
    now = 100.0
    for _ in range(9):
        ledger.unheard(entry, now)
        assert ledger.listen_due(entry.listen_at - 0.001) == []
        assert only(ledger.listen_due(entry.listen_at)) is entry
        waits.append(entry.listen_at - now)
        now = entry.listen_at
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]


def test_a_container_that_is_gone_is_not_listened_to_again() -> None:
    ledger, entry = heard(100.0, alive=False)
    ledger.unheard(entry, 100.0, refused=True)
    assert ledger.listen_due(FAR - 1) == []
    measure(ledger, 102.5, 0)
    assert ledger.next_wake() == FAR


def test_a_doomed_sandbox_is_not_listened_to() -> None:
    ledger = ledger_of(spoken())
    ledger.owner_ended()
    assert ledger.due(1.0)
    assert ledger.listen_due(1.0) == []


# From here on: no agent, and the engine shows what lives.


def alone(ledger: Ledger, now: float) -> None:
    entry = ledger.disk_due(now)
    assert entry is not None
    ledger.measured(entry, 0, 0.01, now + 0.01, alone=True)


def test_where_only_the_first_process_lives_nothing_is_measured_until_the_next_use() -> None:
    ledger = ledger_of(capped())
    alone(ledger, 0.0)
    measure(ledger, 2.02, 0)
    assert ledger.disk_due(1000.0) is None
    ledger.update(capped())
    assert ledger.disk_due(1000.0) is not None


def test_a_use_that_began_during_the_query_goes_on() -> None:
    ledger = ledger_of(capped())
    entry = ledger.disk_due(0.0)
    assert entry is not None
    ledger.update(capped())
    ledger.measured(entry, 0, 0.01, 0.01, alone=True)
    for now in (2.02, 4.04, 6.06):
        measure(ledger, now, 0)
