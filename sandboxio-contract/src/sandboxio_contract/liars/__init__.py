"""Deliberately broken backends: a suite that acquits one of them proves nothing.

Each liar names the requirements that must convict it and those that may. They are shipped so that whoever changes a row,
or writes one for another backend, can see that it still convicts.
"""

from collections.abc import Set
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Liar:
    """One broken backend.

    :param name: its DSN scheme, and the attribute of its module that holds its hooks.
    :param lie: what it does wrong.
    :param base: what it is built on: the stub in memory, or the real Docker adapter.
    :param must: requirements that convict it. :param may: requirements that also may.
    """

    name: str
    lie: str
    base: Literal["stub", "docker"]
    must: Set[str]
    may: Set[str] = frozenset()

    @property
    def adapter(self) -> str:
        """Where its hooks are, as `sandboxio.register` takes it."""
        module = "sandboxio_contract.liars." + ("stubs" if self.base == "stub" else "dockers")
        return f"{module}:{self.name.replace('-', '_')}"


_TEARDOWN = {"TRD-02", "TRD-03", "TRD-04", "TRD-05", "TRD-07", "LOOP-01", "TMO-03"}

LIARS: tuple[Liar, ...] = (
    Liar("liar-forgets", "kill answers, and forgets the sandbox alive", "stub", {"TRD-01"}, _TEARDOWN),
    Liar("liar-partial", "a command that is cut off is reported as success", "stub", {"TMO-03"}),
    Liar("liar-swallows", "cancellation while preparing is swallowed", "stub", {"TRD-05"}),
    Liar("liar-late", "a policy is refused after the sandbox was made", "stub", {"NET-05"}),
    Liar("liar-chatty", "planning already asks the provider", "stub", {"ISO-01"}),
    Liar("liar-orphans", "a creation that was given up is forgotten", "stub", {"TRD-05"}),
    Liar("liar-immortal", "only the client looks at the lifetime", "stub", {"TMO-05"}),
    Liar("liar-twice", "killing what is gone is an error", "stub", {"TRD-04"}),
    Liar("liar-open", "the network is open although the plan says deny", "docker", {"NET-02"}, {"NET-10", "ISO-06"}),
    Liar("liar-swaps", "memory is capped, swap is not", "docker", {"CAP-03"}, {"ISO-06"}),
    Liar("liar-forks", "the process ceiling is only in the receipt", "docker", {"CAP-04"}, {"ISO-06"}),
    Liar("liar-bridge", "every sandbox that may go out shares one bridge", "docker", {"NET-13"}),
)
