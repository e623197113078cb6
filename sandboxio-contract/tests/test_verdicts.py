"""How findings become verdicts, verdicts a report, and a report a failed run."""

import json
from pathlib import Path
from typing import Any

import pytest
from sandboxio import BackendInfo
from sandboxio_contract import report
from sandboxio_contract.cli import main
from sandboxio_contract.ground import Ground
from sandboxio_contract.liars.stub import info
from sandboxio_contract.report import Report, judge
from sandboxio_contract.rows import all_rows
from sandboxio_contract.run import Result, run_row
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Part, Status, summed, worst


def result(requirement: str, status: Status, loop: Any = "asyncio", row: str = "row", evidence: str = "seen") -> Result:
    return Result("stub://", requirement, row, loop, status, evidence, (Part("part", status, evidence),), 0.1)


def both(requirement: str, status: Status) -> list[Result]:
    return [result(requirement, status, "asyncio"), result(requirement, status, "trio")]


def line(found: Report, requirement: str) -> Any:
    return next(one for one in found.lines if one.requirement == requirement)


@pytest.mark.parametrize(
    "statuses, expected",
    [
        ([], "not built"),
        (["proven", "refused"], "refused"),
        (["proven", "not-provable"], "not-provable"),
        (["proven with residual", "proven"], "proven with residual"),
        (["violated", "not-provable", "proven"], "violated"),
        (["not applicable", "proven"], "proven"),
    ],
)
def test_the_worst_status_wins(statuses: list[Status], expected: Status) -> None:
    assert worst(statuses) == expected


def test_a_row_is_as_good_as_its_worst_part_and_says_which_were_good() -> None:
    found = summed([Part("one", "proven", "fine"), Part("two", "not-provable", "no tool")])
    assert found.status == "not-provable"
    assert found.evidence == "two: no tool; proven: one"


def test_one_loop_that_convicts_is_enough() -> None:
    found = judge("stub://", [result("RUN-01", "proven"), result("RUN-01", "violated", "trio", evidence="lost")])
    assert line(found, "RUN-01").status == "violated"
    assert line(found, "RUN-01").evidence == "[trio] lost"
    assert line(found, "TRIO-01").status == "violated"
    assert "RUN-01 violated" in found.failures()


def test_loops_that_disagree_prove_nothing() -> None:
    found = judge("stub://", [result("RUN-01", "proven"), result("RUN-01", "refused", "trio")])
    assert line(found, "TRIO-01").status == "not-provable"


def test_rows_of_one_loop_do_not_prove_both() -> None:
    assert line(judge("stub://", [result("RUN-01", "proven")]), "TRIO-01").status == "not built"


def test_loops_that_agree_on_nothing_prove_nothing() -> None:
    assert line(judge("stub://", both("RUN-01", "not-provable")), "TRIO-01").status == "not-provable"


def test_the_table_of_a_partial_run_has_only_what_was_run() -> None:
    shown = judge("stub://", both("RUN-01", "proven")).shown()
    assert [one.requirement for one in shown] == ["RUN-01", "TRIO-01"]


def test_a_requirement_with_only_not_provable_rows_fails_the_run() -> None:
    assert judge("stub://", both("NET-02", "not-provable")).failures() == ["NET-02 has only not-provable rows"]
    mixed = [
        *both("NET-02", "not-provable"),
        *(result("NET-02", "proven", loop, "other") for loop in ("asyncio", "trio")),
    ]
    assert judge("stub://", mixed).failures() == []


def test_a_strict_run_fails_on_residuals_on_the_unknown_on_the_unbuilt_and_on_what_was_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(report, "NOT_BUILT", {"SEC-01"})
    found = judge("stub://", [*both("NET-02", "proven with residual"), *both("NET-03", "not-provable")])
    strict = found.failures(strict=True)
    assert "NET-02 has a residual" in strict
    assert "NET-03 could not be told" in strict
    assert "SEC-01 is not built" in strict
    assert "RUN-01 was judged by no row" in strict
    assert found.failures() == ["NET-03 has only not-provable rows"]


def test_a_result_survives_being_made_plain() -> None:
    one = result("RUN-01", "proven")
    assert Result.from_data(json.loads(json.dumps(one.as_data()))) == one


def test_table_and_json_agree(tmp_path: Path) -> None:
    found = judge("stub://", both("RUN-01", "proven"))
    found.write(tmp_path / "conformance.json")
    data = json.loads((tmp_path / "conformance.json").read_text())
    assert (data["schema"], data["target"], data["emulator"]) == (1, "stub://", False)
    assert {name: entry["verdict"] for name, entry in data["requirements"].items()} == {
        one.requirement: one.status for one in found.lines
    }
    assert data["requirements"]["RUN-01"]["rows"][0]["parts"] == [
        {"name": "part", "verdict": "proven", "evidence": "seen"}
    ]
    assert found.text(line(found, "RUN-01")).split() == ["RUN-01", "proven", "seen"]


def test_evidence_that_convicts_is_never_cut() -> None:
    found = judge("stub://", both("RUN-01", "violated"))
    long = report.Line("RUN-01", "violated", "x" * 1000)
    assert "x" * 1000 in found.text(long, 80)


def test_what_a_fake_says_of_the_world_is_simulated_and_what_core_does_with_it_is_judged() -> None:
    target = Target("fake-stub://", Ground("fake-stub"), register={"fake-stub": "sandboxio_contract.liars.stubs:stub"})

    async def declared() -> BackendInfo:
        return info("fake-stub", simulated=True)

    target.info = declared  # type: ignore[method-assign]
    rows = {row.requirement: row for row in all_rows() if row.requirement in ("NET-02", "NET-14")}
    assert run_row(rows["NET-02"], target, "asyncio").status == "simulated"
    assert run_row(rows["NET-14"], target, "asyncio").status == "refused"


def test_render_prints_a_matrix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judge("stub://", both("RUN-01", "proven")).write(tmp_path / "one.json")
    judge("other://", both("RUN-01", "violated")).write(tmp_path / "two.json")
    assert main(["render", str(tmp_path / "one.json"), str(tmp_path / "two.json")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| requirement | stub:// | other:// |"
    assert "| RUN-01 | proven | violated |" in lines


def test_render_refuses_another_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.json").write_text('{"schema": 2}')
    assert main(["render", str(tmp_path / "one.json")]) == 1
    assert main(["render", str(tmp_path / "missing.json")]) == 1
    assert "schema 2" in capsys.readouterr().err
