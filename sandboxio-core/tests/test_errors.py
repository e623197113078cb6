"""The error tree."""

import copy
import pickle
from pathlib import Path

import pytest
import sandboxio
from sandboxio import ExecResult, SandboxError, errors
from sandboxio.cli.error_pages import by_code

RAISED = [
    errors.ConfigurationError("m", hint="h"),
    errors.CapabilityNotSupported("m", why="not_yet"),
    errors.CreateTimeout("m"),
    errors.SandboxGone("m", reason="lifetime", stdout=b"out", stderr=b"\xff"),
    errors.ExecutionTimeout("m", stdout=b"out"),
    errors.ExecutionError("m", result=ExecResult(3)),
    errors.ResourceLimitExceeded("m", limit="pids", value=5, result=ExecResult(1, b"o")),
    errors.PathNotFound("m", errno=2),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_errors_survive_copying_and_pickling(error: SandboxError) -> None:
    error.add_note("a note")
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(again) is type(error)
        assert vars(again) == vars(error)
        assert again.args == error.args
        assert str(again) == str(error)


def test_each_error_has_a_code_of_its_own() -> None:
    codes = by_code()
    owners = {cls for name in sandboxio.__all__ if isinstance(cls := getattr(sandboxio, name), type)}
    leaves = {cls for cls in owners if issubclass(cls, SandboxError)} - {SandboxError, sandboxio.SandboxTimeout}
    assert set(codes.values()) == leaves
    assert all(code.startswith("SBX_E1") and len(code) == 9 for code in codes)


def test_an_error_renders_with_code_fix_and_page() -> None:
    lines = str(errors.PathNotFound("'/x' no such file", hint="make it")).splitlines()
    assert lines == [
        "[SBX_E1701] '/x' no such file",
        "Fix: make it",
        "Docs: docs/errors/SBX_E1701.md (sandboxio errors E1701)",
    ]


def test_no_page_is_a_made_up_domain() -> None:
    assert not any("://" in error.url for error in RAISED)


def test_partial_output_is_bytes_and_text() -> None:
    gone = errors.SandboxGone("m", stdout=b"caf\xc3", stderr=b"")
    assert (gone.stdout_bytes, gone.stdout, gone.stderr) == (b"caf\xc3", "caf\ufffd", "")
    exceeded = errors.ResourceLimitExceeded("m", limit="disk_mb", value=1, result=ExecResult(1, b"o", b"e"))
    assert (exceeded.stdout, exceeded.stderr) == ("o", "e")


def test_a_limits_hint_names_the_field() -> None:
    assert "Resources(pids=…)" in errors.ResourceLimitExceeded("m", limit="pids", value=1).hint


def test_errors_need_the_standard_library_only() -> None:
    source = Path(errors.__file__).read_text()
    for name in ("pydantic", "anyio", "pluggy"):
        assert f"import {name}" not in source
        assert f"from {name}" not in source
