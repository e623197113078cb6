"""The script that takes code over stdin where no agent is, run by this machine's own shell."""

import subprocess
from pathlib import Path

import pytest
from sandboxio.port import CODE_PATH
from sandboxio_docker.exec_session import WITH_CODE

CODE = b'echo "ran $1"; exit 3'


def run(code: bytes, length: int, folder: Path) -> "subprocess.CompletedProcess[bytes]":
    command = ["sh", "-c", WITH_CODE, "sh", str(length), "sh", CODE_PATH, "a b"]
    environment = {"TMPDIR": str(folder), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, input=code, capture_output=True, env=environment, check=False)


def test_code_runs_with_its_arguments_and_leaves_no_file(tmp_path: Path) -> None:
    done = run(CODE, len(CODE), tmp_path)
    assert (done.stdout, done.returncode) == (b"ran a b\n", 3)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kept", [0, 5, len(CODE) - 1])
def test_code_that_a_broken_connection_cut_is_not_run(tmp_path: Path, kept: int) -> None:
    done = run(CODE[:kept], len(CODE), tmp_path)
    assert (done.stdout, done.returncode) == (b"", 126)
    assert not list(tmp_path.iterdir())
