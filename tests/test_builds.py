"""Each distribution builds, and holds what it should and nothing else."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = {
    "sandboxio-core": {"sandboxio", "sandboxio_pytest"},
    "sandboxio-docker": {"sandboxio_docker"},
    "sandboxio-bubblewrap": {"sandboxio_bubblewrap"},
    "sandboxio-e2b": {"sandboxio_e2b"},
    "sandboxio-contract": {"sandboxio_contract"},
}


def build(folder: Path, target: Path) -> tuple[set[str], set[str]]:
    """Return the names in the wheel, and in the sdist below its top folder."""
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(target)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    with zipfile.ZipFile(next(target.glob("*.whl"))) as wheel, tarfile.open(next(target.glob("*.tar.gz"))) as sdist:
        return set(wheel.namelist()), {name.split("/", 1)[1] for name in sdist.getnames()}


@pytest.mark.parametrize("name", MODULES)
def test_a_distribution_holds_its_typed_package_and_the_licence(tmp_path: Path, name: str) -> None:
    wheel, sdist = build(ROOT / name, tmp_path)
    code = {entry for entry in wheel if ".dist-info/" not in entry}
    assert {entry.split("/")[0] for entry in code} == MODULES[name]
    assert {f"{module}/py.typed" for module in MODULES[name]} <= code
    assert any(entry.endswith("licenses/LICENSE") for entry in wheel)
    assert {f"src/{entry}" for entry in code} | {"README.md", "LICENSE", "pyproject.toml"} <= sdist


def test_the_meta_distribution_holds_no_files(tmp_path: Path) -> None:
    wheel, sdist = build(ROOT, tmp_path)
    assert not [entry for entry in wheel if ".dist-info/" not in entry]
    assert sdist == {"pyproject.toml", "README.md", "LICENSE", "PKG-INFO", ".gitignore"}


@pytest.mark.parametrize("name", MODULES)
def test_the_licence_is_the_same_everywhere(name: str) -> None:
    assert (ROOT / name / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
