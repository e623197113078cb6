"""The programs that rows send into sandboxes; that they attack is seen by the rows' own controls and by the liars."""

import re
import subprocess

import pytest
from sandboxio_contract import attacks
from sandboxio_contract.attacks.exhaust import THINGS
from sandboxio_contract.attacks.resist import MEMBERS

PYTHON = ("EXHAUST", "FORGE", "REACH", "RESIST", "SIEGE")
SHELL = ("SHELL_EXHAUST", "SHELL_FORGE", "SHELL_REACH", "SHELL_RESIST", "SHELL_SIEGE")


@pytest.mark.parametrize("name", PYTHON)
def test_a_python_attack_is_a_program(name: str) -> None:
    compile(getattr(attacks, name), name, "exec")


@pytest.mark.parametrize("name", SHELL)
def test_a_shell_attack_is_a_program(name: str) -> None:
    done = subprocess.run(["sh", "-n", "-c", getattr(attacks, name)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_attack_is_exported() -> None:
    assert {*PYTHON, *SHELL, "ATTEMPTS"} == set(attacks.__all__)


def test_what_rows_look_for_is_what_the_programs_do() -> None:
    tried = re.search(r"ATTEMPTS = \{(.*?)\n\}", attacks.REACH, re.DOTALL)
    assert tried is not None
    assert tuple(re.findall(r'^    "([^"]+)":', tried[1], re.MULTILINE)) == attacks.ATTEMPTS
    assert tuple(re.findall(r'^holding\("([^"]+)"', attacks.EXHAUST, re.MULTILINE)) == THINGS
    assert all(f'"{name}"' in attacks.RESIST or f"beat-{name}" in attacks.RESIST for name in MEMBERS)
