"""What the first create of a process costs more than a later one."""

import asyncio
from statistics import median
from time import perf_counter

import sandboxio

from benchmarks.probes.process import answer
from benchmarks.settings import IMAGE

LATER = 5


async def create() -> float:
    """Create and kill one sandbox and return the seconds of its creation."""
    began = perf_counter()
    async with sandboxio.create(f"docker://{IMAGE}", timeout=60):
        return perf_counter() - began


async def main() -> None:
    """Create some."""
    first = await create()
    answer({"first": first, "later": median([await create() for _ in range(LATER)])})


if __name__ == "__main__":
    asyncio.run(main())
