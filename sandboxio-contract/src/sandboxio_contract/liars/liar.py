"""What is told of one liar."""

from collections.abc import Set
from dataclasses import dataclass
from typing import Literal

Module = Literal[
    "stubs", "promises", "offers", "commands", "outputs", "ends", "programs", "networks", "caps", "lives", "agents"
]
REAL: tuple[Module, ...] = ("networks", "caps", "lives", "agents")
"""Where liars are that wrap the real Docker adapter; the others are stubs in memory."""


@dataclass(frozen=True, slots=True)
class Liar:
    """One broken backend.

    :param name: its DSN scheme, and the attribute of its module that holds its hooks.
    :param lie: what it does wrong.
    :param module: where in this package it is, and so what it is built on.
    :param must: requirements that convict it. :param may: requirements that also may.
    :param rows: where a requirement has rows for several ways to break it: exactly those that convict this liar.
    :param also: such rows that may convict it as well, or can't tell on a busy machine.
    :param unsafe: requirements that are not judged with it, since code let loose would not be held by the cap that it lacks.
    :param template: what it is judged with, where it needs an engine.
    """

    name: str
    lie: str
    module: Module
    must: Set[str]
    may: Set[str] = frozenset()
    rows: Set[str] = frozenset()
    also: Set[str] = frozenset()
    unsafe: Set[str] = frozenset()
    template: str = "sandboxio-test/python"

    @property
    def adapter(self) -> str:
        """Where its hooks are, as `sandboxio.register` takes it."""
        return f"sandboxio_contract.liars.{self.module}:{self.name.replace('-', '_')}"

    @property
    def is_real(self) -> bool:
        """Whether it needs an engine."""
        return self.module in REAL

    @property
    def dsn(self) -> str:
        """The target that it is judged as."""
        return f"{self.name}://{self.template if self.is_real else ''}"
