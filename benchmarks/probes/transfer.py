"""How much memory upload and download need."""

import asyncio
import sys
from collections.abc import Awaitable
from pathlib import Path

from benchmarks.contenders.ours import OurBox, Ours
from benchmarks.probes.process import answer, forget_peak, look

REMOTE = "/tmp/benchmark"


async def main(local: Path) -> None:
    """Upload and download once each."""
    async with await Ours("probe").make() as sandbox:
        box = OurBox(sandbox)
        await box.true()
        upload = await _peak(box.put(local, REMOTE))
        download = await _peak(box.get(REMOTE, local.with_name("again")))
    answer({"upload": upload, "download": download})


async def _peak(work: Awaitable[float]) -> float:
    """Await ``work`` and return the MiB by which resident memory rose meanwhile."""
    forget_peak()
    idle = look()
    await work
    return (look().peak_kib - idle.rss_kib) / 1024


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
