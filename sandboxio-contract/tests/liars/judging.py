"""How a lie is judged: by the rows that must convict it and a sample of the others, or by all.

With ``SANDBOXIO_LIARS=full`` each is judged by every row that can be judged on what it is built on, which takes hours.
"""

import gc
import os
import warnings
from collections.abc import Callable, Iterable

from sandboxio_contract.liars import Liar
from sandboxio_contract.liars.grounds import StubGround
from sandboxio_contract.liars.shown import Lie
from sandboxio_contract.rows import Loop, Row, all_rows
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


def judged(target: Target, rows: Iterable[Row], loops: Iterable[Loop] = ("asyncio",)) -> list[Result]:
    try:
        return [run_row(row, target, loop) for loop in loops for row in rows]
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
