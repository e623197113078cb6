"""Broken cores that need a program or a suite of their own; see `sandboxio_contract.liars.cores` for the others."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sandboxio import redaction, secret_places
from sandboxio.escaping import Layer
from sandboxio.secret_forms import forms_of
from sandboxio_contract.leaving import spoken_forms
from sandboxio_contract.liars.grounds import StubGround
from sandboxio_contract.rows import all_rows
from sandboxio_contract.rows import secrets as secrets_rows
from sandboxio_contract.run import run_row
from sandboxio_contract.target import Target


def nothing_found(forms: object, text: str) -> list[tuple[int, int]]:
    return []


def outermost(text: str) -> list[Layer]:
    return [Layer(text)]


def all_but(spoken: str) -> Callable[[str], list[str]]:
    """Return a core's forms of a secret without those that mask it as a program may show it."""

    def forms(value: str) -> list[str]:
        shown = spoken_forms(value)[spoken]
        return [form for form in forms_of(value) if form not in shown]

    return forms


@pytest.mark.parametrize("spoken", spoken_forms("a word"))
def test_a_core_that_misses_one_form_of_a_secret_is_convicted(spoken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """SEC-01's row knows the forms by itself, and each of them alone convicts."""

    def only_one(word: str) -> dict[str, str]:
        return {spoken: spoken_forms(word)[spoken]}

    monkeypatch.setattr(secrets_rows, "spoken_forms", only_one)
    monkeypatch.setattr(redaction, "forms_of", all_but(spoken))
    monkeypatch.setattr(secret_places, "layers", outermost)
    if spoken in ("beginning", "end", "middle"):
        monkeypatch.setattr(redaction, "forms_of", forms_of)
        monkeypatch.setattr(secret_places, "cut", nothing_found)
    target = Target("stub://", StubGround("stub"), register={"stub": "sandboxio_contract.liars.stubs:stub"})
    try:
        found = [run_row(row, target, "asyncio").status for row in all_rows() if row.requirement == "SEC-01"]
    finally:
        target.close()
    assert found == ["refused", "violated"]


BROKEN_PROGRAM = """
import __main__, atexit, os
from sandboxio import ProviderError
from sandboxio.loop_thread import Submitted
from sandboxio.sync import SyncSandbox, creating
from sandboxio.sync.waiting import Waiter
from sandboxio_contract.liars.stub import StubBackend
from sandboxio_contract.liars.stubs import Adapter
from sandboxio_contract.liars.world import worlds

def nothing(*_):
    pass

def drops_all():
    for world in worlds.values():
        for identity in list(world.records):
            world.drop(identity)

def swallows(waiter, form, work, kept=Waiter.call):
    try:
        return kept(waiter, form, work)
    except KeyboardInterrupt as error:
        raise ProviderError("interrupted") from error

if __main__.__spec__ and __main__.__spec__.name == "sandboxio_contract.synchronous":
    LIE
adapter = Adapter("NAME", StubBackend)
"""
"""An adapter that breaks core where the row's program loads it, and nowhere else."""
PROGRAM_LIES = {
    "lived on": "Submitted.cancel = nothing",
    "raised ProviderError": "Waiter.call = swallows",
    "allowed kill": "SyncSandbox.kill = nothing",
    "ended its parent's sandbox": "os.register_at_fork(after_in_child=lambda: atexit.register(drops_all))",
    "left its sandbox alive": "atexit.unregister(creating._end_all)",
}
"""What convicts, and the lie."""


@pytest.mark.parametrize("fact", PROGRAM_LIES)
def test_a_core_that_breaks_a_synchronous_program_is_convicted(
    fact: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SYN-01: Ctrl-C, fork and exit are judged in a program of the row's own."""
    name = f"broken{list(PROGRAM_LIES).index(fact)}"
    (tmp_path / f"{name}.py").write_text(BROKEN_PROGRAM.replace("LIE", PROGRAM_LIES[fact]).replace("NAME", name))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("SBX_TEARDOWN_GRACE", "0.5")
    target = Target(f"{name}://", StubGround(name), register={name: f"{name}:adapter"}, path=[str(tmp_path)])
    (row,) = [row for row in all_rows() if row.name == "a_synchronous_program_leaves_nothing"]
    try:
        result = run_row(row, target, "asyncio")
    finally:
        target.close()
    assert (result.status, fact in result.evidence) == ("violated", True), result.evidence
