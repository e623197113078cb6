"""Rows about an owner that is killed."""

import os
import signal
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from sandboxio_contract.interruption import on_trio
from sandboxio_contract.rows import row
from sandboxio_contract.rows.another import another, answer_of
from sandboxio_contract.rows.inside import SLACK, left_over
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, proven, require

MANY = 20
FEW = 3
AWAY = 10.0
"""Seconds within which nothing may be left of a killed owner."""


LIFE = 12.0
"""Seconds that sandboxes live whose owner's end is not theirs: time enough to make the few of them on a busy machine."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Another process that owns sandboxes; what its commands said, and when each sandbox expires (epoch)."""

    process: "subprocess.Popen[str]"
    ids: list[str]
    child: int | None
    expires: list[float]
    said: list[str]


@row("TRD-06", within=180, world=True)
async def a_killed_owner_leaks_nothing(target: Target) -> Finding:
    """SIGKILL of the owner of many sandboxes: none is left after ten seconds, or after the lifetime where that is what ends them."""
    return await _killed(target, MANY, fork=False)


@row("TRD-06", within=180, world=True)
async def a_killed_owner_with_a_forked_child_leaks_nothing(target: Target) -> Finding:
    """The same while a child that it forked lives on with all its descriptors."""
    return await _killed(target, FEW, fork=True)


async def _killed(target: Target, count: int, *, fork: bool) -> Finding:
    await target.need_sandbox()
    count = FEW if target.ground.outlives_owner else count  # it is the provider's clock that is judged then
    mark = {"row": f"owner-{target.token}-{'fork' if fork else 'plain'}-{'trio' if on_trio() else 'asyncio'}"}
    order = _order(target, count, mark, fork=fork)
    with owner(order) as made:
        held = {item.identity for item in await target.look(target.ground.objects, mark)}
        missing = [one for one in made.ids if one not in held]
        require(not missing, f"the provider holds no labelled sandbox for {len(missing)} of {count}")
        started = time.monotonic()
        made.process.send_signal(signal.SIGKILL)
        bound = max(made.expires) - time.time() + SLACK if target.ground.outlives_owner else AWAY
        left = await left_over(target, mark, within=bound)
        took = time.monotonic() - started
    require(not left, f"{len(left)} of {count} left {bound:.1f} s after SIGKILL: {', '.join(map(str, left[:5]))}")
    how = ", with their lifetime" if target.ground.outlives_owner else ""
    return proven(f"{count} sandboxes{' and a forked child' if fork else ''}: all gone {took:.1f} s after SIGKILL{how}")


def _order(target: Target, count: int, mark: dict[str, str], *, fork: bool) -> dict[str, Any]:
    return {
        "dsn": target.dsn,
        "count": count,
        "metadata": {**mark, **target.mark},
        "fork": fork,
        "loop": "trio" if on_trio() else "asyncio",
        "register": dict(target.register),
        "path": list(target.path),
        **({"timeout": LIFE} if target.ground.outlives_owner else {}),
    }


@contextmanager
def owner(order: dict[str, Any]) -> Generator[Owner]:
    """Have a process that makes the sandboxes of an order; it is killed at the end.

    :raises Inconclusive: it has none in time.
    """
    with another("sandboxio_contract.owner", order) as process:
        said = answer_of(
            process,
            late="the owner process made no sandboxes",
            ended="the owner process ended before it had its sandboxes",
        )
        try:
            yield Owner(process, said["ids"], said["child"], said["expires"], said["said"])
        finally:
            process.kill()  # before its child: that may be all that holds it
            process.wait()
            if said["child"] is not None:
                with suppress(ProcessLookupError):
                    os.kill(said["child"], signal.SIGKILL)
