"""What the repository's own files promise each other."""

import configparser
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ADAPTERS = sorted(path.parent for path in ROOT.glob("sandboxio-*/tox.ini"))


RUNNERS = ["Makefile", "noxfile.py", "tox.ini"]


@pytest.mark.parametrize("runner", [*RUNNERS, *(f"{path.name}/tox.ini" for path in ADAPTERS)])
def test_a_runner_stays_short(runner: str) -> None:
    assert len((ROOT / runner).read_text().splitlines()) < 150


def test_every_distribution_is_installed_tested_and_checked() -> None:
    names = {path.parent.name for path in ROOT.glob("sandboxio-*/pyproject.toml")}
    packages = {path.parent.name for path in ROOT.glob("sandboxio-*/src/*/py.typed")}
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert {f"{name}/tests" for name in names} <= set(settings["pytest"]["ini_options"]["testpaths"])
    assert {f"{name}/{part}" for name in names for part in ("src", "tests")} <= set(settings["pyright"]["include"])
    assert packages == set(settings["coverage"]["run"]["source_pkgs"])
    assert packages == set(settings["importlinter"]["root_packages"])
    for runner in RUNNERS:
        assert names <= set(re.findall(r"sandboxio-\w+", (ROOT / runner).read_text())), runner


@pytest.mark.parametrize("folder", ADAPTERS, ids=lambda folder: folder.name)
def test_the_tox_file_of_an_adapter_names_nothing_of_that_adapter(folder: Path) -> None:
    """A third party copies it as it is."""
    text = (folder / "tox.ini").read_text()
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.read_string(text)
    assert "testenv" in parsed
    assert not re.search(rf"{folder.name}|{folder.name.replace('-', '_')}", text)


def test_the_readme_says_how_to_run_the_tests() -> None:
    section = (ROOT / "README.md").read_text().split("\n## Tests\n")[1].split("\n## ")[0]
    assert re.search(r"^make test$", section, re.MULTILINE)
