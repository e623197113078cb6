"""The command line."""

import json
from pathlib import Path

import pytest
import sandboxio
from sandboxio.cli import main
from sandboxio.port import Chunk, Command, Exit

from .stub import Program, StubBackend


def missing(command: Command) -> Program:
    return Program((Chunk("stderr", b"not found"),), Exit(127, started=False))


def test_the_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"sandboxio {sandboxio.__version__}\n"


@pytest.mark.parametrize("code", ["E1101", "sbx_e1101", "SBX_E1101"])
def test_an_error_is_explained_by_its_code(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["errors", code]) == 0
    assert capsys.readouterr().out.startswith("# SBX_E1101 CapabilityNotSupported")


def test_a_code_that_no_error_has_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["errors", "E9999"]) == 2
    assert "SBX_E9999" in capsys.readouterr().err


def test_pages_that_cannot_be_written_are_an_error_with_its_fix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["errors", "--pages", str(tmp_path)]) == 0
    assert (tmp_path / "SBX_E1101.md").exists()
    assert main(["errors", "--pages", str(tmp_path / "none")]) == 1
    shown = capsys.readouterr().err
    assert "No such file" in shown
    assert "Fix: name a folder that exists" in shown


def test_the_demo_says_what_an_image_without_python_and_shell_cannot_show(
    stub: StubBackend, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stub.programs["python3"] = stub.programs["sh"] = missing
    assert main(["demo", target]) == 0
    shown = capsys.readouterr().out
    assert "the image has no python3" in shown
    assert "the image has no POSIX shell" in shown
    assert "egress denial: NOT PROVABLE" in shown
    assert stub.sandboxes == {}


def test_the_demo_is_one_json_object_on_request(
    stub: StubBackend, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stub.programs["python3"] = stub.programs["sh"] = missing
    assert main(["demo", target, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["proof"]["finding"] == "not provable"


def test_an_error_is_shown_with_its_fix_and_not_as_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "nowhere://"]) == 1
    assert "Fix: " in capsys.readouterr().err
