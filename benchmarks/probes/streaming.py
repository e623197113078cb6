"""How much memory a consumer needs that is slower than the command."""

import asyncio
import sys

from benchmarks.contenders.ours import Ours
from benchmarks.probes.process import answer, forget_peak, look

PAUSE = 2.0


async def main(size: int) -> None:
    """Read one chunk, pause, read the rest."""
    async with await Ours("probe").make() as sandbox:
        await sandbox.run(["true"])
        forget_peak()
        idle = look()
        seen = 0
        async with sandbox.stream(["head", "-c", str(size), "/dev/zero"]) as process:
            async for chunk in process:
                if not seen:
                    await asyncio.sleep(PAUSE)
                seen += len(chunk.data)
        assert seen == size
        answer({"peak_mib": (look().peak_kib - idle.rss_kib) / 1024})


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
