"""Every liar is convicted by the rows that must, by no row that may not, and the honest one by none.

Each is judged by its own requirements and a sample of the others; with ``SANDBOXIO_LIARS=full`` by every row that can be
judged on what it is built on, which takes hours.
"""

import gc
import os
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from sandboxio_contract import cli
from sandboxio_contract.ground.docker import DockerGround
from sandboxio_contract.liars import LIARS, Liar
from sandboxio_contract.liars.cores import CORES, BrokenCore
from sandboxio_contract.liars.grounds import StubGround
from sandboxio_contract.liars.shown import LIES, Lie
from sandboxio_contract.liars.witnesses import SEEING, WITNESSES, BlindWitness
from sandboxio_contract.report import judge
from sandboxio_contract.requirements import DERIVED, RULES
from sandboxio_contract.rows import (
    Row,
    all_rows,
    caps,
    disk,
    facade,
    inside,
    leftovers,
    lifetime,
    owner,
    records,
    secrets,
    streams,
    sweep,
    teardown,
    timeouts,
    transfers,
)
from sandboxio_contract.run import Result, run_row
from sandboxio_contract.target import Target

IS_FULL = os.environ.get("SANDBOXIO_LIARS") == "full"

SAMPLE = {"NET-06", "NET-14", "ISO-04", "TMO-01", "RUN-04"}
"""Quick rows that every liar meets besides its own, so that a conviction of the wrong kind shows."""
BOUND = 60.0
"""Seconds that a row may be allowed for what a lie's ``may`` names to be judged outside of a full run, and in memory only."""
ON_STUB = {
    *("NET-01", "NET-05", "NET-06", "NET-11", "NET-14", "ISO-01", "ISO-02", "ISO-03", "ISO-04", "ISO-05"),
    *("TMO-01", "TMO-02", "TMO-03", "TMO-05", "TMO-07", "CAP-02", "CAP-08", "TEN-01", "TEN-04", "PLAN-01", "CAPA-01"),
    *("TRD-01", "TRD-02", "TRD-03", "TRD-04", "TRD-05", "TRD-07", "TRD-08", "LOOP-01", "CON-01", "ERR-01"),
    *("RUN-01", "RUN-02", "RUN-03", "RUN-04", "RUN-05", "STR-01", "STR-02", "FIL-01", "FIL-02", "FIL-03"),
    *("SEC-01", "SEC-02", "OBS-01", "SYN-01"),
}
"""What can be judged on the stub, which isolates nothing and has no network."""
OF_THE_WORLD = {"the_interface_layer_is_seen_inside", "nobody_speaks_in_the_agents_name"}
"""Rows of these requirements that the stub, which is no sandbox, can't pass: attacks are not let loose on this machine."""


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut short what rows wait for: whoever lies, and the stub, needs no more of it."""
    for module in (facade, secrets, timeouts):
        monkeypatch.setattr(module, "DEADLINE", 0.5)
    monkeypatch.setattr(timeouts, "HANGS", 1.0)
    monkeypatch.setattr(timeouts, "BESIDE", 3.0)
    monkeypatch.setattr(caps, "ENDLESS", 1.0)
    monkeypatch.setattr(lifetime, "LIFE", 2.0)
    monkeypatch.setattr(streams, "SLEEPS", 1.5)
    monkeypatch.setattr(sweep, "DELAYS", 2 * sweep.AT_ONCE)
    monkeypatch.setattr(sweep, "GIVEN_UP", 0.5)
    monkeypatch.setattr(sweep, "HELD", 0.05)
    monkeypatch.setattr(teardown, "SHORT_GRACE", 1.0)
    monkeypatch.setattr(teardown, "NAP", 0.05)
    monkeypatch.setattr(transfers, "SIZE_MB", 160)  # enough to show a growth of 64
    monkeypatch.setattr(owner, "MANY", 4)
    monkeypatch.setattr(owner, "AWAY", 6.0)
    monkeypatch.setattr(disk, "HOLD", 8)  # the honest reaper has looked three times
    monkeypatch.setattr(disk, "REST", 3)


@pytest.fixture
def haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the end of what is in memory less time."""
    monkeypatch.setenv("SBX_TEARDOWN_GRACE", "1.5")
    monkeypatch.setattr(inside.gone, "__defaults__", (0.5,))
    for module in (leftovers, lifetime, records, sweep, teardown, timeouts):
        monkeypatch.setattr(module, "GRACE", 1.5)


def on_stub(row: Row) -> bool:
    return row.requirement in ON_STUB and row.name not in OF_THE_WORLD


def wanted(lie: Lie, judgeable: Callable[[Row], bool]) -> list[Row]:
    """Return the rows that a lie is judged by."""

    def is_wanted(row: Row) -> bool:
        if row.requirement in lie.must:
            return row.name not in OF_THE_WORLD or judgeable(row)
        if not judgeable(row) or (isinstance(lie, Liar) and row.requirement in lie.unsafe):
            return False
        is_quick = row.within <= BOUND and not (isinstance(lie, Liar) and lie.is_real)
        return IS_FULL or row.requirement in SAMPLE or (row.requirement in lie.may and is_quick)

    return [row for row in all_rows() if is_wanted(row)]


def judged(target: Target, rows: Iterable[Row], *loops: str) -> list[Result]:
    try:
        return [run_row(row, target, loop) for loop in loops or ("asyncio",) for row in rows]  # type: ignore[arg-type]
    finally:
        target.close()
        with warnings.catch_warnings():  # a row that convicts leaves its sandbox; no later test is to be blamed for it
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


def stub(name: str, adapter: str) -> Target:
    return Target(f"{name}://", StubGround(name), register={name: adapter})


def check(lie: Lie, results: list[Result]) -> None:
    """See that what must convicts, and that nothing does that may not."""
    convicting = [one for one in results if one.status == "violated"]
    found = {one.requirement for one in convicting}
    assert lie.must <= found, f"not convicted: {lie.lie}"
    rows = {one.row for one in convicting if one.requirement in lie.must}
    assert not lie.rows or rows - (lie.also if isinstance(lie, Liar) else set()) == lie.rows
    told = {one.requirement: one.evidence for one in convicting if one.requirement not in lie.must | lie.may}
    assert told == {}


@pytest.mark.usefixtures("haste")
@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_the_honest_stub_is_acquitted(loop: str) -> None:
    results = judged(stub("stub", "sandboxio_contract.liars.stubs:stub"), filter(on_stub, all_rows()), loop)
    assert {result.requirement for result in results} == ON_STUB
    assert [result for result in results if result.status not in ("proven", "refused")] == []


@pytest.mark.usefixtures("haste")
@pytest.mark.parametrize(
    "name, module, requirement",
    [
        ("stub-fixed", "promises", "CAP-06"),
        ("stub-keyed", "promises", "SEC-05"),
        ("stub-unknown", "promises", "ISO-03"),
        ("stub-brokered", "offers", "SEC-03"),
        ("stub-stored", "offers", "TEN-03"),
        ("stub-counting", "offers", "NET-07"),
        ("stub-talkative", "commands", "SEC-01"),
        ("stub-talkative", "commands", "ERR-01"),
    ],
)
def test_an_honest_stub_of_another_kind_is_acquitted(name: str, module: str, requirement: str) -> None:
    target = stub(name, f"sandboxio_contract.liars.{module}:{name.replace('-', '_')}")
    results = judged(target, [row for row in all_rows() if row.requirement == requirement])
    assert [result for result in results if result.status not in ("proven", "refused")] == []


@pytest.mark.usefixtures("haste")
@pytest.mark.parametrize(
    "liar", [one for one in LIARS if not one.is_real and not one.must & DERIVED], ids=lambda one: one.name
)
def test_a_liar_on_the_stub_is_convicted_by_the_right_rows(liar: Liar) -> None:
    target, rows = stub(liar.name, liar.adapter), wanted(liar, on_stub)
    check(liar, judged(target, rows))


@pytest.mark.usefixtures("haste")
@pytest.mark.parametrize("liar", [one for one in LIARS if one.must & DERIVED], ids=lambda one: one.name)
def test_a_liar_of_all_rows_is_convicted_by_both_loops(liar: Liar) -> None:
    target = stub(liar.name, liar.adapter)
    results = judged(target, wanted(liar, on_stub), "asyncio", "trio")
    lines = {line.requirement: line.status for line in judge(target.dsn, results).lines}
    assert {lines[requirement] for requirement in liar.must} == {"violated"}, f"not convicted: {liar.lie}"
    assert [one.requirement for one in results if one.status == "violated" and one.loop == "asyncio"] == []


@pytest.mark.docker
@pytest.mark.network
@pytest.mark.parametrize("liar", [one for one in LIARS if one.is_real], ids=lambda one: one.name)
def test_a_liar_on_docker_is_convicted_by_the_right_rows(liar: Liar) -> None:
    target = Target(liar.dsn, DockerGround(liar.dsn), register={liar.name: liar.adapter})
    check(liar, judged(target, wanted(liar, lambda _: True)))


@pytest.mark.usefixtures("haste")
@pytest.mark.parametrize("core", CORES, ids=lambda one: one.name)
def test_a_core_that_breaks_its_own_promise_is_convicted(core: BrokenCore) -> None:
    with core.applied():
        check(core, judged(stub(core.backend, core.adapter), wanted(core, on_stub)))


@pytest.mark.parametrize("blind", [SEEING, *WITNESSES], ids=lambda one: one.name)
def test_a_blind_witness_proves_nothing(blind: BlindWitness) -> None:
    target = Target("stub://", blind.ground(), register={"stub": "sandboxio_contract.liars.stubs:stub"})
    results = judged(target, [row for row in all_rows() if row.requirement in blind.must])
    assert {one.requirement for one in results} == blind.must
    assert {one.status for one in results} == {"proven" if blind is SEEING else "not-provable"}


def test_each_requirement_has_a_lie_that_nothing_else_must_convict() -> None:
    alone = {requirement for lie in LIES if len(lie.must) == 1 for requirement in lie.must}
    assert set(RULES) - alone == set()


def test_lies_are_many_and_have_names_of_their_own() -> None:
    names = [lie.name for lie in LIES]
    assert len(set(names)) == len(names)
    assert len(LIARS) >= 60


def test_the_readme_says_what_is_convicted(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["liars"]) == 0
    readme = Path(__file__).parents[1].joinpath("README.md").read_text(encoding="utf-8")
    shown = readme.partition("<!-- liars -->\n")[2].partition("<!-- end -->\n")[0]
    assert shown.strip() == capsys.readouterr().out.strip(), "put in what `sandboxio-contract liars` prints"


def test_a_fault_of_core_is_taken_back() -> None:
    for core in CORES:
        before = [of_core(where, name) for where, name, _ in core.faults]
        with core.applied():
            assert [of_core(where, name) for where, name, _ in core.faults] == [broken for _, _, broken in core.faults]
        assert [of_core(where, name) for where, name, _ in core.faults] == before


def of_core(where: object, name: str) -> object:
    return vars(where).get(name)
