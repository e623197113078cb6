"""The rows of the contract: plain async functions, each tied to the requirement it judges.

A check takes a `Target` and returns a `Finding`, or raises `Violated` or `Inconclusive`. It can be awaited as it is, on
asyncio and on trio, without pytest; `all_rows` is what the plugin and the runner go through.
"""

import functools
import importlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from sandboxio_contract.isolated import need_isolation
from sandboxio_contract.requirements import RULES
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding

Check = Callable[[Target], Awaitable[Finding]]
Loop = Literal["asyncio", "trio"]
LOOPS: tuple[Loop, ...] = ("asyncio", "trio")

MODULES = (
    "policies",
    "promises",
    "credentials",
    "secrets",
    "network",
    "fixed",
    "dependencies",
    "timeouts",
    "lifetime",
    "caps",
    "memory",
    "disk",
    "teardown",
    "connect",
    "sweep",
    "owner",
    "hostile",
    "hostile_commands",
    "hostile_neighbours",
    "isolation",
    "hardening",
    "tenancy",
    "commands",
    "code",
    "streams",
    "files",
    "transfers",
    "errors",
    "records",
    "facade",
    "program",
    "leftovers",
)
"""The modules with rows, in the order in which they are run."""


@dataclass(frozen=True, slots=True)
class Row:
    """One check and what it judges.

    :param within: seconds after which a check that has not ended convicts: a backend must not hang.
    :param backend: the only backend that the rule speaks of.
    :param world: whether it is about the provider's world, so that a fake can only simulate it.
    :param uncredentialed: whether it judges a target whose credentials are missing, too.
    :param own_caps: whether it is about caps that a caller sets, which a backend refuses whose templates own them.
    """

    requirement: str
    name: str
    check: Check
    within: float
    backend: str | None = None
    world: bool = False
    uncredentialed: bool = False
    own_caps: bool = False


_rows: list[Row] = []


def row(
    requirement: str,
    *,
    within: float = 60.0,
    backend: str | None = None,
    world: bool = False,
    hostile: bool = False,
    uncredentialed: bool = False,
    own_caps: bool = False,
) -> Callable[[Check], Check]:
    """Register an async function as a row of a requirement; the function itself stays as it is.

    :param hostile: it lets code loose that harms what it reaches: only where that is not this machine, and of the world.
    """
    if requirement not in RULES:
        message = f"there is no requirement {requirement}"
        raise ValueError(message)

    def register(check: Check) -> Check:
        name: str = check.__name__
        checked = _kept_away(check) if hostile else check
        _rows.append(Row(requirement, name, checked, within, backend, world or hostile, uncredentialed, own_caps))
        return check

    return register


def _kept_away(check: Check) -> Check:
    @functools.wraps(check)
    async def guarded(target: Target) -> Finding:
        await need_isolation(target)
        return await check(target)

    return guarded


def all_rows() -> tuple[Row, ...]:
    """Return every row, in the order in which they are run."""
    for module in MODULES:
        importlib.import_module(f"{__name__}.{module}")
    order = {f"{__name__}.{module}": position for position, module in enumerate(MODULES)}
    return tuple(sorted(_rows, key=lambda one: order[one.check.__module__]))
