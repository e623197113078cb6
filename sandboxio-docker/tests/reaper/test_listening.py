"""The disk cap against an engine: measured while an agent, or the engine, says that somebody lives who may write."""

import resource
import time

from sandboxio_docker.reaper import Reaper

from .fake_engine import FakeEngine
from .owner import Owner
from .test_handle import end_reaper
from .test_trouble import cpu_seconds, gone


def speaking(engine: FakeEngine, reaper: Reaper, name: str = "sbx-1", size: int = 0) -> str:
    """Arm a capped sandbox whose agent is heard."""
    reaper.expect(name, time.time() + 1000)
    container = engine.create(name, size=size)
    reaper.disk(name, 1_000_000, speaks=True)
    reaper.have(name, container)
    engine.wait(lambda: bool(engine.containers[container].listeners))
    return container


def looks(engine: FakeEngine, container: str) -> int:
    return engine.asked("GET", f"/containers/{container}/json?size=1")


def test_a_sandbox_is_measured_while_its_agent_says_that_something_lives(engine: FakeEngine, reaper: Reaper) -> None:
    container = speaking(engine, reaper)
    engine.say(container, "busy 0")
    engine.wait(lambda: looks(engine, container) == 2)
    engine.say(container, "idle")
    engine.wait(lambda: looks(engine, container) == 3)  # the last writes
    before = cpu_seconds(reaper)
    time.sleep(5.0)
    assert looks(engine, container) == 3
    assert cpu_seconds(reaper) - before <= 0.02
    engine.containers[container].size = 1_000_001
    engine.say(container, "busy 0")
    engine.wait(lambda: gone(engine))
    assert reaper.status("sbx-1") == "disk_mb"


def test_only_what_runs_is_listened_to(engine: FakeEngine, reaper: Reaper) -> None:
    """Docker never ends a stream that was attached to a container which is never started, or which has just ended."""
    container = engine.create("sbx-1")
    engine.containers[container].runs = False
    reaper.expect("sbx-1", time.time() + 1000)
    reaper.disk("sbx-1", 1_000_000, speaks=True)
    reaper.have("sbx-1", container)
    engine.wait(lambda: [path for _, path in engine.log].count(f"/containers/{container}/json") == 2)
    assert engine.asked("POST", f"/containers/{container}/attach") == 0
    engine.containers[container].runs = True
    engine.wait(lambda: bool(engine.containers[container].listeners))


def test_deleted_files_count(engine: FakeEngine, reaper: Reaper) -> None:
    container = speaking(engine, reaper)
    engine.say(container, "busy 1")
    engine.wait(lambda: gone(engine))
    assert reaper.status("sbx-1") == "disk_mb"


def test_an_agent_that_was_cut_off_is_heard_again(engine: FakeEngine, reaper: Reaper) -> None:
    container = speaking(engine, reaper)
    reaper.busy("sbx-1", True)
    engine.hang_up(container)
    engine.wait(lambda: looks(engine, container) >= 1)  # nobody says that nothing lives
    engine.wait(lambda: engine.asked("POST", f"/containers/{container}/kill?signal=SIGCHLD") == 1)  # makes it speak
    engine.wait(lambda: bool(engine.containers[container].listeners))
    engine.say(container, "busy 1")
    engine.wait(lambda: gone(engine))


def test_a_new_reaper_hears_the_agents_of_the_old_one(engine: FakeEngine, reaper: Reaper) -> None:
    container = speaking(engine, reaper)
    engine.containers[container].listeners.clear()
    end_reaper(reaper)
    reaper.busy("sbx-1", True)
    engine.wait(lambda: bool(engine.containers[container].listeners))
    engine.say(container, "busy 1")
    engine.wait(lambda: gone(engine))


def test_more_agents_than_descriptors_are_measured_without_being_heard(engine: FakeEngine, owners: list[Owner]) -> None:
    owner = Owner(engine.endpoint)
    owners.append(owner)
    resource.prlimit(owner.pid, resource.RLIMIT_NOFILE, (70, 70))  # which leaves six
    made = [engine.create(f"sbx-{number}") for number in range(8)]
    for number, container in enumerate(made):
        owner.call("expect", f"sbx-{number}", time.time() + 1000)
        owner.call("disk", f"sbx-{number}", 1_000_000, True)
        owner.call("have", f"sbx-{number}", container)
        engine.wait(lambda container=container: bool(engine.containers[container].listeners))  # type: ignore[misc]
    owner.call("busy", "sbx-7", True)
    engine.containers[made[7]].size = 1_000_001
    engine.wait(lambda: made[7] not in engine.containers)
    engine.say(made[0], "busy 1")
    engine.wait(lambda: made[0] not in engine.containers)


def test_without_an_agent_the_engine_shows_what_lives(engine: FakeEngine, reaper: Reaper) -> None:
    reaper.expect("sbx-1", time.time() + 1000)
    container = engine.create("sbx-1")
    engine.containers[container].processes = 2
    reaper.disk("sbx-1", 1_000_000)
    reaper.have("sbx-1", container)
    reaper.busy("sbx-1", True)
    engine.wait(lambda: looks(engine, container) == 2)
    engine.containers[container].processes = 1
    time.sleep(5.0)
    before = looks(engine, container)
    time.sleep(3.0)
    assert looks(engine, container) == before
    reaper.busy("sbx-1", True)  # told again, though nothing was told between
    engine.wait(lambda: looks(engine, container) > before)


def test_an_engine_that_can_not_show_what_lives_goes_on_to_be_asked_for_sizes(
    engine: FakeEngine, reaper: Reaper
) -> None:
    reaper.expect("sbx-1", time.time() + 1000)
    container = engine.create("sbx-1")
    engine.script("GET", f"/containers/{container}/top", 500, 500, 500, 500)
    reaper.disk("sbx-1", 1_000_000)
    reaper.have("sbx-1", container)
    reaper.busy("sbx-1", True)
    engine.wait(lambda: looks(engine, container) == 4, 12)
