"""The contract on core's own fake: what is core's is proven, what is the provider's world is simulated, nothing is left open."""

import pytest
from sandboxio.testing import FakeBackend, current, use
from sandboxio_contract.report import Line, judge
from sandboxio_contract.rows import LOOPS, all_rows, facade, lifetime, records, secrets, sweep, teardown, timeouts
from sandboxio_contract.run import run_row
from sandboxio_contract.target import Target

pytest_plugins = ["pytester"]

CORES = {
    *("SEC-01", "SEC-02", "OBS-01", "SYN-01", "TRIO-01", "ERR-01", "PLAN-01", "CAP-02", "CAP-08", "LOOP-01", "CON-01"),
    *("TRD-01", "TRD-02", "TRD-03", "TRD-04", "TRD-05", "TRD-07", "TRD-08", "TMO-01", "TMO-02", "TMO-03", "TMO-05"),
    *("ISO-01", "ISO-02", "ISO-03", "ISO-04", "ISO-05", "TEN-01", "TEN-04", "NET-01", "NET-06", "NET-07", "NET-11"),
    *("NET-14", "CAPA-01"),
}
"""Requirements that core keeps for every backend: rows about them prove something on a fake."""
OF_THE_WORLD = {
    *("NET-02", "NET-03", "NET-04", "NET-05", "NET-08", "NET-09", "NET-12", "NET-13", "TMO-04", "TMO-06", "TMO-07"),
    *("CAP-01", "CAP-03", "CAP-04", "CAP-05", "CAP-07", "TRD-06", "SEC-03", "SEC-04", "TEN-02", "TEN-03", "RUN-01"),
    *("RUN-02", "RUN-03", "RUN-04", "RUN-05", "STR-01", "STR-02", "FIL-01", "FIL-02", "FIL-03"),
}
OF_OTHERS = {"NET-10", "ISO-06", "CAP-06", "SEC-05"}
"""Rules about Docker, about backends whose caps belong to a template, and about credentials."""


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut short what rows wait for: a fake is no slower than its clock."""
    for module in (facade, records, secrets, timeouts):
        monkeypatch.setattr(module, "DEADLINE", 0.2)
    monkeypatch.setattr(timeouts, "HANGS", 0.5)
    monkeypatch.setattr(lifetime, "LIFE", 1.0)
    monkeypatch.setattr(teardown, "SHORT_GRACE", 0.5)
    monkeypatch.setattr(sweep, "DELAYS", sweep.AT_ONCE)
    monkeypatch.setattr(sweep, "GIVEN_UP", 0.3)
    monkeypatch.setattr(sweep, "HELD", 0.02)
    monkeypatch.setenv("SBX_TEARDOWN_GRACE", "0.5")


@pytest.mark.usefixtures("patience")
def test_every_requirement_has_its_verdict() -> None:
    target = Target("fake://")
    try:
        report = judge(target.dsn, [run_row(row, target, loop) for loop in LOOPS for row in all_rows()])
    finally:
        target.close()
    assert verdicts(report.lines, "proven", "refused") == CORES
    assert verdicts(report.lines, "not applicable") == OF_OTHERS
    assert verdicts(report.lines, "simulated") == OF_THE_WORLD | {"CAP-02", "CAP-08", "NET-11", "SYN-01"}
    assert report.failures() == []


def verdicts(lines: tuple[Line, ...], *statuses: str) -> set[str]:
    """Return the requirements of which at least one row has one of these verdicts, or the line itself."""
    return {
        line.requirement
        for line in lines
        if line.status in statuses or any(one.status in statuses for one in line.results)
    }


def test_the_plugin_judges_it_by_its_dsn_alone(pytester: pytest.Pytester) -> None:
    only = [word for one in ("TMO-01", "CAP-02", "NET-02") for word in ("--sandboxio-only", one)]
    done = pytester.runpytest_subprocess("-p", "sandboxio_contract", "--sandboxio-target", "fake://", *only)
    done.stdout.fnmatch_lines(["NET-02   simulated *", "TMO-01   refused *", "CAP-02   simulated *"])
    assert done.ret == 0


def test_it_judges_a_fake_of_its_own_and_leaves_the_current_one_alone() -> None:
    with use(FakeBackend()) as mine:
        target = Target("fake://")
        assert current() is not mine
        target.close()
        assert current() is mine
        assert mine.sandboxes == []
