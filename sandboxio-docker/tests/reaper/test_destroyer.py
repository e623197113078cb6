"""One attempt: what is asked of the engine, in which order, and what each answer means."""

from dataclasses import replace

import pytest
from sandboxio_docker.reaper.destroyer import Outcome, Result, attempt, layer_size
from sandboxio_docker.reaper.engine_http import Engine, Where
from sandboxio_docker.reaper.http_answer import EngineAway
from sandboxio_docker.reaper.messages import Claim

from .fake_engine import FakeEngine

CLAIM = Claim("sbx-1", 0.0)


@pytest.fixture
def client(engine: FakeEngine) -> Engine:
    return Engine(Where(path=str(engine.path)))


def deletes(engine: FakeEngine) -> list[str]:
    return [path for method, path in engine.log if method == "DELETE"]


def test_a_known_container_is_destroyed_by_its_id(engine: FakeEngine, client: Engine) -> None:
    container = engine.create("sbx-1")
    assert attempt(client, replace(CLAIM, container=container)) == Result(Outcome.GONE, container)
    assert engine.log[0] == ("GET", f"/containers/{container}/json")
    assert deletes(engine) == [f"/containers/{container}?force=1&v=1"]


def test_an_unknown_container_is_found_by_name_and_destroyed_by_its_id(engine: FakeEngine, client: Engine) -> None:
    container = engine.create("sbx-1")
    assert attempt(client, CLAIM) == Result(Outcome.GONE, container)
    assert deletes(engine) == [f"/containers/{container}?force=1&v=1"]


def test_no_container_yet(engine: FakeEngine, client: Engine) -> None:
    assert attempt(client, CLAIM) == Result(Outcome.ABSENT)
    assert deletes(engine) == []


def test_a_known_container_that_is_gone(engine: FakeEngine, client: Engine) -> None:
    assert attempt(client, replace(CLAIM, container="c1")) == Result(Outcome.GONE, "c1")
    assert deletes(engine) == []


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"io.sandboxio.managed": "1"},
        {"io.sandboxio.create-id": "sbx-1"},
        {"io.sandboxio.managed": "1", "io.sandboxio.create-id": "sbx-10"},
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_without_both_labels_nothing_is_touched(
    engine: FakeEngine, client: Engine, labels: dict[str, str], known: bool
) -> None:
    container = engine.create("sbx-1", labels)
    engine.create_network("sbx-1", labels=labels)
    result = attempt(client, replace(CLAIM, container=container) if known else CLAIM)
    assert result.outcome is (Outcome.GONE if known else Outcome.ABSENT)
    assert deletes(engine) == []


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (204, Outcome.GONE),
        (200, Outcome.GONE),
        (404, Outcome.GONE),
        (409, Outcome.PENDING),
        (500, Outcome.REFUSED),
        (400, Outcome.REFUSED),
        (0, Outcome.AWAY),
    ],
)
def test_what_the_answer_to_a_removal_means(engine: FakeEngine, client: Engine, status: int, outcome: Outcome) -> None:
    container = engine.create("sbx-1")
    engine.script("DELETE", "/containers/", status)
    assert attempt(client, CLAIM) == Result(outcome, container)


@pytest.mark.parametrize(("status", "outcome"), [(500, Outcome.REFUSED), (0, Outcome.AWAY)])
def test_no_inspection_no_removal(engine: FakeEngine, client: Engine, status: int, outcome: Outcome) -> None:
    engine.create("sbx-1")
    engine.script("GET", "/containers/", status)
    assert attempt(client, CLAIM) == Result(outcome)
    assert deletes(engine) == []


def test_a_removal_that_takes_too_long_is_under_way(
    engine: FakeEngine, client: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    container = engine.create("sbx-1")
    monkeypatch.setattr("sandboxio_docker.reaper.destroyer.REMOVE_S", 0.0)
    assert attempt(client, CLAIM) == Result(Outcome.PENDING, container)


def test_networks_wait_for_their_container(engine: FakeEngine, client: Engine) -> None:
    container = engine.create("sbx-1")
    engine.create_network("sbx-1", container)
    engine.script("DELETE", "/containers/", 409)
    assert attempt(client, CLAIM).outcome is Outcome.PENDING
    assert not any(path.startswith("/networks") for path in deletes(engine))


def test_one_busy_network_does_not_keep_the_others(engine: FakeEngine, client: Engine) -> None:
    engine.create_network("sbx-1")
    engine.create_network("sbx-1")
    engine.script("DELETE", "/networks/", 403)
    assert attempt(client, replace(CLAIM, container="c1")).outcome is Outcome.PENDING
    assert len(engine.networks) == 1
    assert attempt(client, replace(CLAIM, container="c1")).outcome is Outcome.GONE
    assert not engine.networks


def test_a_network_that_was_told_needs_only_our_label(engine: FakeEngine, client: Engine) -> None:
    told = engine.create_network("sbx-1", labels={"io.sandboxio.managed": "1"})
    claim = replace(CLAIM, container="c1", networks=(told, "gone"))
    assert attempt(client, claim).outcome is Outcome.GONE
    assert not engine.networks


def test_the_size_of_a_layer(engine: FakeEngine, client: Engine) -> None:
    container = engine.create("sbx-1", size=12_345)
    assert layer_size(client, container, 5) == 12_345
    assert engine.log == [("GET", f"/containers/{container}/json?size=1")]
    assert layer_size(client, "gone", 5) == 0
    engine.script("GET", "/containers/", 500)
    with pytest.raises(EngineAway, match="status 500"):
        layer_size(client, container, 5)
