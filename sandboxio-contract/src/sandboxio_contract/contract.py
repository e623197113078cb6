"""What a test module holds to be judged: ``contract = Contract("mybackend://")``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sandboxio_contract.ground.base import Ground


@dataclass(frozen=True)
class Contract:
    """All rows for one target; pytest collects one item per row and event loop from a module that holds it.

    :param dsn: the target.
    :param only: ids of the requirements to judge; all if empty.
    :param ground: how the suite looks at the backend's world; chosen by the backend's name if not given.
    :param register: backends without an entry point, name → ``"package.module:object"``.
    :param path: where they are found.
    :param loops: the event loops to judge on. Where tests are distributed by files, a file for each loop halves the time; the
        report is of all of them.
    :param name: what reports call the target; its DSN if not given, which may be another one in each run.
    """

    dsn: str
    only: Sequence[str] = ()
    ground: Ground | None = None
    register: Mapping[str, str] = field(default_factory=dict[str, str])
    path: Sequence[str] = ()
    name: str | None = None
    loops: Sequence[str] = ("asyncio", "trio")
