"""All distributions move in lock-step and pin each other exactly."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
FOLDERS = sorted(path.parent for path in ROOT.glob("sandboxio-*/pyproject.toml"))


def project(folder: Path) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads(Path(folder, "pyproject.toml").read_text())["project"]
    return table


def requirements(folder: Path) -> list[Requirement]:
    table = project(folder)
    optional = [line for lines in table.get("optional-dependencies", {}).values() for line in lines]
    return [Requirement(line) for line in (*table["dependencies"], *optional)]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_each_distribution_has_the_version_of_the_meta_distribution(folder: Path) -> None:
    assert project(folder)["version"] == project(ROOT)["version"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_each_distribution_is_named_like_its_folder(folder: Path) -> None:
    assert project(folder)["name"] == folder.name


@pytest.mark.parametrize("folder", [ROOT, *FOLDERS], ids=lambda folder: folder.name)
def test_siblings_are_pinned_exactly(folder: Path) -> None:
    siblings = [need for need in requirements(folder) if need.name.startswith("sandboxio")]
    assert {str(need.specifier) for need in siblings} <= {f"=={project(ROOT)['version']}"}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_other_dependency_has_a_lower_bound_and_no_upper_one(folder: Path) -> None:
    others = [need for need in requirements(folder) if not need.name.startswith("sandboxio")]
    assert {need.name: [bound.operator for bound in need.specifier] for need in others} == {
        need.name: [">="] for need in others
    }


def test_the_extra_all_names_every_adapter_and_the_contract() -> None:
    extras: dict[str, list[str]] = project(ROOT)["optional-dependencies"]
    named = {"sandboxio-core", *(Requirement(line).name for line in extras["all"])}
    assert named == {folder.name for folder in FOLDERS}
    assert sorted(extras["all"]) == sorted(line for name, lines in extras.items() if name != "all" for line in lines)


def test_no_requirements_file_names_a_distribution_of_ours() -> None:
    for file in ROOT.glob("requirements/*.txt"):
        assert not [line for line in file.read_text().splitlines() if line.startswith("sandboxio")], file
