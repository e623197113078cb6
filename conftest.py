"""Docker tests run where an engine with the test images answers, and say loudly where none does.

`SANDBOXIO_REQUIRE=docker` turns "not run" into a failure.
"""

import os

import docker
import pytest
from docker.errors import DockerException, ImageNotFound
from requests.exceptions import RequestException

PROBE_IMAGE = "sandboxio-test/user"  # the last one `make engine` builds
ENGINE_TIMEOUT = 5
NOT_RUN = pytest.StashKey[str]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("docker") or item.get_closest_marker("network"):
            item.add_marker("enable_socket")
    docker_items = [item for item in items if item.get_closest_marker("docker")]
    if not docker_items:
        return
    missing = what_is_missing()
    if not missing:
        return
    line = f"NOT RUN: {len(docker_items)} Docker tests ({missing})"
    if "docker" in os.environ.get("SANDBOXIO_REQUIRE", "").replace(",", " ").split():
        raise pytest.UsageError(f"{line}, and SANDBOXIO_REQUIRE names docker")
    config.stash[NOT_RUN] = line
    config.hook.pytest_deselected(items=docker_items)
    items[:] = [item for item in items if item not in docker_items]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    line = config.stash.get(NOT_RUN, None)
    if line:
        terminalreporter.write_line(line, red=True, bold=True)


def what_is_missing() -> str | None:
    """Say why Docker tests cannot run here, or `None` where they can."""
    where = os.environ.get("DOCKER_HOST", "the default address")
    try:
        client = docker.from_env(timeout=ENGINE_TIMEOUT)
    except DockerException:
        return f"no engine answered at {where}; `make engine` starts one"
    try:
        client.images.get(PROBE_IMAGE)
    except ImageNotFound:
        return f"the engine at {where} has no test images; `make engine` builds them"
    except (DockerException, RequestException):
        return f"no engine answered at {where}; `make engine` starts one"
    finally:
        client.close()
    return None
