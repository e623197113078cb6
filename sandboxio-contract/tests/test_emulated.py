"""What was judged on an emulator says so, and rules about what a provider has not are not applied."""

import pytest
from sandboxio_contract import Contract
from sandboxio_contract.ground import Ground
from sandboxio_contract.report import judge, markdown
from sandboxio_contract.rows import Row, all_rows
from sandboxio_contract.run import Result, run_row
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding


def result(*, emulator: bool) -> Result:
    return Result("cloud://x", "RUN-01", "row", "asyncio", "proven", "it ran", (), 0.1, emulator)


@pytest.mark.parametrize("emulator", [True, False])
def test_the_report_says_whether_an_emulator_was_judged(emulator: bool) -> None:
    report = judge("cloud://x", [Result.from_data(result(emulator=emulator).as_data())])
    assert report.as_data()["emulator"] is emulator
    assert (report.title == "cloud://x (emulator)") is emulator
    assert ("cloud://x (emulator)" in markdown([report.as_data()])) is emulator


class Emulating(Ground):
    emulator = True


def test_a_row_on_an_emulator_carries_that_and_the_targets_name() -> None:
    async def fine(_: Target) -> Finding:
        return Finding("proven", "fine")

    target = Target("fake://", Emulating("fake"), name="cloud://base")
    found = run_row(Row("RUN-01", "fine", fine, 10), target, "asyncio")
    assert (found.target, found.emulator, found.status) == ("cloud://base", True, "proven")
    assert Target("fake://", Emulating("fake")).name == "fake://"
    assert Contract("fake://").name is None


def test_rules_about_caps_of_a_sandboxs_own_are_marked() -> None:
    marked = {row.requirement for row in all_rows() if row.own_caps}
    assert marked == {"CAP-01", "CAP-02", "CAP-03", "CAP-04", "CAP-05"}
