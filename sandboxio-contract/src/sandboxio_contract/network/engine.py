"""The Docker engine that references are made on: how it is reached, what its errors mean, and what is removed from it.

The `docker` SDK is a third party's; it is imported when an engine is first asked.
"""

import contextlib
import os
import socket
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, cast

from sandboxio_contract.network.reason import NotProvable

if TYPE_CHECKING:
    from docker.client import DockerClient

LABEL = "io.sandboxio.contract"
"""What everything carries that is made here."""
SECONDS = 60
"""Seconds that the engine has for an answer."""


def remove_leftovers(run: str = "", base_url: str | None = None) -> None:
    """Remove containers and networks that a run, or any run, left on the engine.

    :raises NotProvable: with code `engine`, if none can be asked.
    """
    client = connect(base_url)
    try:
        with engine_errors("leftovers could not be removed"):
            remove(client, f"{LABEL}={run}" if run else LABEL)
    finally:
        client.close()


def connect(base_url: str | None) -> "DockerClient":
    """Return a client of the engine, which has to be on this machine.

    :raises NotProvable: with code `engine`: no SDK, no engine, or one elsewhere.
    """
    try:
        import docker
    except ImportError as error:
        raise NotProvable("engine", "the docker SDK is not installed, so no reference container can be made") from error
    where = base_url or os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    _answers(where)
    with engine_errors("no Docker engine answers"):
        return docker.DockerClient(base_url=where, timeout=SECONDS)


def _answers(where: str) -> None:
    """Connect once without the SDK, which leaks a socket where nobody listens."""
    if not where.startswith("unix://"):
        raise NotProvable("engine", f"the engine at {where} is not on this machine, so its containers can't be guarded")
    with socket.socket(socket.AF_UNIX) as trial:
        try:
            trial.connect(where.removeprefix("unix://"))
        except OSError as error:
            raise NotProvable("engine", f"no Docker engine answers at {where}: {error.strerror}") from error


def remove(client: "DockerClient", label: str) -> None:
    """Remove the containers and networks that carry a label; what goes meanwhile is gone."""
    # By the low-level interface: the other one inspects each item, and stumbles over those that go meanwhile.
    api: Any = client.api
    filters = {"label": label}
    for container in cast("list[dict[str, str]]", api.containers(all=True, filters=filters)):
        with _already_gone():
            api.remove_container(container["Id"], force=True, v=True)
    for network in cast("list[dict[str, str]]", api.networks(filters=filters)):
        with _already_gone():
            api.remove_network(network["Id"])


@contextlib.contextmanager
def _already_gone() -> Generator[None]:
    from docker.errors import NotFound

    try:
        yield
    except NotFound as error:
        _let_go(error)


@contextlib.contextmanager
def engine_errors(what: str) -> Generator[None]:
    """Around calls of the engine: what goes wrong there proves nothing."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except (DockerException, RequestException) as error:
        _let_go(error)
        raise NotProvable("engine", f"{what}: {error}") from error


def _let_go(error: Exception) -> None:
    """Close the answer that an exception of the SDK holds; else its connection is never given back."""
    answer: Any = getattr(error, "response", None)
    if answer is not None:
        answer.close()
