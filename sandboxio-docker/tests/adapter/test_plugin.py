"""The entry point is light, and leads to a backend that keeps its word."""

import importlib.metadata
import subprocess
import sys
from typing import Any

import pytest
from sandboxio.errors import BackendUnavailable, ConfigurationError, ConnectError, RateLimitError, SandboxGone
from sandboxio.port import PORT, Backend, PreparesTemplate
from sandboxio_docker import plugin
from sandboxio_docker.backend import DockerBackend
from sandboxio_docker.config import DockerConfig
from sandboxio_docker.errors import is_gone
from sandboxio_docker.info import INFO
from sandboxio_docker.reaper import ReaperUnavailable
from sandboxio_docker.wire import EngineAnswer


def test_the_entry_point_is_the_scheme() -> None:
    (found,) = importlib.metadata.entry_points(group="sandboxio.backends", name="docker")
    assert found.load() is plugin
    assert plugin.sandboxio_backend_info() is INFO
    assert INFO.name == "docker"
    assert INFO.port == PORT
    assert INFO.baseline.assumed


def test_loading_it_loads_neither_the_sdk_nor_pydantic() -> None:
    show = "import sys, sandboxio_docker.plugin; print(sorted({'docker', 'pydantic', 'requests'} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", show], text=True) == "[]\n"


def test_it_makes_a_backend_without_any_traffic() -> None:
    backend: Backend = plugin.sandboxio_make_backend(DockerConfig(host="unix:///nonexistent.sock"))
    assert isinstance(backend, DockerBackend)
    assert isinstance(backend, PreparesTemplate)


@pytest.mark.parametrize("field", ["memory", "volumes", "privileged"])
def test_an_unknown_field_of_the_configuration_is_refused(field: str) -> None:
    unknown: dict[str, Any] = {field: "x"}
    with pytest.raises(ConfigurationError, match=field) as caught:
        DockerConfig(**unknown)
    assert "template, host, accept_vsock, capabilities, user, read_only, runtime, network_pool" in caught.value.hint


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (EngineAnswer(404, "No such container: c"), SandboxGone),
        (EngineAnswer(409, "Container c is not running"), SandboxGone),
        (EngineAnswer(409, "Container c is paused, unpause the container before exec"), ConnectError),
        (EngineAnswer(429, "toomanyrequests"), RateLimitError),
        (EngineAnswer(503, "starting"), BackendUnavailable),
        (ConnectionRefusedError(111, "Connection refused"), BackendUnavailable),
        (PermissionError(13, "Permission denied"), BackendUnavailable),
        (ReaperUnavailable("killed"), BackendUnavailable),
    ],
)
def test_what_the_engine_says_is_translated(error: Exception, expected: type[Exception]) -> None:
    mapped = DockerBackend(DockerConfig(host="unix:///nonexistent.sock")).map_error(error)
    assert type(mapped) is expected


def test_an_error_of_nobodys_is_left_alone() -> None:
    assert DockerBackend(DockerConfig(host="unix:///nonexistent.sock")).map_error(KeyError("x")) is None


@pytest.mark.parametrize(
    ("status", "message", "gone"),
    [
        (404, "No such container: c", True),
        (409, "removal of container c is already in progress", True),
        (409, "Container c is paused", False),
        (409, "Container c is not running", False),
        (500, "No such container", False),
    ],
)
def test_only_missing_and_going_are_gone(status: int, message: str, gone: bool) -> None:
    assert is_gone(EngineAnswer(status, message)) is gone
