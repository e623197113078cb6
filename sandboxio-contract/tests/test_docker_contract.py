"""The whole contract on a real engine: nothing violated, nothing silent, deny proven in each of its forms."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import docker
import pytest

pytestmark = [pytest.mark.docker, pytest.mark.network]

TARGET = "docker://sandboxio-test/python"
TOLD = ("proven", "refused", "proven with residual", "not-provable", "violated", "not applicable")
OF_OTHERS = {"CAP-06", "SEC-05", "NET-07", "SEC-03", "TEN-03"}
"""Rules about backends whose caps belong to a template, that need credentials, count what they block, or have a broker or storage."""
DENIED = (
    "tcp4-80",
    "tcp6-80",
    "udp4",
    "udp6",
    "dns4-udp",
    "dns-lookup",
    "dns-configured",
    "metadata",
    "gateway",
    "neighbour",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str, int]:
    folder = tmp_path_factory.mktemp("contract")
    path = folder / "conformance.json"
    command = [sys.executable, "-m", "pytest", "-p", "sandboxio_contract", "--sandboxio-target", TARGET]
    done = subprocess.run(
        [*command, "--sandboxio-report", str(path)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )
    assert path.exists(), done.stdout + done.stderr
    return json.loads(Path(path).read_text()), done.stdout, done.returncode


def test_no_row_is_violated(run: tuple[dict[str, Any], str, int]) -> None:
    data, output, code = run
    assert [name for name, entry in data["requirements"].items() if entry["verdict"] == "violated"] == [], output
    assert code == 0, output


def test_nothing_is_skipped_in_silence(run: tuple[dict[str, Any], str, int]) -> None:
    data, output, _ = run
    for name, entry in data["requirements"].items():
        assert f"\n{name} " in output
        for row in entry["rows"]:
            assert row["evidence"], row
            assert row["verdict"] in TOLD, row
    assert " skipped" not in output


def test_nothing_of_the_suite_itself_is_left(run: tuple[dict[str, Any], str, int]) -> None:
    """References, listeners and controls carry the suite's label; those of a run that goes on elsewhere have not exited."""
    client = docker.from_env()
    try:
        wanted: dict[str, str | list[str] | bool] = {"label": "io.sandboxio.contract", "status": "exited"}
        end = time.monotonic() + 10
        # A probe of such a run has exited for a moment before it is removed.
        while (left := client.containers.list(all=True, filters=wanted)) and time.monotonic() < end:
            time.sleep(0.5)
        assert left == []
    finally:
        client.close()


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_deny_is_proven_for_every_kind_of_target(run: tuple[dict[str, Any], str, int], loop: str) -> None:
    rows = run[0]["requirements"]["NET-02"]["rows"]
    (row,) = [one for one in rows if one["loop"] == loop]
    parts = {part["name"]: part["verdict"] for part in row["parts"]}
    assert {name: parts.get(name) for name in DENIED} == dict.fromkeys(DENIED, "proven")


def test_what_can_be_judged_by_now_is_proven(run: tuple[dict[str, Any], str, int]) -> None:
    verdicts = {name: entry["verdict"] for name, entry in run[0]["requirements"].items()}
    assert {name for name, verdict in verdicts.items() if verdict == "not applicable"} == OF_OTHERS
    good = ("proven", "refused", "not built", "not applicable")
    assert {name: verdict for name, verdict in verdicts.items() if verdict not in good} == {}


def test_an_image_without_python_is_judged_from_beside(tmp_path: Path) -> None:
    """The exec transport ends the sandbox with a command, and its deny has a hole that only the receipt names."""
    path = tmp_path / "conformance.json"
    judged = ("NET-02", "NET-13", "TMO-04", "TMO-06", "CAP-04", "RUN-04", "RUN-05", "STR-02")
    command = [sys.executable, "-m", "pytest", "-p", "sandboxio_contract"]
    command += ["--sandboxio-target", "docker://sandboxio-test/busybox?accept_vsock=1"]
    command += [word for one in judged for word in ("--sandboxio-only", one)]
    done = subprocess.run(
        [*command, "--sandboxio-report", str(path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    data = json.loads(path.read_text())
    verdicts = {name: data["requirements"][name]["verdict"] for name in judged}
    assert verdicts.pop("NET-02") == "proven with residual", done.stdout
    assert verdicts.pop("TMO-06") == "proven with residual", done.stdout
    assert set(verdicts.values()) <= {"proven", "refused"}, done.stdout
    assert done.returncode == 0, done.stdout
    parts = data["requirements"]["NET-02"]["rows"][0]["parts"]
    assert [part["name"] for part in parts if part["verdict"] == "proven with residual"] == ["vsock"]


@pytest.mark.parametrize("image", ["static?accept_vsock=1", "busybox"])
def test_what_cannot_be_told_is_neither_a_pass_nor_a_conviction(tmp_path: Path, image: str) -> None:
    """An image without a shell, and one whose default sandbox is refused."""
    path = tmp_path / "conformance.json"
    command = [sys.executable, "-m", "pytest", "-p", "sandboxio_contract", "--sandboxio-report", str(path)]
    judged = ("RUN-01", "RUN-02", "FIL-01", "TRD-03", "TEN-01", "ISO-06")
    command += [word for one in judged for word in ("--sandboxio-only", one)]
    done = subprocess.run(
        [*command, "--sandboxio-target", f"docker://sandboxio-test/{image}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    verdicts = {name: json.loads(path.read_text())["requirements"][name]["verdict"] for name in judged}
    assert "violated" not in verdicts.values(), done.stdout
    assert verdicts["RUN-01"] == "not-provable"
    assert "FAILED: RUN-01 has only not-provable rows" in done.stdout
    assert done.returncode == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("target", ["127.0.0.1:1/nothing", "sandboxio-test/python?host=unix:///nowhere/engine.sock"])
def test_without_an_image_or_an_engine_nothing_is_judged(tmp_path: Path, target: str) -> None:
    path = tmp_path / "conformance.json"
    command = [sys.executable, "-m", "pytest", "-p", "sandboxio_contract", "--sandboxio-report", str(path)]
    command += ["--sandboxio-only", "RUN-01", "--sandboxio-only", "TRD-01", "--sandboxio-target", f"docker://{target}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    found = json.loads(path.read_text())["requirements"]
    assert [found[name]["verdict"] for name in ("RUN-01", "TRD-01", "TRIO-01")] == ["not run"] * 3, done.stdout
    assert "FAILED: 2 requirements were not run" in done.stdout
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
