"""What is told of one broken core, and how it is broken and repaired."""

from collections.abc import Generator, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

Fault = tuple[Any, str, object]
"""Module or class, the name of what is broken in it, and what stands in its place."""


@dataclass(frozen=True, slots=True)
class BrokenCore:
    """One broken behaviour of core.

    :param lie: what it does wrong.
    :param faults: what makes it do so.
    :param must: requirements that convict it. :param may: requirements that also may.
    :param rows: where a requirement has rows for several ways to break it: exactly those that convict it.
    :param stub: the honest stub that it is judged with, as ``module:attribute`` in this package.
    """

    name: str
    lie: str
    faults: tuple[Fault, ...]
    must: Set[str]
    may: Set[str] = frozenset()
    rows: Set[str] = frozenset()
    stub: str = "stubs:stub"

    @property
    def backend(self) -> str:
        """The DSN scheme of the stub."""
        return self.stub.partition(":")[2].replace("_", "-")

    @property
    def adapter(self) -> str:
        """Where the stub's hooks are, as `sandboxio.register` takes it."""
        return f"sandboxio_contract.liars.{self.stub}"

    @contextmanager
    def applied(self) -> Generator[None]:
        """Break core for the block."""
        with ExitStack() as stack:
            for where, name, broken in self.faults:
                stack.enter_context(patch.object(where, name, broken))
            yield
