"""Docker tests run where an engine with the test images answers, and say loudly where none does.

`SANDBOXIO_REQUIRE=docker` turns "not run" into a failure.
"""

import os

import pytest

from engine import daemon, images, registry
from engine.settings import Settings

NOT_RUN = pytest.StashKey[str]()


def pytest_configure() -> None:
    """Let tests, and what they start, find the programs that `make engine` fetched."""
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Settings.from_environment().tools)])


@pytest.hookimpl(trylast=True)  # after -m and -k have chosen
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("docker") or item.get_closest_marker("network"):
            item.add_marker("enable_socket")
    docker_items = [item for item in items if item.get_closest_marker("docker")]
    missing = what_is_missing() if docker_items else None
    if not missing:
        return
    line = f"NOT RUN: {len(docker_items)} Docker tests ({missing})"
    if "docker" in os.environ.get("SANDBOXIO_REQUIRE", "").replace(",", " ").split():
        raise pytest.UsageError(f"{line}, and SANDBOXIO_REQUIRE names docker")
    config.stash[NOT_RUN] = line
    config.hook.pytest_deselected(items=docker_items)
    items[:] = [item for item in items if item not in docker_items]


def pytest_terminal_summary(terminalreporter: "pytest.TerminalReporter", config: pytest.Config) -> None:
    line = config.stash.get(NOT_RUN, None)
    if line:
        terminalreporter.write_line(line, red=True, bold=True)


def what_is_missing() -> str | None:
    """Say why Docker tests cannot run here, or `None` where they can."""
    settings = Settings.from_environment()
    host = settings.host
    if not daemon.answers():
        return f"no engine answered at {host}; `make engine` starts one"
    outdated = images.outdated()
    if outdated:
        names = " ".join(image.name for image in outdated)
        return f"the engine at {host} lacks {names}; `make engine` builds them"
    if registry.missing(settings):
        return "there is no docker-registry; `make engine` fetches it"
    return None
