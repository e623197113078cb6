"""Every row of the contract, on asyncio and trio, against the emulator."""

import os

import pytest
from sandboxio_contract import Contract

from .emulator.emulator import Emulator
from .emulator.ground import ground, target

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(os.geteuid() != 0, reason="emulated sandboxes need root"),
]
emulator = Emulator()
contract = Contract(target(emulator), ground=ground(emulator), name="e2b://base")
