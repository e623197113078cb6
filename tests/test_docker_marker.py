"""Docker tests that cannot run are never skipped in silence."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SUITE = """
import pytest

@pytest.mark.docker
@pytest.mark.parametrize("n", [1, 2])
def test_in_docker(n): ...

def test_elsewhere(): ...
"""


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two Docker tests and another one, and no engine."""
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "engine", tmp_path / "engine")
    (tmp_path / "test_it.py").write_text(SUITE)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-engine.sock")
    monkeypatch.delenv("SANDBOXIO_REQUIRE", raising=False)
    return tmp_path


def run(suite: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "test_it.py", *arguments]
    return subprocess.run(command, cwd=suite, capture_output=True, text=True, check=False)


def test_without_an_engine_one_line_says_what_was_not_run(suite: Path) -> None:
    done = run(suite)
    assert done.returncode == 0
    assert "NOT RUN: 2 Docker tests (no engine answered at unix://" in done.stdout
    assert "1 passed, 2 deselected" in done.stdout


def test_workers_tell_it_once(suite: Path) -> None:
    done = run(suite, "--numprocesses", "2")
    assert done.returncode == 0
    assert done.stdout.count("NOT RUN: 2 Docker tests (no engine answered at unix://") == 1
    assert "1 passed" in done.stdout


@pytest.mark.parametrize("value, workers", [("docker", "0"), ("other, docker", "0"), ("docker", "2")])
def test_a_required_engine_that_is_missing_fails_the_run(
    suite: Path, monkeypatch: pytest.MonkeyPatch, value: str, workers: str
) -> None:
    monkeypatch.setenv("SANDBOXIO_REQUIRE", value)
    done = run(suite, "--numprocesses", workers)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "Docker tests (no engine answered" in done.stderr


def test_a_missing_ssh_server_is_told_and_may_be_required(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (suite / "test_it.py").write_text(SUITE.replace("docker", "ssh"))
    known = (suite / "engine" / "ssh.py").read_text()
    (suite / "engine" / "ssh.py").write_text(known.replace('"sshd":', '"no-such-server":'))
    assert "NOT RUN: 2 ssh tests (no no-such-server here; `make engine`" in run(suite).stdout
    monkeypatch.setenv("SANDBOXIO_REQUIRE", "docker,ssh")
    done = run(suite)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "NOT RUN: 2 ssh tests" in done.stderr


def test_a_run_that_asks_for_no_docker_tests_needs_no_engine(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDBOXIO_REQUIRE", "docker")
    done = run(suite, "-m", "not docker")
    assert done.returncode == 0
    assert "NOT RUN" not in done.stdout
