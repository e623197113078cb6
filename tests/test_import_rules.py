"""Core knows no adapter, adapters do not know each other or the contract, the contract knows no adapter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("sandboxio", "sandboxio_docker", "sandboxio_bubblewrap", "sandboxio_e2b", "sandboxio_contract")


def lint_imports(path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Check the repository's rules; with `path`, on the packages found there."""
    program = Path(sys.executable).with_name("lint-imports")
    environ = os.environ | {"PYTHONPATH": str(path or "")}
    command = [str(program), "--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    return subprocess.run(command, cwd=path or ROOT, env=environ, capture_output=True, text=True, check=False)


def test_the_rules_hold() -> None:
    checked = lint_imports()
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("sandboxio", "sandboxio_docker"),
        ("sandboxio", "sandboxio_contract"),
        ("sandboxio", "docker"),
        ("sandboxio_docker", "sandboxio_contract"),
        ("sandboxio_docker", "sandboxio_bubblewrap"),
        ("sandboxio_bubblewrap", "sandboxio_docker"),
        ("sandboxio_docker", "sandboxio_e2b"),
        ("sandboxio_e2b", "sandboxio_contract"),
        ("sandboxio_e2b", "sandboxio_docker"),
        ("sandboxio_contract", "sandboxio_docker"),
        ("sandboxio_contract", "sandboxio_e2b"),
    ],
)
def test_the_rules_convict_one_forbidden_import(tmp_path: Path, package: str, forbidden: str) -> None:
    for name in PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    control = lint_imports(tmp_path)
    assert control.returncode == 0, control.stdout
    (tmp_path / package / "__init__.py").write_text(f"import {forbidden}\n")
    convicted = lint_imports(tmp_path)
    assert convicted.returncode == 1
    assert f"{package} -> {forbidden}" in convicted.stdout
