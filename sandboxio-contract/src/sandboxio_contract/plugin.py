"""The pytest plugin: ``pytest -p sandboxio_contract --sandboxio-target DSN``, with or without a test module.

Neither sandboxio nor pydantic is imported before a target is judged, so that the plugin costs other test runs nothing.
"""

import fnmatch
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pytest

from sandboxio_contract.gathering import DATA, HELD_BACK, LAST, TARGETS, Gathering, row_data

if TYPE_CHECKING:
    from sandboxio_contract.contract import Contract
    from sandboxio_contract.ground import Ground
    from sandboxio_contract.rows import Loop, Row
    from sandboxio_contract.target import Target

N = TypeVar("N", bound=pytest.Item | pytest.Collector)

_RESULT = pytest.StashKey[dict[str, Any]]()


class NotProvableRow(Exception):
    """A row that could not be told: shown, never a pass."""


class NotRunRow(Exception):
    """A row that judged nothing, since the target could not be had: an error of the run."""


class ViolatedRow(Exception):
    """A row that convicts."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("sandboxio-contract")
    group.addoption("--sandboxio-target", action="append", default=[], metavar="DSN", help="judge this target")
    group.addoption("--sandboxio-report", metavar="FILE", type=Path, help="write the verdicts as JSON")
    group.addoption(
        "--sandboxio-only",
        action="append",
        default=[],
        metavar="ID",
        help="judge only this requirement, or these: RUN-*",
    )
    group.addoption(
        "--sandboxio-strict",
        action="store_true",
        help="fail on residuals, on what could not be told and on requirements that no row judges yet",
    )
    group.addoption(
        "--sandboxio-live",
        action="store_true",
        help="judge a provider's real account; a usage error for a target whose ground has no way to do that",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Collect nothing but the contract where targets but no test files were named."""
    targets = _many(config, "--sandboxio-target")
    config.pluginmanager.register(Gathering(config), "sandboxio_contract_gathering")
    _only(config)
    for dsn in targets:
        _refuse_live(config, dsn)
    if targets and config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = []


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep rows together that can't go on at once, where targets or groups were asked for."""
    if _many(config, "--sandboxio-target") or config.getoption("dist") == "loadgroup":
        from sandboxio_contract.scheduling import by_module

        return by_module(config, log)
    return None


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add the rows for the targets of the command line."""
    targets = _many(config, "--sandboxio-target")
    if targets:
        from sandboxio_contract.contract import Contract

        for dsn in targets:
            collector = _node(ContractCollector, session, name=dsn, contract=Contract(dsn))
            items.extend(collector.collect())


def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> pytest.Collector | None:
    """Collect the rows of a `Contract` that a test module holds."""
    if type(obj).__module__ == "sandboxio_contract.contract" and type(obj).__name__ == "Contract":
        return _node(ContractCollector, collector, name=name, contract=obj)
    return None


class ContractCollector(pytest.Collector):
    """All rows for one target."""

    def __init__(self, contract: "Contract", **arguments: Any) -> None:
        super().__init__(**arguments)
        self._contract = contract

    def collect(self) -> Iterator[pytest.Item]:
        """Yield one item per row and event loop."""
        from sandboxio_contract.rows import LOOPS, all_rows

        _refuse_live(self.config, self._contract.dsn, self._contract.ground)
        only = {*self._contract.only, *_only(self.config)}
        worker = hasattr(self.config, "workerinput")
        for row in all_rows():
            module = row.check.__module__.rpartition(".")[2]
            if only and row.requirement not in only:
                continue
            if worker and module == LAST:
                self.config.stash[HELD_BACK].add(self._contract.dsn)
                continue
            for loop in (one for one in LOOPS if one in self._contract.loops):
                name = f"{row.requirement}-{row.name}-{loop}"
                yield _node(RowItem, self, name=name, contract=self._contract, row=row, loop=loop)


class RowItem(pytest.Item):
    """One row on one event loop."""

    def __init__(self, contract: "Contract", row: "Row", loop: "Loop", **arguments: Any) -> None:
        super().__init__(**arguments)  # pyright: ignore[reportUnknownMemberType]
        self._contract = contract
        self._row = row
        self._loop: Loop = loop

    @property
    def module(self) -> str:
        """The module that the row is in."""
        return self._row.check.__module__

    def runtest(self) -> None:
        """Run the row; its verdict is the outcome."""
        from sandboxio_contract.run import run_row

        result = run_row(self._row, self._target(), self._loop)
        self.stash[_RESULT] = result.as_data()
        # What JUnit reports and the like show of a test.
        told = {"requirement": result.requirement, "verdict": result.status, "evidence": result.evidence}
        self.user_properties += [("target", result.target), *told.items()]
        if result.status == "violated":
            raise ViolatedRow(result.evidence)
        if result.status == "not run":
            raise NotRunRow(result.evidence)
        if result.status == "not-provable":
            raise NotProvableRow(result.evidence)
        if self.config.getoption("--sandboxio-strict") and result.status == "proven with residual":
            raise ViolatedRow(f"residual: {result.evidence}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show the evidence; a traceback of the suite would say nothing of the backend."""
        if isinstance(excinfo.value, (ViolatedRow, NotRunRow, NotProvableRow)):
            return f"{self._row.requirement}: {self._row.check.__doc__}\n{excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[str, int | None, str]:
        """Name the row."""
        return self._row.check.__module__, None, self.name

    def _target(self) -> "Target":
        from sandboxio_contract.target import Target

        known = self.config.stash[TARGETS]
        if self._contract.dsn not in known:
            one = self._contract
            known[one.dsn] = Target(one.dsn, one.ground, register=one.register, path=one.path, name=one.name)
        return known[self._contract.dsn]

    def release(self) -> None:
        """Take the canaries down: only one run on a machine can have them."""
        target = self.config.stash[TARGETS].get(self._contract.dsn)
        if target is not None:
            target.ground.release_network()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the result, and give what could not be told an outcome of its own."""
    report = yield
    if call.when == "call" and _RESULT in item.stash:
        setattr(report, DATA, item.stash[_RESULT])
    if isinstance(item, RowItem) and call.excinfo is not None and call.excinfo.errisinstance(NotProvableRow):
        report.outcome = "skipped"
        report.longrepr = (item.module, 0, f"not-provable: {call.excinfo.value}")
    return report


def pytest_report_teststatus(report: pytest.TestReport | pytest.CollectReport) -> tuple[str, str, str] | None:
    """Show the verdict itself."""
    data = row_data(report) if isinstance(report, pytest.TestReport) else None
    if data is None:
        return None
    status = str(data["status"])
    if status == "not run":
        return "error", "E", "NOT RUN"
    if report.outcome == "failed":
        return "failed", "F", status.upper()
    letter = {"proven": ".", "not-provable": "?", "proven with residual": "r"}.get(status, status[0])
    return ("passed" if status == "proven" else status), letter, status


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Release the canaries after the last row that needs them."""
    if isinstance(item, RowItem) and (not isinstance(nextitem, RowItem) or nextitem.module != item.module):
        item.release()


def _many(config: pytest.Config, name: str) -> list[str]:
    given: list[str] = config.getoption(name) or []
    return given


def _node(kind: type[N], parent: pytest.Collector, **arguments: Any) -> N:
    """Make a node; pytest types its own constructor loosely."""
    return cast("N", cast("Any", kind).from_parent(parent, **arguments))


def _refuse_live(config: pytest.Config, dsn: str, ground: "Ground | None" = None) -> None:
    """Refuse ``--sandboxio-live`` where no ground judges an account: its canaries would be outside this machine."""
    if config.getoption("--sandboxio-live"):
        from sandboxio_contract.ground import ground_for

        if not (ground or ground_for(dsn)).live:
            raise pytest.UsageError(
                f"--sandboxio-live: there is no way to judge an account of {dsn}, only what is here"
            )


def _only(config: pytest.Config) -> set[str]:
    """Return the requirements that the command line names."""
    given = _many(config, "--sandboxio-only")
    if not given:
        return set()
    from sandboxio_contract.requirements import RULES

    found = {one: fnmatch.filter(RULES, one) for one in given}
    unknown = [one for one, ids in found.items() if not ids]
    if unknown:
        raise pytest.UsageError(f"--sandboxio-only: there is no requirement {', '.join(sorted(unknown))}")
    return {name for ids in found.values() for name in ids}
