"""Which rows go to one of pytest-xdist's workers: those of one module, which share what they set up.

Not by ``xdist_group``: what pytest-xdist 3.8 does with it is lost in pytest 9.2, whose items have no id that can be changed.
"""

import re
from typing import Any

import pytest

from sandboxio_contract.rows import all_rows

NETWORK = ("network", "fixed")
"""The modules of rows that need canaries, which only one process of a machine can have."""
_ROW = re.compile(r"(?P<requirement>[A-Z]+-[0-9]+)-(?P<name>\w+)-(asyncio|trio)\Z")


def by_module(config: pytest.Config, log: Any) -> Any:
    """Return a scheduler; what is no row goes its usual way."""
    from xdist.scheduler import LoadGroupScheduling  # type: ignore[import-untyped]

    class ByModule(LoadGroupScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid) or str(super()._split_scope(nodeid))

    return ByModule(config, log)


def group_of(nodeid: str) -> str | None:
    """Return the group of a row by the id of its test, ``None`` for any other test."""
    found = _ROW.match(nodeid.rpartition("::")[2])
    if found is None:
        return None
    for row in all_rows():
        if (row.requirement, row.name) == (found["requirement"], found["name"]):
            module = row.check.__module__.rpartition(".")[2]
            return f"rows of {NETWORK[0] if module in NETWORK else module}"
    return None
