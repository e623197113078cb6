"""Make and unmake containers: synchronous, on a worker thread, the reaper told before anything can exist."""

import io
import re
import tarfile
import threading
import time
from collections.abc import Mapping
from copy import deepcopy
from ipaddress import IPv4Network
from typing import Any

from docker.errors import APIError, NotFound
from sandboxio.errors import ConfigurationError, CreationError, PolicyNotEnforced
from sandboxio.planning import Plan

from sandboxio_docker import labels, networks
from sandboxio_docker.engine import Made, Register
from sandboxio_docker.errors import answer_of, is_gone
from sandboxio_docker.hardening import WORK
from sandboxio_docker.reaper import Reaper, ReaperUnavailable
from sandboxio_docker.sdk import Json, Sdk

OVERDUE = 5.0
"""Seconds past its expiry after which a sandbox is a leftover: until then its owner or its reaper is at it."""

_CAP_WARNING = re.compile(r"discard|limit|not support|cgroup|swap|quota|seccomp|privileg", re.IGNORECASE)


class Abandoned(Exception):
    """Nobody waits for this creation any more."""


def make(client: Sdk, reaper: Reaper, register: Register, plan: Plan, abandoned: threading.Event) -> str:
    """Create the container of a plan, not started, and return its id.

    :param abandoned: set, and then the name condemned, by whoever stops waiting.
    :raises PolicyNotEnforced: the engine warns that it drops a cap.
    :raises CreationError: no reaper runs here, so nothing would end the sandbox if this process died.
    """
    name, parameters = plan.create_id, plan.parameters
    expires_at = time.time() + plan.spec.timeout
    body: Json = deepcopy(dict(parameters["container"]))  # type: ignore[call-overload]
    body["Labels"][labels.EXPIRES] = f"{expires_at:.3f}"
    try:
        if register.swept.acquire(blocking=False):
            sweep(client, reaper)
        reaper.expect(name, expires_at)
        if abandoned.is_set():
            # It was condemned before we announced it: condemn it again. Set later, it is condemned after us.
            condemn(reaper, name)
            raise Abandoned(name)
        if isinstance(parameters["watch_disk_bytes"], int):
            reaper.disk(name, parameters["watch_disk_bytes"], speaks=parameters["transport"] == "agent")
        if parameters["network"]:
            reaper.network(name, _network(client, plan, body["Labels"]))
            body["HostConfig"]["NetworkMode"] = name
        answer: Mapping[str, Any] = client.create_container_from_config(body, name)
        register.made[answer["Id"]] = Made(name, expires_at, bool(parameters["network"]))
        reaper.have(name, answer["Id"])
        if parameters["make_workdir"]:
            client.put_archive(answer["Id"], "/", _folder_for_anybody(WORK))
    except ReaperUnavailable as error:
        raise CreationError(
            f"the host-side reaper can't be armed, so a crash of this process would leave the sandbox behind: {error}",
            hint="see why a Python child process can't be started or killed here",
        ) from error
    _refuse_warnings(answer.get("Warnings") or ())
    return str(answer["Id"])


def _network(client: Sdk, plan: Plan, carried: Mapping[str, str]) -> str:
    pool = plan.parameters["network_pool"]
    if not isinstance(pool, str):
        return networks.make(client, plan.create_id, carried)
    is_local = bool(plan.parameters["engine_is_local"])
    return networks.make_from(client, plan.create_id, carried, IPv4Network(pool), is_local=is_local)


def _folder_for_anybody(path: str) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        folder = tarfile.TarInfo(path.lstrip("/"))
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
        archive.addfile(folder)
    return held.getvalue()


def _refuse_warnings(warnings: list[str] | tuple[str, ...]) -> None:
    # The engine creates the container all the same and only warns (docker/docs #9340): a dropped cap is no cap.
    dropped = [warning for warning in warnings if _CAP_WARNING.search(warning)]
    if dropped:
        raise PolicyNotEnforced(
            f"the Docker engine does not apply what was asked for: {'; '.join(dropped)}",
            hint="use an engine whose control groups support it",
        )


def condemn(reaper: Reaper, name: str) -> None:
    """Have whatever carries this name now, or gets it later, destroyed by the reaper."""
    reaper.expect(name, time.time() - 1)


def sweep(client: Sdk, reaper: Reaper) -> None:
    """Have what earlier owners left behind past its expiry removed; once per engine and process.

    The reaper does the work: removing a pile of leftovers must not delay the first sandbox.
    """
    alive: set[str] = set()
    for summary in client.containers(all=True, filters=labels.filters()):
        name = str(summary["Names"][0]).removeprefix("/")
        alive.add(name)
        if labels.is_ours(summary["Labels"], name) and _overdue(summary["Labels"]):
            condemn(reaper, name)
            reaper.have(name, summary["Id"])
    for network in networks.ours(client):
        if network["Name"] not in alive and _overdue(network["Labels"]):
            networks.remove_by_id(client, network["Id"])


def _overdue(carried: Mapping[str, str]) -> bool:
    expires_at = labels.expiry_of(carried)
    return expires_at is not None and time.time() > expires_at + OVERDUE


def unmake(client: Sdk, reaper: Reaper, register: Register, ident: str) -> None:
    """Destroy a container of ours by full id or name, and its network; gone already is success.

    :raises ConfigurationError: it is not ours.
    """
    made = register.made.get(ident) or _look_up(client, ident)
    if made is None:
        return _remove_lone_network(client, ident)
    try:
        client.remove_container(ident, v=True, force=True)
        if made.has_network:
            networks.remove(client, made.name)
    except APIError as error:
        if not is_gone(error) and not _is_busy_network(error):
            raise
        if made.has_network:
            # Its network can go only when the container is gone for good: the reaper waits for that.
            condemn(reaper, made.name)
            return None
    reaper.forget(made.name)
    register.made.pop(ident, None)
    return None


def _is_busy_network(error: APIError) -> bool:
    return "has active endpoints" in (answer_of(error) or (0, ""))[1]


def _look_up(client: Sdk, ident: str) -> Made | None:
    try:
        answer: Mapping[str, Any] = client.inspect_container(ident)
    except NotFound:
        return None
    carried: Mapping[str, str] = answer["Config"].get("Labels") or {}
    name = str(answer["Name"]).removeprefix("/")
    # The engine takes an id's beginning for the id; we never do: it could be another's sandbox.
    if not labels.is_ours(carried, name) or ident not in (answer["Id"], name):
        raise ConfigurationError(
            f"{ident!r} is no sandbox of sandboxio", hint="pass the full id, as list_managed() shows it"
        )
    return Made(name, labels.expiry_of(carried) or 0.0, answer["HostConfig"]["NetworkMode"] == name)


def _remove_lone_network(client: Sdk, ident: str) -> None:
    """Remove a network whose container is gone; `list` names it by its own id, or its name is the sandbox's."""
    for network in networks.ours(client):
        if ident in (network["Id"], network["Name"]):
            networks.remove_by_id(client, network["Id"])
