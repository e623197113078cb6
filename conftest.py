"""Tests that need an engine or another tool run where it is, and say loudly where it is not.

`SANDBOXIO_REQUIRE=bubblewrap,docker,ssh` turns "not run" into a failure.
"""

import os
import signal
from shutil import which
from typing import Any

import pytest

from engine import daemon, images, registry, ssh
from engine.settings import Settings

SIGNALS: dict[signal.Signals, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGQUIT: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}
OF_THIS_MACHINE = (
    "/network/test_host_canary.py",
    "/network/test_reference.py",
    "/network/test_reference_leftovers.py",
    "/test_adapter_template.py",
)
"""Files whose tests change what this machine has once, its network or its swap, or look at whether it was changed.

In other files such tests have a parameter that begins with ``machine``.
"""
FOLDERS_OF_THIS_MACHINE = ("sandboxio-e2b/", "sandboxio-bubblewrap/", "sandboxio-contract/tests/emulation/")
"""Those all of whose tests may bring up the canaries' network, of which there is one."""
REQUIRED = set(os.environ.get("SANDBOXIO_REQUIRE", "").replace(",", " ").split())
NOT_RUN = pytest.StashKey[list[str]]()


def pytest_configure() -> None:
    """Have tests, and what they start, find the programs that `make engine` fetched, and get signals as anywhere.

    A shell starts what runs in its background with SIGINT and SIGQUIT ignored, nohup with SIGHUP: an interrupt that a
    test sends would never come.
    """
    for number, usual in SIGNALS.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Settings.from_environment().tools)])


def unit_of(nodeid: str) -> str:
    """Return what a test goes to a worker with: its file, whose tests share what is costly, or those that can't go on at once.

    Liars share nothing, the contract's parts have nothing in common with each other, and all of these take long.
    """
    file, _, test = nodeid.partition("::")
    if file.startswith(FOLDERS_OF_THIS_MACHINE) or file.endswith(OF_THIS_MACHINE) or "[machine" in test:
        return "what this machine has once"
    if file.endswith("/test_docker_contract.py"):
        return file + test.partition("[")[2]
    return nodeid if "/liars/" in file else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each worker what belongs together."""
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class ByUnit(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

    return ByUnit(config, log)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Fail at once where workers would otherwise each find that a required tool is missing."""
    if session.config.getoption("numprocesses", None):
        for marker in REQUIRED & set(TOOLS):
            missing = TOOLS[marker][1]()
            if missing:
                raise pytest.UsageError(
                    f"NOT RUN: {TOOLS[marker][0]} tests ({missing}), and SANDBOXIO_REQUIRE names {marker}"
                )


@pytest.hookimpl(trylast=True)  # after -m and -k have chosen
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("docker") or item.get_closest_marker("network"):
            item.add_marker("enable_socket")
    for marker, (name, what_is_missing) in TOOLS.items():
        needing = [item for item in items if item.get_closest_marker(marker)]
        missing = what_is_missing() if needing else None
        if not missing:
            continue
        line = f"NOT RUN: {len(needing)} {name} tests ({missing})"
        if marker in REQUIRED:
            raise pytest.UsageError(f"{line}, and SANDBOXIO_REQUIRE names {marker}")
        config.stash.setdefault(NOT_RUN, []).append(line)
        config.hook.pytest_deselected(items=needing)
        items[:] = [item for item in items if item not in needing]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that started this worker, if it is one, what was not run."""
    told = getattr(session.config, "workeroutput", None)
    if told is not None:
        told["not_run"] = session.config.stash.setdefault(NOT_RUN, [])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker tells; each collects the whole suite, so all tell the same."""
    node.config.stash[NOT_RUN] = getattr(node, "workeroutput", {}).get("not_run", [])


def pytest_terminal_summary(terminalreporter: "pytest.TerminalReporter", config: pytest.Config) -> None:
    for line in config.stash.setdefault(NOT_RUN, []):
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


def what_bubblewrap_lacks() -> str | None:
    """Say why sandboxes of bubblewrap can't be made here, or `None` where they can, as far as a look tells."""
    from sandboxio.errors import BackendUnavailable
    from sandboxio_bubblewrap.cgroups import Homeless, find_home
    from sandboxio_bubblewrap.program import find_program

    try:
        find_program()
    except BackendUnavailable as error:
        return str(error)
    home = find_home(None)
    return home.reason if isinstance(home, Homeless) else None


def what_emulation_lacks() -> str | None:
    """Say why there can be no emulated sandboxes here, or `None` where there can."""
    if os.geteuid() != 0:
        return "they are made by root"
    return next((f"{tool} is not installed" for tool in ("ip", "nft", "nsenter", "unshare") if not which(tool)), None)


TOOLS = {
    "bubblewrap": ("bubblewrap", what_bubblewrap_lacks),
    "docker": ("Docker", what_is_missing),
    "emulated": ("emulation", what_emulation_lacks),
    "ssh": ("ssh", ssh.what_is_missing),
}
"""By marker: the word for its tests, and what says why they can't run."""
