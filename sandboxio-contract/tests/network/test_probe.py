import ast
import shutil
import subprocess
from pathlib import Path

import pytest
from sandboxio_contract.network import probe, responder
from sandboxio_contract.network.checks import Check, probe_command
from sandboxio_contract.network.outcome import parse_probe
from sandboxio_contract.network.probe_sh import shell_command

from .grounds import TCP, checks

MINIMAL = {
    "__future__", "base64", "errno", "hashlib", "os", "random", "select", "selectors", "socket", "struct", "subprocess",
    "sys", "threading", "time",
}  # fmt: skip
VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14")


@pytest.mark.parametrize("module", [probe, responder])
def test_what_is_shipped_needs_only_a_minimal_python_38(module: object) -> None:
    source = Path(str(getattr(module, "__file__", ""))).read_text()
    tree = ast.parse(source, feature_version=(3, 8))
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert set(names) <= MINIMAL
    assert "sandboxio" not in source.replace("sandboxio-contract", "")  # it stands alone


@pytest.mark.parametrize("version", VERSIONS)
def test_the_probe_runs_on_each_python_that_is_here(version: str) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    asked = checks(TCP, Check("gone", "unix", ("/nonexistent/socket",), 0, TCP.key)).only(["gone"])
    argv, source = probe_command(asked, python)
    done = subprocess.run(argv, input=source, capture_output=True, check=False, timeout=30)
    found = parse_probe(asked, done.returncode, done.stdout)
    assert (done.returncode, found.status("gone"), found.complete) == (40, "unreachable", True), done.stderr
    assert "lo" in found.interfaces


def interpreter(version: str) -> str | None:
    installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python3"))
    candidate = str(installed[0]) if installed else shutil.which(f"python{version}")
    works = candidate and subprocess.run([candidate, "-V"], capture_output=True, check=False).returncode == 0
    return candidate if works else None


def test_wrong_arguments_have_their_own_exit_code() -> None:
    assert probe.main([]) == 42


def test_a_check_has_the_status_of_its_most_telling_attempt(capsys: pytest.CaptureFixture[str]) -> None:
    running = probe.Probe("t", 1.0)
    running.names = ["host"]
    running.settled = [("host", "refused", "a"), ("host", "answered", "b"), ("host", "timeout", "c")]
    assert running.report() == 41
    assert "check host answered b\n" in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["sh", "dash", "bash", "busybox"])
def test_the_shell_form_only_says_what_it_sees(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    argv, script = shell_command(shell)
    argv = ("busybox", "sh", "-s") if shell == "busybox" else argv
    done = subprocess.run(argv, input=script, capture_output=True, check=False, timeout=30)
    found = parse_probe(checks(), done.returncode, done.stdout)
    assert done.stderr == b""
    assert "lo" in found.interfaces
    assert {one.status for one in found.results.values()} == {"tool missing"}
