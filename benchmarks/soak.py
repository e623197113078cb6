"""Look for leaks: ``python -m benchmarks.soak``; prints what is held before, during and after.

It makes 10,000 warm runs, 500 sandboxes one after the other (every tenth with a network), and 100 at once. What
grows from the second half of a part to its end, or stays behind at the end, is a leak.
"""

import argparse
import asyncio
import gc
import sys
import time
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import docker

from benchmarks.contenders.ours import Ours
from benchmarks.probes.process import look, reaper_pid
from benchmarks.settings import META

META_LABEL = f"io.sandboxio.meta.{META}"
HEAD = ("", "rss KiB", "descriptors", "threads", "reaper rss KiB", "reaper fds", "containers", "networks")


@dataclass(frozen=True, slots=True)
class Held:
    """What this run holds: in its process, in its reaper's, and on the engine."""

    rss: int
    descriptors: int
    threads: int
    reaper_rss: int
    reaper_descriptors: int
    containers: int
    networks: int

    def row(self, title: str) -> str:
        """Return one line of the table."""
        values = (self.rss, self.descriptors, self.threads, self.reaper_rss, self.reaper_descriptors)
        return _line((title, *(f"{value:,}" for value in values), str(self.containers), str(self.networks)))


class Soak:
    """One run, with a tag by which only its own sandboxes are counted."""

    def __init__(self) -> None:
        tag = uuid4().hex[:12]
        self._ours = Ours(tag)
        self._filter = {"label": f"{META_LABEL}={tag}"}
        self._api: Any = docker.from_env().api

    def held(self) -> Held:
        """Look."""
        gc.collect()
        own, reaper = look(), look(reaper_pid())
        containers = self._api.containers(all=True, filters=self._filter)
        networks = self._api.networks(filters=self._filter)
        return Held(
            own.rss_kib,
            own.descriptors,
            own.threads,
            reaper.rss_kib,
            reaper.descriptors,
            len(containers),
            len(networks),
        )

    def tell(self, title: str) -> None:
        """Print what is held now."""
        sys.stdout.write(self.held().row(title) + "\n")
        sys.stdout.flush()

    async def runs(self, count: int) -> None:
        """Run ``true`` in one sandbox again and again."""
        async with await self._ours.make() as sandbox:
            for number in range(1, count + 1):
                assert (await sandbox.run(["true"])).ok
                if number % (max(count // 5, 1)) == 0:
                    self.tell(f"{number:,} runs")

    async def cycles(self, count: int) -> None:
        """Create and kill one sandbox after the other."""
        for number in range(1, count + 1):
            async with await self._ours.make(egress=number % 10 == 0) as sandbox:
                assert (await sandbox.run(["true"])).ok
            if number % (max(count // 5, 1)) == 0:
                self.tell(f"{number:,} cycles")

    async def crowd(self, count: int) -> None:
        """Have many at once."""
        seen = await self._ours.crowd(count)
        sys.stdout.write(f"  ({len(seen.failures)} of {count} failed, {seen.threads} threads while all existed)\n")
        self.tell(f"{count:,} at once")

    async def all(self, runs: int, cycles: int, at_once: int) -> int:
        """Do everything and return how much is left on the engine."""
        async with await self._ours.make() as sandbox:
            await sandbox.run(["true"])
        sys.stdout.write(_line(HEAD) + "\n")
        self.tell("before")
        await self.runs(runs)
        await self.cycles(cycles)
        await self.crowd(at_once)
        await self.crowd(at_once)
        await asyncio.sleep(11)  # idle worker threads end after ten seconds, once there is work again
        async with await self._ours.make():
            pass
        self.tell("after")
        last = self.held()
        await self._ours.aclose()
        return last.containers + last.networks


def _line(cells: tuple[str, ...]) -> str:
    return cells[0].ljust(16) + "".join(cell.rjust(16) for cell in cells[1:])


def main() -> int:
    """Return 1 if containers or networks are left."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--cycles", type=int, default=500)
    parser.add_argument("--at-once", type=int, default=100)
    options = parser.parse_args()
    began = time.monotonic()
    left = asyncio.run(Soak().all(options.runs, options.cycles, options.at_once))
    sys.stdout.write(f"{time.monotonic() - began:.0f} s; left on the engine: {left}\n")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
