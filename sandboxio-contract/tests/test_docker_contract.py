"""The whole contract on a real engine: nothing violated, nothing silent, deny proven in each of its forms."""

import json
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import docker
import pytest
from sandboxio_contract.requirements import DERIVED, RULES
from sandboxio_contract.rows import all_rows
from sandboxio_contract.scheduling import NETWORK

pytestmark = [pytest.mark.docker, pytest.mark.network]

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


MACHINE = {"NET-02", "NET-03", "NET-04", "NET-09", "NET-13", "CAP-03"}
"""Requirements judged by what this machine has once: canaries beside its network, swap."""
ENDS = {one for one in RULES if one.startswith(("TMO-", "TRD-", "CON-"))}
SIZES = {one for one in RULES if one.startswith(("CAP-", "FIL-"))} - MACHINE
PARTS = {"machine": MACHINE, "ends": ENDS, "sizes": SIZES, "rest": set(RULES) - MACHINE - ENDS - SIZES - DERIVED}
"""The whole contract, in runs that may go on at once."""

Told = tuple[dict[str, Any], str, int]


def judged(folder: Path, target: str, only: Iterable[str], timeout: int = 600) -> Told:
    """Run the contract as a user would; return its report, what it printed and its exit code."""
    path = folder / "conformance.json"
    command = [sys.executable, "-m", "pytest", "-p", "sandboxio_contract", "--sandboxio-target", f"docker://{target}"]
    command += [word for one in only for word in ("--sandboxio-only", one)]
    done = subprocess.run(
        [*command, "--sandboxio-report", str(path)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert path.exists(), done.stdout + done.stderr
    return json.loads(path.read_text()), done.stdout, done.returncode


@pytest.fixture(scope="module", params=PARTS)
def part(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def run(part: str, tmp_path_factory: pytest.TempPathFactory) -> Told:
    return judged(tmp_path_factory.mktemp("contract"), "sandboxio-test/python", PARTS[part], 1200)


def judgements(run: Told) -> dict[str, Any]:
    """Return what was judged, without what the other parts judge."""
    return {name: entry for name, entry in run[0]["requirements"].items() if entry["rows"] or name in DERIVED}


def test_the_parts_are_the_whole_and_one_has_all_canaries() -> None:
    assert set().union(*PARTS.values()) | DERIVED == set(RULES)
    seen = {row.requirement for row in all_rows() if row.check.__module__.rpartition(".")[2] in NETWORK}
    assert seen - MACHINE == set()


def test_no_row_is_violated(run: Told) -> None:
    data, output, code = run
    assert [name for name, entry in data["requirements"].items() if entry["verdict"] == "violated"] == [], output
    assert code == 0, output


def test_nothing_is_skipped_in_silence(run: Told, part: str) -> None:
    found = judgements(run)
    assert set(found) == PARTS[part] | DERIVED
    for name, entry in found.items():
        assert f"\n{name} " in run[1]
        for row in entry["rows"]:
            assert row["evidence"], row
            assert row["verdict"] in TOLD, row
    assert " skipped" not in run[1]


def test_nothing_of_the_suite_itself_is_left(run: Told) -> None:
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
@pytest.mark.parametrize("part", ["machine"], scope="module", indirect=True)
def test_deny_is_proven_for_every_kind_of_target(run: Told, loop: str) -> None:
    rows = run[0]["requirements"]["NET-02"]["rows"]
    (row,) = [one for one in rows if one["loop"] == loop]
    parts = {part["name"]: part["verdict"] for part in row["parts"]}
    assert {name: parts.get(name) for name in DENIED} == dict.fromkeys(DENIED, "proven")


def test_what_can_be_judged_by_now_is_proven(run: Told, part: str) -> None:
    verdicts = {name: entry["verdict"] for name, entry in judgements(run).items()}
    of_others = {name for name, verdict in verdicts.items() if verdict == "not applicable"}
    assert of_others == OF_OTHERS & PARTS[part]
    good = ("proven", "refused", "not applicable")
    assert {name: verdict for name, verdict in verdicts.items() if verdict not in good} == {}


@pytest.mark.parametrize(
    "only",
    [
        pytest.param(("NET-02", "NET-13"), id="machine"),
        pytest.param(("TMO-04", "TMO-06", "CAP-04", "RUN-04", "RUN-05", "STR-02"), id="busybox"),
    ],
)
def test_an_image_without_python_is_judged_from_beside(tmp_path: Path, only: tuple[str, ...]) -> None:
    """The exec transport ends the sandbox with a command, and its deny has a hole that only the receipt names."""
    data, output, code = judged(tmp_path, "sandboxio-test/busybox?accept_vsock=1", only)
    verdicts = {name: data["requirements"][name]["verdict"] for name in only}
    residual = {"NET-02", "TMO-06"} & set(only)
    assert {verdicts.pop(name) for name in residual} == {"proven with residual"}, output
    assert set(verdicts.values()) <= {"proven", "refused"}, output
    assert code == 0, output
    if "NET-02" in only:
        parts = data["requirements"]["NET-02"]["rows"][0]["parts"]
        assert [part["name"] for part in parts if part["verdict"] == "proven with residual"] == ["vsock"]


@pytest.mark.parametrize("image", ["static?accept_vsock=1", "busybox"])
def test_what_cannot_be_told_is_neither_a_pass_nor_a_conviction(tmp_path: Path, image: str) -> None:
    """An image without a shell, and one whose default sandbox is refused."""
    only = ("RUN-01", "RUN-02", "FIL-01", "TRD-03", "TEN-01", "ISO-06")
    data, output, code = judged(tmp_path, f"sandboxio-test/{image}", only)
    verdicts = {name: data["requirements"][name]["verdict"] for name in only}
    assert "violated" not in verdicts.values(), output
    assert verdicts["RUN-01"] == "not-provable"
    assert "FAILED: RUN-01 has only not-provable rows" in output
    assert code == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("target", ["127.0.0.1:1/nothing", "sandboxio-test/python?host=unix:///nowhere/engine.sock"])
def test_without_an_image_or_an_engine_nothing_is_judged(tmp_path: Path, target: str) -> None:
    data, output, code = judged(tmp_path, target, ("RUN-01", "TRD-01"))
    found = data["requirements"]
    assert [found[name]["verdict"] for name in ("RUN-01", "TRD-01", "TRIO-01")] == ["not run"] * 3, output
    assert "FAILED: 2 requirements were not run" in output
    assert code == pytest.ExitCode.TESTS_FAILED
