"""One attempt to destroy what one claim names: the container, then its networks.

Nothing is removed that doesn't carry our labels: a name can be taken by somebody else's container.
"""

import json
from dataclasses import dataclass
from enum import Enum

from .engine_http import Engine, EngineSlow, EngineVanished, quote
from .http_answer import Answer, EngineAway
from .messages import CREATE_ID_LABEL, MANAGED_LABEL, Claim, json_array, json_object

READ_S = 10.0
REMOVE_S = 30.0  # a full writable layer took 9 to 23 s to delete


class Outcome(Enum):
    """How one attempt ended."""

    GONE = "gone"  # the container that the claim knows is gone, its networks too
    ABSENT = "absent"  # there is no container of that name now; a create request may still commit
    PENDING = "pending"  # under way: look again soon
    REFUSED = "refused"  # the engine answered with an error
    AWAY = "away"  # the engine didn't answer
    VANISHED = "vanished"  # nor is there a place where it could answer again


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome, and the id of the container if one of ours was seen under the claim's name."""

    outcome: Outcome
    container: str | None = None


class _Refused(Exception):
    """The engine answered with a status that no step expects."""


def attempt(engine: Engine, claim: Claim) -> Result:
    """Destroy the claim's container if there is one, then its networks; never raises for what the engine does."""
    container = claim.container
    try:
        found = _find(engine, claim)
        if found is not None:
            container = found
            if not _remove(engine, f"/containers/{found}?force=1&v=1"):
                return Result(Outcome.PENDING, container)
        if not _remove_networks(engine, claim):
            return Result(Outcome.PENDING, container)
    except EngineVanished:
        return Result(Outcome.VANISHED, container)
    except EngineAway:
        return Result(Outcome.AWAY, container)
    except (_Refused, ValueError):  # an error, or an answer of another shape
        return Result(Outcome.REFUSED, container)
    return Result(Outcome.ABSENT if container is None else Outcome.GONE, container)


def _find(engine: Engine, claim: Claim) -> str | None:
    # By its id once it is known; by name else. The engine takes a name's place by an id's beginning too: labels decide.
    answer = engine.request("GET", f"/containers/{claim.container or claim.name}/json", READ_S)
    if answer.status == 404:
        return None
    inspected = _object(_expect_ok(answer).json())
    labels = _object(_object(inspected.get("Config")).get("Labels"))
    container = inspected.get("Id")
    if MANAGED_LABEL not in labels or labels.get(CREATE_ID_LABEL) != claim.name or not isinstance(container, str):
        return None
    return container


def _remove(engine: Engine, path: str) -> bool:
    # True = it is gone for certain.
    try:
        answer = engine.request("DELETE", path, REMOVE_S)
    except EngineSlow:
        return False  # the engine is at it; whether it has succeeded the next attempt sees
    if answer.status in (403, 409):  # removal already in progress; network with active endpoints
        return False
    if answer.status != 404:
        _expect_ok(answer)
    return True


def _remove_networks(engine: Engine, claim: Claim) -> bool:
    ours = _networks_by_label(engine, claim.name)
    ours += [told for told in claim.networks if told not in ours and _is_managed_network(engine, told)]
    gone = [_remove(engine, f"/networks/{network}") for network in ours]  # try each, whatever the others do
    return all(gone)


def _networks_by_label(engine: Engine, name: str) -> list[str]:
    # Also those whose create request committed after the owner had ended.
    filters = json.dumps({"label": [f"{CREATE_ID_LABEL}={name}"]})
    answer = engine.request("GET", f"/networks?filters={quote(filters)}", READ_S)
    found: list[str] = []
    for entry in json_array(_expect_ok(answer).json()):
        network = _object(entry)
        labels = _object(network.get("Labels"))
        identity = network.get("Id")
        if MANAGED_LABEL in labels and labels.get(CREATE_ID_LABEL) == name and isinstance(identity, str):
            found.append(identity)
    return found


def _is_managed_network(engine: Engine, network: str) -> bool:
    answer = engine.request("GET", f"/networks/{network}", READ_S)
    if answer.status == 404:
        return False
    return MANAGED_LABEL in _object(_object(_expect_ok(answer).json()).get("Labels"))


def layer_size(engine: Engine, container: str, timeout: float) -> int:
    """Return how many bytes the container's writable layer holds; 0 if it doesn't exist.

    :raises EngineSlow: not measured within ``timeout`` seconds.
    :raises EngineAway: the engine doesn't answer, or with an error.
    """
    answer = engine.request("GET", f"/containers/{container}/json?size=1", timeout)
    if answer.status == 404:
        return 0
    if not answer.ok:
        problem = f"status {answer.status}"
        raise EngineAway(problem)
    size = _object(answer.json()).get("SizeRw", 0)  # left out where nothing was written
    return size if isinstance(size, int) else 0


def is_alone(engine: Engine, container: str) -> bool:
    """Return whether the engine's host sees no process in the container besides the first; false if it can't tell."""
    try:
        answer = engine.request("GET", f"/containers/{container}/top?ps_args=-eo%20pid", READ_S)
        return answer.ok and len(json_array(_object(answer.json()).get("Processes"))) == 1
    except (EngineAway, ValueError):
        return False


def answers(engine: Engine, container: str) -> bool:
    """Return whether the engine answers a plain question about the container."""
    try:
        engine.request("GET", f"/containers/{container}/json", READ_S)
    except EngineAway:
        return False
    return True


def _expect_ok(answer: Answer) -> Answer:
    if not answer.ok:
        raise _Refused(answer.status)
    return answer


def _object(value: object) -> dict[str, object]:
    # The engine leaves out or sends null for what is empty.
    return json_object(value) if value is not None else {}
