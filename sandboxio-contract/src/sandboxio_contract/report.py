"""From the results of all rows to the verdict on each requirement: as a table, as JSON, and whether the run failed."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from sandboxio_contract.conformance import SCHEMA
from sandboxio_contract.requirements import DERIVED, NOT_BUILT, RULES
from sandboxio_contract.run import Result
from sandboxio_contract.verdict import Status, worst

NOT_RUN = "not run"
DISTRIBUTIONS = ("sandboxio-core", "sandboxio-contract", "pytest", "anyio", "trio")


@dataclass(frozen=True, slots=True)
class Line:
    """The verdict on one requirement."""

    requirement: str
    status: Status
    evidence: str
    results: tuple[Result, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The verdicts on one target."""

    target: str
    lines: tuple[Line, ...]
    distribution: str = ""
    emulator: bool = False

    @property
    def title(self) -> str:
        """The target, and whether an emulator stood in for it."""
        return f"{self.target} (emulator)" if self.emulator else self.target

    def failures(self, *, strict: bool = False) -> list[str]:
        """Return why the run failed, a sentence each.

        What was not run is an error of the run, whatever else it shows.

        :param strict: a residual, something that could not be told, and a requirement without rows fail as well.
        """
        bad: dict[Status, str] = {"violated": "violated"}
        if strict:
            bad |= {
                "proven with residual": "has a residual",
                "not-provable": "could not be told",
                "not built": "is not built",
            }
        found = [
            f"{line.requirement} {'was judged by no row' if line.evidence == NOT_RUN else bad[line.status]}"
            for line in self.lines
            if line.status in bad
        ]
        lost = [line for line in self.lines if any(result.status == "not run" for result in line.results)]
        if lost:
            reason = next(one.evidence for one in lost[0].results if one.status == "not run")
            found.append(f"{len(lost)} requirements were not run, or not wholly: {reason}")
        # What is promised and can't be shown by any row must not look like a pass.
        empty = [line.requirement for line in self.lines if _nothing_told(line)]
        return found + [f"{one} has only not-provable rows" for one in empty if f"{one} could not be told" not in found]

    def as_data(self) -> dict[str, Any]:
        """Return the content of ``conformance.json``."""
        rows = {
            line.requirement: {
                "verdict": line.status,
                "evidence": line.evidence,
                "rows": [_row_data(result) for result in line.results],
            }
            for line in self.lines
        }
        return {
            "schema": SCHEMA,
            "target": self.target,
            "emulator": self.emulator,
            "versions": _versions(self.distribution),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "requirements": rows,
        }

    def write(self, path: Path) -> None:
        """Write ``conformance.json``."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.as_data(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def text(self, line: Line, width: int = 140) -> str:
        """Return the verdict on one requirement as a line of text."""
        return _text(line, width)

    def shown(self) -> list[Line]:
        """Return the lines of the table: of a partial run only those that were run."""
        partial = any(line.evidence == NOT_RUN for line in self.lines)
        return [line for line in self.lines if line.results or line.requirement in DERIVED or not partial]

    def counts(self) -> str:
        """Return how many requirements have which verdict."""
        statuses = [line.status for line in self.shown()]
        return ", ".join(f"{statuses.count(one)} {one}" for one in dict.fromkeys(statuses))


def judge(target: str, results: Iterable[Result], distribution: str = "") -> Report:
    """Sum the results of all rows up."""
    found = list(results)
    by_requirement = {one: tuple(result for result in found if result.requirement == one) for one in RULES}
    lines: list[Line] = []
    for requirement, own in by_requirement.items():
        if requirement in DERIVED:
            lines.append(_both_loops(requirement, found))
        elif not own:
            built = requirement not in NOT_BUILT
            lines.append(Line(requirement, "not built", NOT_RUN if built else "no row judges it yet"))
        else:
            status = worst(result.status for result in own)
            lines.append(Line(requirement, status, _evidence(own, status), own))
    return Report(target, tuple(lines), distribution, any(result.emulator for result in found))


def markdown(reports: Iterable[Mapping[str, Any]]) -> str:
    """Return a matrix of requirements and targets from the contents of several ``conformance.json``."""
    found = list(reports)
    names = [report["target"] + (" (emulator)" if report["emulator"] else "") for report in found]
    lines = ["| requirement | " + " | ".join(names) + " |", "|---" * (len(found) + 1) + "|"]
    for requirement in RULES:
        verdicts = [report["requirements"].get(requirement, {}).get("verdict", "not run") for report in found]
        lines.append(f"| {requirement} | " + " | ".join(verdicts) + " |")
    return "\n".join(lines) + "\n"


def _both_loops(requirement: str, results: list[Result]) -> Line:
    loops = sorted({result.loop for result in results})
    if loops != ["asyncio", "trio"]:
        return Line(requirement, "not built", f"rows were run on {', '.join(loops) or 'no loop'} only")
    split = sorted({one.row for one in results if one.loop == "trio" and one.status != _other(one, results)})
    bad = sorted({one.row for one in results if one.loop == "trio" and one.status == "violated"})
    if bad:
        return Line(requirement, "violated", f"violated on trio: {', '.join(bad)}")
    if any(one.status == "not run" for one in results):
        return Line(requirement, "not run", "rows could not be run")
    if split:
        return Line(requirement, "not-provable", f"another verdict than on asyncio: {', '.join(split)}")
    if all(one.status == "not-provable" for one in results):
        return Line(requirement, "not-provable", "no row could be told on either loop")
    return Line(requirement, "proven", "every row has the same verdict on asyncio and on trio")


def _other(result: Result, results: list[Result]) -> Status | None:
    return next((one.status for one in results if one.row == result.row and one.loop == "asyncio"), None)


def _evidence(results: tuple[Result, ...], status: Status) -> str:
    telling = [result for result in results if result.status == status]
    texts = list(dict.fromkeys(result.evidence for result in telling))
    loops = {result.loop for result in telling}
    only = f"[{next(iter(loops))}] " if len(loops) == 1 and len({one.loop for one in results}) > 1 else ""
    seen: list[str] = []
    rows: set[str] = set()
    for result in telling:  # one text per row: the two loops differ in their times only
        if result.row not in rows:
            rows.add(result.row)
            seen.append(result.evidence)
    return only + " · ".join(seen or texts)


def _nothing_told(line: Line) -> bool:
    return bool(line.results) and all(result.status == "not-provable" for result in line.results)


def _text(line: Line, width: int) -> str:
    head = f"{line.requirement:<8} {line.status:<20} "
    room = max(40, width - len(head))
    flat = " ".join(line.evidence.split())
    cut = line.status not in ("violated", "not-provable", "not run") and len(flat) > room
    return head + (flat[: room - 1] + "…" if cut else flat[:2000])


def _row_data(result: Result) -> dict[str, Any]:
    return {
        "row": result.row,
        "loop": result.loop,
        "verdict": result.status,
        "evidence": result.evidence,
        "seconds": result.seconds,
        "parts": [{"name": one.name, "verdict": one.status, "evidence": one.evidence} for one in result.parts],
    }


def _versions(distribution: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in (*DISTRIBUTIONS, *((distribution,) if distribution else ())):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
