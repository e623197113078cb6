"""The same promises on a real engine: what the fake one can't show."""

import signal
import time
import uuid
from collections.abc import Iterator
from typing import Any

import docker
import pytest
from docker.errors import NotFound
from sandboxio_docker.endpoint import resolve
from sandboxio_docker.reaper import Reaper

from .fake_engine import labels_of, until
from .owner import Owner, has_ended

pytestmark = pytest.mark.docker

DAY = 86_400.0
IMAGE = "sandboxio-test/busybox"


class Sandboxes:
    """Containers and networks of one test, each with a name that no other test run has."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.run = f"sbxr-{uuid.uuid4().hex[:12]}"

    def name(self, number: int) -> str:
        return f"{self.run}-{number}"

    def create(self, name: str, command: str = "sleep 600", *, labelled: bool = True, **more: Any) -> str:
        made = self.client.containers.create(
            IMAGE,
            ["sh", "-c", command],
            name=name,
            labels=labels_of(name) if labelled else {},
            **{"network_mode": "none", **more},
        )
        identity: str = made.id
        return identity

    def start(self, name: str, command: str = "sleep 600", **more: Any) -> str:
        identity = self.create(name, command, **more)
        self.client.containers.get(identity).start()
        return identity

    def left(self) -> list[str]:
        found = self.client.api.containers(all=True, filters={"name": self.run})
        return sorted(name.lstrip("/") for entry in found for name in entry["Names"])

    def networks(self) -> list[str]:
        return [entry["Name"] for entry in self.client.api.networks(names=[self.run])]

    def clean(self) -> None:
        for name in self.left():
            try:
                self.client.api.remove_container(name, force=True, v=True)
            except NotFound:
                continue
        for name in self.networks():
            self.client.api.remove_network(name)


@pytest.fixture
def sandboxes() -> Iterator[Sandboxes]:
    client = docker.from_env()
    made = Sandboxes(client)
    yield made
    made.clean()
    client.close()


@pytest.fixture
def owner(owners: list[Owner]) -> Owner:
    owners.append(Owner(resolve(None)))
    return owners[-1]


@pytest.fixture
def here() -> Iterator[Reaper]:
    reaper = Reaper(resolve(None))
    yield reaper
    reaper._drop_link()


def arm(owner: Owner, sandboxes: Sandboxes, number: int, lifetime: float = DAY, **more: Any) -> str:
    name = sandboxes.name(number)
    owner.call("expect", name, time.time() + lifetime)
    identity = sandboxes.start(name, **more)
    owner.call("have", name, identity)
    return identity


def test_a_killed_owner_of_twenty_leaves_none_in_ten_seconds(owner: Owner, sandboxes: Sandboxes) -> None:
    """REA-01, REA-04."""
    for number in range(20):
        arm(owner, sandboxes, number)
    assert len(sandboxes.left()) == 20
    reaper = owner.reaper
    owner.kill()
    assert until(lambda: not sandboxes.left(), 10) < 10
    until(lambda: has_ended(reaper))


def test_with_a_live_forked_child_that_holds_its_descriptors(owner: Owner, sandboxes: Sandboxes) -> None:
    arm(owner, sandboxes, 1)
    child = owner.fork(keep_link=True)
    owner.kill()
    until(lambda: not sandboxes.left(), 10)
    assert not has_ended(child)


def test_a_stopped_owner_keeps_its_sandboxes_until_their_deadline(owner: Owner, sandboxes: Sandboxes) -> None:
    arm(owner, sandboxes, 1)
    arm(owner, sandboxes, 2, lifetime=3)
    owner.send(signal.SIGSTOP)
    until(lambda: sandboxes.left() == [sandboxes.name(1)], 15)


def test_two_owners(owner: Owner, sandboxes: Sandboxes, owners: list[Owner]) -> None:
    other = Owner(resolve(None))
    owners.append(other)
    arm(owner, sandboxes, 1)
    arm(other, sandboxes, 2)
    owner.kill()
    until(lambda: sandboxes.left() == [sandboxes.name(2)], 10)
    assert other.call("status", sandboxes.name(2)) is None


def test_a_container_that_was_created_and_never_started(owner: Owner, sandboxes: Sandboxes) -> None:
    name = sandboxes.name(1)
    owner.call("expect", name, time.time() + DAY)
    sandboxes.create(name, auto_remove=True)
    owner.kill()
    until(lambda: not sandboxes.left(), 10)


def test_a_create_request_that_commits_after_its_owner_has_ended(owner: Owner, sandboxes: Sandboxes) -> None:
    owner.call("expect", sandboxes.name(1), time.time() + DAY)
    owner.kill()
    time.sleep(1.0)
    sandboxes.create(sandboxes.name(1))
    until(lambda: not sandboxes.left(), 10)


def test_a_condemned_name(here: Reaper, sandboxes: Sandboxes) -> None:
    here.expect(sandboxes.name(1), time.time() - 1)
    sandboxes.create(sandboxes.name(1))
    until(lambda: not sandboxes.left(), 10)


def test_a_foreign_container_of_that_name_is_not_touched(here: Reaper, sandboxes: Sandboxes) -> None:
    foreign, ours = sandboxes.name(1), sandboxes.name(2)
    sandboxes.start(foreign, labelled=False)
    here.expect(foreign, time.time() - 1)
    sandboxes.start(ours)
    here.expect(ours, time.time() - 1)
    until(lambda: sandboxes.left() == [foreign], 10)
    time.sleep(1.0)  # some more looks at it
    assert sandboxes.left() == [foreign]


@pytest.mark.parametrize("state", ["paused", "restarting", "ended", "ignores signals"])
def test_a_container_in_any_state(here: Reaper, sandboxes: Sandboxes, state: str) -> None:
    name = sandboxes.name(1)
    restart = {"Name": "always"} if state == "restarting" else None
    command = {"restarting": "exit 1", "ended": "exit 0", "ignores signals": "trap '' TERM INT; sleep 600"}
    identity = sandboxes.start(name, command.get(state, "sleep 600"), restart_policy=restart)
    if state == "paused":
        sandboxes.client.api.pause(identity)
    here.expect(name, time.time() - 1)
    until(lambda: not sandboxes.left(), 15)


def test_a_network_goes_after_its_container(owner: Owner, sandboxes: Sandboxes) -> None:
    name = sandboxes.name(1)
    owner.call("expect", name, time.time() + DAY)
    network = sandboxes.client.networks.create(name, labels=labels_of(name), internal=True)
    owner.call("network", name, network.id)
    identity = sandboxes.start(name, network_mode=name)
    owner.call("have", name, identity)
    owner.kill()
    until(lambda: not sandboxes.left() and not sandboxes.networks(), 15)


def test_a_network_that_the_reaper_was_never_told_of(owner: Owner, sandboxes: Sandboxes) -> None:
    name = sandboxes.name(1)
    owner.call("expect", name, time.time() + DAY)
    sandboxes.client.networks.create(name, labels=labels_of(name), internal=True)
    owner.kill()
    until(lambda: not sandboxes.networks(), 15)


MANY = "mkdir /m; i=0; while [ $i -lt 300 ]; do dd if=/dev/zero of=/m/$i bs=20k count=1; i=$((i+1)); done"


@pytest.mark.parametrize("command", ["dd if=/dev/zero of=/big bs=1M count=8", MANY], ids=["one big file", "many files"])
def test_over_the_disk_cap(here: Reaper, sandboxes: Sandboxes, command: str) -> None:
    capped, other = sandboxes.name(1), sandboxes.name(2)
    for name, script in ((capped, f"{command}; sleep 600"), (other, "echo x > /small; sleep 600")):
        here.expect(name, time.time() + DAY)
        here.have(name, sandboxes.create(name, script))
        here.disk(name, 4 * 1024 * 1024)
        here.busy(name, True)
        sandboxes.client.containers.get(name).start()
    until(lambda: sandboxes.left() == [other], 30)
    assert here.status(capped) == "disk_mb"
    assert here.status(other) is None
