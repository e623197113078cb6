"""What could not be had is not judged: no engine, no image. It is an error of the run, never a conviction or a pass."""

from typing import Any

import pytest
from sandboxio.errors import BackendUnavailable, CreationError
from sandboxio_contract.liars.grounds import StubGround
from sandboxio_contract.liars.promises import KEY
from sandboxio_contract.liars.stub import StubBackend
from sandboxio_contract.report import judge
from sandboxio_contract.rows import Row, all_rows
from sandboxio_contract.run import Result, run_row
from sandboxio_contract.target import Target

pytest_plugins = ["pytester"]

CONFTEST = """
import sandboxio
from sandboxio_contract.liars.promises import KEY
from sandboxio_contract.liars.stub import StubBackend

async def away(self, spec):
    raise sandboxio.BackendUnavailable("no engine answers")

StubBackend.probe = away
sandboxio.register("stub", "sandboxio_contract.liars.stubs:stub")
"""
ONE_FILE = """
from sandboxio_contract import Contract
from sandboxio_contract.liars.grounds import StubGround

contract = Contract("stub://", only=["RUN-01", "ISO-04"], ground=StubGround("stub"))
"""


def stub() -> Target:
    return Target("stub://", StubGround("stub"), register={"stub": "sandboxio_contract.liars.stubs:stub"})


def rows(*requirements: str) -> list[Row]:
    return [row for row in all_rows() if row.requirement in requirements]


def judged(target: Target, *requirements: str) -> list[Result]:
    return [run_row(row, target, "asyncio") for row in rows(*requirements)]


async def no_engine(*_: object) -> Any:
    raise BackendUnavailable("no engine answers")


async def no_image(*_: object) -> Any:
    raise CreationError("the image could not be pulled")


def test_an_engine_that_does_not_answer_convicts_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StubBackend, "probe", no_engine)
    found = judged(stub(), "RUN-01", "ISO-04", "TRD-01", "TMO-01")
    assert {one.status for one in found} == {"not run"}
    assert all("no engine answers" in one.evidence for one in found)


def test_an_image_that_cannot_be_had_convicts_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StubBackend, "prepare", no_image)
    found = judged(stub(), "RUN-01", "TRD-01", "TRD-04", "TMO-03")
    assert {one.status for one in found} == {"not run"}
    assert all("could not be pulled" in one.evidence for one in found)


def test_an_engine_that_goes_away_meanwhile_convicts_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    target = stub()
    assert {one.status for one in judged(target, "RUN-04")} == {"proven"}
    monkeypatch.setattr(StubBackend, "provision", no_engine)
    assert {one.status for one in judged(target, "RUN-04", "TRD-01")} == {"not run"}


def test_a_violation_stays_one_where_a_sandbox_can_be_had() -> None:
    name = "liar-twice"
    target = Target(f"{name}://", StubGround(name), register={name: "sandboxio_contract.liars.stubs:liar_twice"})
    assert "violated" in {one.status for one in judged(target, "TRD-04")}


def test_it_fails_the_run_with_its_reason() -> None:
    lost = Result("stub://", "RUN-01", "row", "asyncio", "not run", "no engine answers", (), 0.1)
    fine = Result("stub://", "RUN-04", "row", "asyncio", "proven", "seen", (), 0.1)
    report = judge("stub://", [lost, fine])
    assert report.failures() == ["1 requirements were not run, or not wholly: no engine answers"]
    assert {line.requirement: line.status for line in report.lines}["RUN-01"] == "not run"


def test_on_one_loop_it_is_not_the_loops_that_disagree() -> None:
    found = [
        Result("stub://", "RUN-01", "row", "asyncio", "proven", "seen", (), 0.1),
        Result("stub://", "RUN-01", "row", "trio", "not run", "no engine answers", (), 0.1),
    ]
    report = judge("stub://", found)
    assert {line.requirement: line.status for line in report.lines}["TRIO-01"] == "not run"


def test_the_plugin_says_so_and_fails(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_contract=ONE_FILE)
    done = pytester.runpytest_subprocess("-p", "sandboxio_contract", "-v", "test_contract.py")
    done.stdout.fnmatch_lines(["*NOT RUN*", "RUN-01   not run *no engine answers*"])
    done.stdout.fnmatch_lines(["FAILED: 2 requirements were not run, or not wholly: *no engine answers*"])
    assert done.ret == pytest.ExitCode.TESTS_FAILED


def test_a_missing_credential_is_judged_and_a_service_that_is_down_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    register = {"liar-anonymous": "sandboxio_contract.liars.promises:liar_anonymous"}

    def found() -> list[str]:
        target = Target("liar-anonymous://", StubGround("liar-anonymous"), register=register)
        return [one.status for one in judged(target, "SEC-05")]

    assert found() == ["violated"]
    monkeypatch.setenv(KEY, "set")
    monkeypatch.setattr(StubBackend, "probe", no_engine)
    assert found() == ["not run"]
