"""A liar on the stub that breaks core where a synchronous program of the suite's own loads it, and nowhere else."""

import sys

from sandboxio.loop_thread import Submitted

from sandboxio_contract.liars.faults import nothing_of
from sandboxio_contract.liars.stub import StubBackend
from sandboxio_contract.liars.stubs import Adapter

PROGRAM = "sandboxio_contract.synchronous"

_spec = sys.modules["__main__"].__spec__
if _spec is not None and _spec.name == PROGRAM:
    Submitted.cancel = nothing_of  # type: ignore[method-assign]

liar_deaf = Adapter("liar-deaf", StubBackend)
