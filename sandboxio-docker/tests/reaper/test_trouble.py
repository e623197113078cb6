"""The whole reaper against an engine in trouble: whatever it does, in the end nothing is left."""

import time

import pytest
from sandboxio_docker.reaper import Reaper

from .fake_engine import FakeEngine

PAST = 1.0


def doomed(engine: FakeEngine, reaper: Reaper) -> str:
    """Return a container that the reaper is to destroy in a moment."""
    reaper.expect("sbx-1", time.time() + 0.3)
    container = engine.create("sbx-1")
    reaper.have("sbx-1", container)
    return container


def gone(engine: FakeEngine) -> bool:
    return not engine.containers and not engine.networks


@pytest.mark.parametrize(
    "statuses",
    [[500, 500, 500], [409, 409, 409], [0, 0, 0], [409, 500, 0, 409]],
    ids=["errors", "in progress", "connection closed", "all of them"],
)
def test_a_removal_is_retried_until_it_is_done(engine: FakeEngine, reaper: Reaper, statuses: list[int]) -> None:
    engine.script("DELETE", "/containers/", *statuses)
    container = doomed(engine, reaper)
    engine.wait(lambda: gone(engine))
    assert engine.asked("DELETE", f"/containers/{container}") == len(statuses) + 1


def test_an_inspection_is_retried_until_it_is_done(engine: FakeEngine, reaper: Reaper) -> None:
    engine.script("GET", "/containers/", 500, 0, 500)
    doomed(engine, reaper)
    engine.wait(lambda: gone(engine))


def test_removed_by_somebody_else_is_gone(engine: FakeEngine, reaper: Reaper) -> None:
    engine.script("GET", "/containers/", 404)
    doomed(engine, reaper)
    engine.wait(lambda: engine.asked("GET", "/networks") == 1)
    assert engine.asked("DELETE", "/") == 0


def test_an_engine_that_is_down_and_comes_back(engine: FakeEngine, reaper: Reaper) -> None:
    engine.stop()
    doomed(engine, reaper)
    time.sleep(1.5)  # the deadline passes without an engine
    reaper.expect("sbx-2", time.time() + 1000)  # the reaper listens all the same
    assert engine.log == []
    engine.start()
    engine.wait(lambda: gone(engine))


def test_an_engine_whose_socket_vanished_and_comes_back(engine: FakeEngine, reaper: Reaper) -> None:
    engine.stop()
    engine.path.unlink()
    doomed(engine, reaper)
    time.sleep(1.0)
    engine.start()
    engine.wait(lambda: gone(engine))


def test_an_engine_that_stalls_delays_no_answer_to_the_owner(engine: FakeEngine, reaper: Reaper) -> None:
    engine.answering.clear()
    for number in range(20):  # more than there are workers
        reaper.expect(f"sbx-{number}", PAST)
    begun = time.monotonic()
    reaper.expect("sbx-x", time.time() + 1000)
    assert reaper.status("sbx-0") == "lifetime"
    assert time.monotonic() - begun < 5.0  # the engine would have let it wait for good
    for number in range(20):
        engine.create(f"sbx-{number}")
    engine.answering.set()
    engine.wait(lambda: gone(engine), 20)


def test_an_engine_that_is_down_costs_no_busy_loop(engine: FakeEngine, reaper: Reaper) -> None:
    engine.stop()
    for number in range(50):
        reaper.expect(f"sbx-{number}", PAST)
    before = cpu_seconds(reaper)
    time.sleep(2.0)
    assert cpu_seconds(reaper) - before <= 0.3


def test_a_removal_that_the_engine_never_answers_blocks_no_other(engine: FakeEngine, reaper: Reaper) -> None:
    """The first removal hangs for as long as the client waits; the second container goes at once."""
    engine.create("sbx-1")
    engine.hang("DELETE", "/containers/")
    reaper.expect("sbx-1", PAST)
    engine.wait(lambda: engine.asked("DELETE", "/containers/") == 1)
    reaper.expect("sbx-2", PAST)
    engine.create("sbx-2")
    engine.wait(lambda: {c.name for c in engine.containers.values()} == {"sbx-1"})


def test_over_the_disk_cap_is_destroyed_and_the_host_is_told_why(engine: FakeEngine, reaper: Reaper) -> None:
    reaper.expect("sbx-1", time.time() + 1000)
    container = engine.create("sbx-1", size=2_000_000)
    reaper.have("sbx-1", container)
    reaper.disk("sbx-1", 1_000_000)
    reaper.busy("sbx-1", True)
    engine.wait(lambda: gone(engine))
    assert reaper.status("sbx-1") == "disk_mb"
    reaper.busy("sbx-1", False)
    assert reaper.status("sbx-1") == "disk_mb"
    reaper.forget("sbx-1")
    assert reaper.status("sbx-1") is None


def test_the_last_writes_of_a_short_process_are_seen(engine: FakeEngine, reaper: Reaper) -> None:
    reaper.expect("sbx-1", time.time() + 1000)
    container = engine.create("sbx-1")
    reaper.have("sbx-1", container)
    reaper.disk("sbx-1", 1_000_000)
    reaper.busy("sbx-1", True)
    engine.wait(lambda: engine.asked("GET", f"/containers/{container}/json?size=1") == 1)
    engine.containers[container].size = 1_000_001
    reaper.busy("sbx-1", False)
    engine.wait(lambda: gone(engine))
    assert reaper.status("sbx-1") == "disk_mb"
    assert engine.asked("GET", f"/containers/{container}/json?size=1") == 2


def cpu_seconds(reaper: Reaper) -> float:
    with open(f"/proc/{reaper.pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
