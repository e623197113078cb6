"""Run one row on one event loop and turn whatever happens into a result."""

import os
import time
import traceback
import warnings
from dataclasses import asdict, dataclass
from typing import Any, cast

import anyio

from sandboxio_contract.network.reason import NotProvable
from sandboxio_contract.rows import Loop, Row
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, Inconclusive, NotRun, Part, Refused, Status, Violated


@dataclass(frozen=True, slots=True)
class Result:
    """What one row found on one loop.

    :param seconds: how long it took.
    :param emulator: whether an emulator of the provider was judged.
    """

    target: str
    requirement: str
    row: str
    loop: Loop
    status: Status
    evidence: str
    parts: tuple[Part, ...]
    seconds: float
    emulator: bool = False

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> "Result":
        """Return the result that `as_data` made plain."""
        parts: list[dict[str, Any]] = data["parts"]
        plain: dict[str, Any] = {**data, "parts": tuple(Part(**part) for part in parts)}
        return cls(**plain)


def run_row(row: Row, target: Target, loop: Loop) -> Result:
    """Run one row to its verdict; nothing escapes but KeyboardInterrupt and the like."""
    started = time.monotonic()
    with target.ground.surroundings():
        finding = _finding(row, target, loop)
    return Result(
        target.name,
        row.requirement,
        row.name,
        loop,
        finding.status,
        finding.evidence,
        finding.parts,
        round(time.monotonic() - started, 3),
        target.ground.emulator,
    )


def _finding(row: Row, target: Target, loop: Loop) -> Finding:
    if row.backend not in (None, target.kind):
        return Finding("not applicable", f"the rule speaks of {row.backend}")
    declared = anyio.run(target.info)
    if row.world and declared.simulated:
        return Finding("simulated", "a fake: what it says of the world proves nothing")
    if row.own_caps and not declared.resource_caps_supported:
        return Finding("not applicable", "caps belong to the template here: CAP-06 judges the refusal of any other")
    # Without its credentials no target can be had, and some rows are about just that.
    asked = not (row.uncredentialed and any(name not in os.environ for name in declared.credentials))
    # Rows judge warnings themselves; a runner that makes errors of them would change what the backend does.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trouble = _trouble(target, plain_sandbox=False) if asked else None
        if trouble is not None:
            return Finding("not run", trouble)
        try:
            finding = anyio.run(_bounded, row, target, backend=loop)
        except Exception as error:  # noqa: BLE001 - whatever a backend raises is a finding
            finding = _judged(error)
        # An engine that went away or an image that can't be had breaks no rule: nothing was judged.
        trouble = _trouble(target, plain_sandbox=True) if asked and finding.status == "violated" else None
        return finding if trouble is None else Finding("not run", f"{trouble} (the row: {finding.evidence})")


def _trouble(target: Target, *, plain_sandbox: bool) -> str | None:
    async def ask() -> str | None:
        return await target.trouble(plain_sandbox=plain_sandbox)

    try:
        return anyio.run(ask)
    except Exception:  # noqa: BLE001 - it is the rows' to judge
        return None


async def _bounded(row: Row, target: Target) -> Finding:
    with anyio.move_on_after(row.within):
        return await row.check(target)
    raise Violated(f"it did not end within {row.within:g} s")


def _judged(error: Exception) -> Finding:
    found = _leaves(error)
    for one in found:
        if isinstance(one, Violated):
            return Finding("violated", str(one))
    for one in found:
        if isinstance(one, NotRun):
            return Finding("not run", str(one))
    for one in found:
        if isinstance(one, Refused):
            return Finding("refused", str(one))
    for one in found:
        if isinstance(one, (Inconclusive, NotProvable)):
            return Finding("not-provable", str(one))
    first = found[0]
    place = traceback.extract_tb(first.__traceback__)[-1:]
    where = f" ({place[0].name}, line {place[0].lineno})" if place else ""
    return Finding("violated", f"unexpected {type(first).__name__}{where}: {str(first).splitlines()[:1] or ''}")


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    group = cast("BaseExceptionGroup[BaseException]", error)
    return [leaf for one in group.exceptions for leaf in _leaves(one)]
