"""From the rows of a run, in whichever processes they ran, to its table, its ``conformance.json`` and its outcome.

As light to import as the plugin: it is registered in every test run.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from sandboxio_contract.report import Report
    from sandboxio_contract.target import Target

LAST = "leftovers"
"""The module of rows about what is left of a run."""
DATA = "sandboxio_contract"
"""The attribute of a test report, and the entry of a worker's output, that carry results from one process to another."""
TARGETS = pytest.StashKey[dict[str, "Target"]]()
"""The targets of this process by DSN."""
HELD_BACK = pytest.StashKey[set[str]]()
"""Those of which a worker judges what is left when it has done all its rows: others are still at work then."""


def row_data(report: pytest.TestReport) -> dict[str, Any] | None:
    """Return the result that a test report carries."""
    return cast("dict[str, Any] | None", getattr(report, DATA, None))


class Gathering:
    """The plugin that keeps results."""

    def __init__(self, config: pytest.Config) -> None:
        config.stash[TARGETS] = {}
        config.stash[HELD_BACK] = set()
        self._config = config
        self._results: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the result of a row; under xdist this runs in the process that reports."""
        data = row_data(report)
        if data is not None:
            self._results.append(data)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a worker found at its end."""
        self._results += getattr(node, "workeroutput", {}).get(DATA, [])

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Close the targets, write the report, and fail a run that shows less than was declared."""
        targets = self._config.stash[TARGETS]
        worker = getattr(self._config, "workeroutput", None)
        if worker is not None:
            held_back = self._config.stash[HELD_BACK]
            worker[DATA] = [data for dsn, one in targets.items() if dsn in held_back for data in _left_of(one)]
        for target in targets.values():
            target.close()
        if worker is not None:
            return  # the process that gathers all results reports them
        reports = self._reports()
        path: Path | None = self._config.getoption("--sandboxio-report", default=None)
        for report in reports:
            if path is not None:
                alone = len(reports) == 1
                report.write(path if alone else path.with_name(f"{path.stem}-{_slug(report.target)}{path.suffix}"))
            if self._failures(report) and session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print one line per requirement."""
        for report in self._reports():
            terminalreporter.section(f"contract: {report.title}")
            for line in report.shown():
                bad, open_ = line.status in ("violated", "not run"), line.status == "not-provable"
                terminalreporter.line(report.text(line), red=bad, yellow=open_)
            terminalreporter.line(report.counts(), bold=True)
            for failure in self._failures(report):
                terminalreporter.line(f"FAILED: {failure}", red=True)

    def _reports(self) -> "list[Report]":
        if not self._results:
            return []
        from sandboxio_contract.report import judge
        from sandboxio_contract.run import Result

        results: list[Result] = [Result.from_data(one) for one in self._results]
        targets = dict.fromkeys(result.target for result in results)
        return [judge(target, [one for one in results if one.target == target]) for target in targets]

    def _failures(self, report: "Report") -> list[str]:
        strict = bool(self._config.getoption("--sandboxio-strict")) and not self._config.getoption("--sandboxio-only")
        return report.failures(strict=strict)


def _left_of(target: "Target") -> list[dict[str, Any]]:
    from sandboxio_contract.rows import LOOPS, all_rows
    from sandboxio_contract.run import run_row

    rows = [row for row in all_rows() if row.check.__module__.endswith(f".{LAST}")]
    return [run_row(row, target, loop).as_data() for row in rows for loop in LOOPS]


def _slug(target: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in target).strip("-")
