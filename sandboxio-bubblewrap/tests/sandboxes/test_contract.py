"""The contract's rows about what an adapter decides, as root and as an ordinary user. ``nox -s contract -- bubblewrap`` runs all."""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sandboxio_bubblewrap.cgroups import MOUNTED

from .ground import STRANGER, as_stranger, given_group

pytestmark = [
    pytest.mark.bubblewrap,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can have an arena, and become an ordinary user"),
]

CORE = ("CAP-04", "CAP-05", "CAP-07", "CON-01", "FIL-01", "RUN-01", "TRD-04", "TRD-07")
NETWORK = ("NET-02", "NET-03", "NET-04", "NET-05", "NET-09", "NET-13")
ANOTHER = STRANGER + 1
"""Not the user of another file's tests: they may run at the same time."""
GOOD = {"proven", "refused"}


def verdicts(folder: Path, command: list[str], only: tuple[str, ...], target: str) -> dict[str, str]:
    """Judge a target in another process, and return the verdict on each requirement."""
    report = folder / "conformance.json"
    argv = [*command, "-m", "pytest", "-q", "-p", "sandboxio_contract", "-p", "no:cacheprovider", "-c", os.devnull]
    argv += ["--sandboxio-target", target, "--sandboxio-report", str(report)]
    argv += [word for one in only for word in ("--sandboxio-only", one)]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    assert report.exists(), done.stdout + done.stderr
    found = json.loads(report.read_text())["requirements"]
    judged = {name: found[name]["verdict"] for name in (*only, "TRIO-01")}
    assert set(judged.values()) <= GOOD, done.stdout
    assert done.returncode == 0, done.stdout
    return judged


def test_root_is_acquitted_in_a_network_without_an_uplink(tmp_path: Path) -> None:
    judged = verdicts(
        tmp_path, ["unshare", "--net", sys.executable], (*NETWORK, "CAP-05", "CON-01", "TRD-06"), "bubblewrap://"
    )
    # In NET-04 names are refused, and addresses let through alone.
    assert {name for name, verdict in judged.items() if verdict == "refused"} <= {"CON-01", "NET-04", "NET-05"}


@pytest.mark.skipif((MOUNTED / "cgroup.controllers").exists(), reason="the group is made as version 1 has them")
def test_an_ordinary_user_with_a_group_of_its_own_is_acquitted() -> None:
    with TemporaryDirectory() as folder, given_group(ANOTHER) as path:
        Path(folder).chmod(0o777)  # where pytest keeps its own, only this user gets to
        judged = verdicts(Path(folder), as_stranger([sys.executable], ANOTHER), CORE, f"bubblewrap://?cgroup={path}")
    assert {name for name, verdict in judged.items() if verdict == "refused"} == {"CON-01"}
