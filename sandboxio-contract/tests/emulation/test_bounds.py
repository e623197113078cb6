"""An emulated sandbox can't take all that this machine has: its provider's machine would be another one."""

import asyncio

import pytest
from sandboxio_contract.emulation import Guest, Machine

from .running import run

pytestmark = pytest.mark.emulated

FORKS = """
import os, time
made = 0
try:
    while made < 5000:
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        made += 1
except OSError:
    print("refused", made < 200)
"""
MEMORY = """
try:
    held = bytearray(2**30)
except MemoryError:
    print("refused")
"""


def test_processes_memory_and_space_are_bounded_for_each_guest_alone() -> None:
    async def main() -> None:
        machine = Machine(disk_mb=16, memory_mb=512, processes=100)
        one, other = await Guest.start(machine), await Guest.start(Machine(disk_mb=16, processes=100))
        try:
            script = f"python3 -c '{FORKS}' & wait $!; kill -9 -1"
            assert b"refused True" in (await run(one, ["sh", "-c", script])).stdout
            assert (await run(other, ["sh", "-c", "true | true; echo works"])).stdout == b"works\n"
            assert (await run(one, ["python3", "-c", MEMORY])).stdout == b"refused\n"
            filled = await run(one, ["sh", "-c", "head -c 30000000 /dev/zero 2>/dev/null > x || echo full"])
            assert filled.stdout == b"full\n"
        finally:
            await one.close()
            await other.close()

    asyncio.run(main())
