"""The owner ends in every way, and what it left behind is destroyed; a living owner's sandboxes are not."""

import os
import signal
import time

import pytest

from .fake_engine import FakeEngine, until
from .owner import Owner, descriptors, is_alive

DAY = 86_400.0


@pytest.fixture
def owner(engine: FakeEngine, owners: list[Owner]) -> Owner:
    owners.append(Owner(engine.endpoint))
    return owners[-1]


def arm(owner: Owner, engine: FakeEngine, name: str, lifetime: float = DAY) -> str:
    owner.call("expect", name, time.time() + lifetime)
    container = engine.create(name)
    owner.call("have", name, container)
    return container


def test_a_killed_owner_of_twenty_leaves_none_and_the_reaper_ends(owner: Owner, engine: FakeEngine) -> None:
    for number in range(20):
        arm(owner, engine, f"sbx-{number}")
    reaper = owner.reaper
    owner.kill()
    engine.wait(lambda: not engine.containers)
    until(lambda: not is_alive(reaper))


def test_a_forked_child_lets_go_of_the_pipe_at_once(owner: Owner, engine: FakeEngine) -> None:
    arm(owner, engine, "sbx-1")
    assert owner.call("links") == 1
    child = owner.fork(keep_link=False)
    until(lambda: "socket" not in descriptors(child))


def test_a_live_forked_child_that_holds_the_pipe_does_not_delay_the_end(owner: Owner, engine: FakeEngine) -> None:
    arm(owner, engine, "sbx-1")
    child = owner.fork(keep_link=True)
    owner.kill()
    engine.wait(lambda: not engine.containers, 5)
    assert is_alive(child)


def test_the_end_of_a_forked_child_ends_nothing(owner: Owner, engine: FakeEngine) -> None:
    arm(owner, engine, "sbx-1")
    child = owner.fork(keep_link=False)
    os.kill(child, signal.SIGKILL)
    arm(owner, engine, "sbx-2", lifetime=-1)  # something that the reaper does do
    engine.wait(lambda: "sbx-2" not in names(engine))
    assert names(engine) == {"sbx-1"}


def test_an_owner_that_becomes_another_program_has_ended(owner: Owner, engine: FakeEngine) -> None:
    arm(owner, engine, "sbx-1")
    owner._process.stdin.write('["execute", "60"]\n')  # type: ignore[union-attr]
    owner._process.stdin.flush()  # type: ignore[union-attr]
    engine.wait(lambda: not engine.containers)
    assert is_alive(owner.pid)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGABRT])
def test_every_signal_that_ends_the_owner(owner: Owner, engine: FakeEngine, number: signal.Signals) -> None:
    """REA-04."""
    arm(owner, engine, "sbx-1")
    owner.send(number)
    engine.wait(lambda: not engine.containers)


def test_a_stopped_owner_is_not_dead(owner: Owner, engine: FakeEngine) -> None:
    arm(owner, engine, "sbx-1")
    arm(owner, engine, "sbx-2", lifetime=1)
    owner.send(signal.SIGSTOP)
    engine.wait(lambda: names(engine) == {"sbx-1"})  # the reaper goes on for it
    owner.send(signal.SIGCONT)
    assert owner.call("status", "sbx-2") == "lifetime"
    assert owner.call("status", "sbx-1") is None


def test_two_owners_do_not_disturb_each_other(owner: Owner, engine: FakeEngine, owners: list[Owner]) -> None:
    other = Owner(engine.endpoint)
    owners.append(other)
    arm(owner, engine, "sbx-1")
    arm(other, engine, "sbx-2")
    assert owner.reaper != other.reaper
    owner.kill()
    engine.wait(lambda: names(engine) == {"sbx-2"})
    assert other.call("status", "sbx-2") is None


def test_what_is_detached_outlives_its_owner_until_its_deadline(owner: Owner, engine: FakeEngine) -> None:
    arm(owner, engine, "sbx-1")
    arm(owner, engine, "sbx-2", lifetime=3)
    owner.call("detach", "sbx-2")
    reaper = owner.reaper
    owner.kill()
    engine.wait(lambda: names(engine) == {"sbx-2"}, 2.5)
    engine.wait(lambda: not engine.containers)
    until(lambda: not is_alive(reaper))


def test_what_is_forgotten_is_not_touched(owner: Owner, engine: FakeEngine) -> None:
    arm(owner, engine, "sbx-1")
    owner.call("forget", "sbx-1")
    reaper = owner.reaper
    owner.kill()
    until(lambda: not is_alive(reaper))
    assert names(engine) == {"sbx-1"}
    assert engine.log == []


def test_a_create_request_that_commits_after_its_owner_has_ended(owner: Owner, engine: FakeEngine) -> None:
    owner.call("expect", "sbx-1", time.time() + DAY)
    owner.kill()
    engine.wait(lambda: engine.asked("GET", "/containers/sbx-1/") >= 3)
    engine.create("sbx-1")
    engine.create_network("sbx-1")
    engine.wait(lambda: not engine.containers and not engine.networks)


def test_a_condemned_name_is_destroyed_when_it_appears(owner: Owner, engine: FakeEngine) -> None:
    owner.call("expect", "sbx-1", time.time() - 1)
    engine.wait(lambda: engine.asked("GET", "/containers/sbx-1/") >= 2)
    engine.create("sbx-1")
    engine.wait(lambda: not engine.containers)
    assert is_alive(owner.reaper)


def test_a_foreign_container_of_that_name_is_not_touched(owner: Owner, engine: FakeEngine) -> None:
    engine.create("sbx-1", labels={})
    engine.create("sbx-2", labels={"io.sandboxio.managed": "1", "io.sandboxio.create-id": "sbx-3"})
    for name in ("sbx-1", "sbx-2"):
        owner.call("expect", name, time.time() - 1)
    engine.wait(lambda: min(engine.asked("GET", f"/containers/sbx-{n}/") for n in (1, 2)) >= 3)
    assert names(engine) == {"sbx-1", "sbx-2"}
    assert engine.asked("DELETE", "/") == 0


def test_networks_go_after_their_container(owner: Owner, engine: FakeEngine) -> None:
    container = arm(owner, engine, "sbx-1")
    network = engine.create_network("sbx-1", container)
    foreign = engine.create_network("sbx-1", labels={})
    owner.call("network", "sbx-1", network)
    owner.call("network", "sbx-1", foreign)
    engine.script("DELETE", "/networks/", 403, 409)
    owner.kill()
    engine.wait(lambda: not engine.containers and set(engine.networks) == {foreign})
    assert engine.log.index(("DELETE", f"/containers/{container}?force=1&v=1")) < engine.log.index(
        ("DELETE", f"/networks/{network}")
    )


def test_no_zombie_and_no_child_for_the_owner_to_wait_for(owner: Owner, engine: FakeEngine) -> None:
    arm(owner, engine, "sbx-1")
    assert owner.call("wait_for_any_child") == "no child"
    reaper = owner.reaper
    assert os.getsid(reaper) != os.getsid(owner.pid)
    os.kill(reaper, signal.SIGKILL)
    until(lambda: not is_alive(reaper))
    assert owner.call("wait_for_any_child") == "no child"


def test_twenty_first_calls_at_once_start_one_reaper(owner: Owner, engine: FakeEngine) -> None:
    """REA-02."""
    owner.call("expect_many", "sbx-", 20, time.time() + DAY)
    assert owner.call("started") == [owner.reaper]
    for number in range(20):
        engine.create(f"sbx-{number}")
    owner.kill()
    engine.wait(lambda: not engine.containers)


def names(engine: FakeEngine) -> set[str]:
    return {container.name for container in engine.containers.values()}


def test_what_is_joined_outlives_who_joined_until_its_deadline(owner: Owner, engine: FakeEngine) -> None:
    container = engine.create("sbx-1")
    assert owner.call("join", "sbx-1", container, time.time() + 3, None) is True
    reaper = owner.reaper
    owner.kill()
    time.sleep(1.5)  # the time in which an owner's sandbox would be gone
    assert names(engine) == {"sbx-1"}
    engine.wait(lambda: not engine.containers)
    until(lambda: not is_alive(reaper))


def test_who_joined_watches_the_disk_although_its_owner_believes_it_idle(
    owner: Owner, engine: FakeEngine, owners: list[Owner]
) -> None:
    container = arm(owner, engine, "sbx-1")
    owner.call("disk", "sbx-1", 1000)
    owners.append(Owner(engine.endpoint))
    other = owners[-1]
    other.call("join", "sbx-1", container, time.time() + DAY, 1000)
    other.call("busy", "sbx-1", True)
    engine.containers[container].size = 1001
    engine.wait(lambda: not engine.containers)
    assert other.call("status", "sbx-1") == "disk_mb"
