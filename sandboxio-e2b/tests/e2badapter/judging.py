"""The contract on an emulator of its own; a file for each event loop, so that two workers share it."""

from sandboxio_contract import Contract

from .emulator.emulator import Emulator
from .emulator.ground import ground, target


def contract_on(loop: str) -> Contract:
    """Return every row on one loop; the report has both under one name."""
    emulator = Emulator()
    return Contract(target(emulator), ground=ground(emulator), name="e2b://base", loops=[loop])
