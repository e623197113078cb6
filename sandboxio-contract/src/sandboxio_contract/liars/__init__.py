"""Deliberately broken backends: a suite that acquits one of them proves nothing.

Each liar names the requirements that must convict it and those that may. They are shipped so that whoever changes a row,
or writes one for another backend, can see that it still convicts. What core does for every backend none of them can break:
`sandboxio_contract.liars.cores` breaks core itself. `sandboxio_contract.liars.witnesses` blinds the suite's own controls.
"""

from sandboxio_contract.liars.in_memory import IN_MEMORY
from sandboxio_contract.liars.liar import Liar
from sandboxio_contract.liars.on_docker import ON_DOCKER

__all__ = ["LIARS", "Liar"]

LIARS: tuple[Liar, ...] = (*IN_MEMORY, *ON_DOCKER)
