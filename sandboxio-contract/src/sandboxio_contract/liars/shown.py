"""All lies, and what is convicted as the README of this distribution shows it."""

from sandboxio_contract.liars import LIARS, Liar
from sandboxio_contract.liars.cores import CORES, BrokenCore
from sandboxio_contract.liars.witnesses import WITNESSES, BlindWitness
from sandboxio_contract.requirements import RULES

Lie = Liar | BrokenCore | BlindWitness
LIES: tuple[Lie, ...] = (*LIARS, *CORES, *WITNESSES)


def markdown() -> str:
    """Return a table of the lies that each requirement must convict."""
    lines = ["| requirement | convicts a backend, or a core, of which this is true |", "|---|---|"]
    for requirement in RULES:
        told = "; ".join(one.lie for one in LIES if requirement in one.must)
        lines.append(f"| {requirement} | {told} |")
    return "\n".join(lines) + "\n"
