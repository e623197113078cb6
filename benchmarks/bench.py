"""What every group of figures is given."""

import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from uuid import uuid4

from benchmarks.contenders.base import Box, Contender
from benchmarks.contenders.cli import Cli
from benchmarks.contenders.llm import LlmSandbox
from benchmarks.contenders.ours import Ours
from benchmarks.contenders.plain import Plain
from benchmarks.figure import OURS


@dataclass(frozen=True, slots=True)
class Bench:
    """One run: who takes part and how often each acts.

    :ivar runs: of quick actions; slow ones are fewer, and their figures say so.
    """

    ours: Ours
    plain: Plain
    others: tuple[Contender, ...]
    runs: int

    @property
    def contenders(self) -> tuple[Contender, ...]:
        """Everybody, us first."""
        return (self.ours, self.plain, *self.others)

    def few(self, at_most: int) -> int:
        """Return the number of runs of a slow action."""
        return min(self.runs, at_most)

    @asynccontextmanager
    async def boxes(
        self, *, memory_mb: int = 512, pids: int = 256, disk_mb: int = 1024
    ) -> AsyncGenerator[dict[str, Box]]:
        """Open a sandbox of each contender, and discard them at the end."""
        async with AsyncExitStack() as stack:
            opened: dict[str, Box] = {}
            for contender in self.contenders:
                _, box = await contender.open(memory_mb=memory_mb, pids=pids, disk_mb=disk_mb)
                stack.push_async_callback(box.discard)
                opened[contender.name] = box
            yield opened


@asynccontextmanager
async def prepared(runs: int, llm_python: str | None) -> AsyncGenerator[Bench]:
    """Start the contenders; at the end whatever they left is removed."""
    tag = uuid4().hex[:12]
    ours, plain = Ours(tag), Plain(tag)
    others: list[Contender] = [Cli(tag)]
    if llm_python:
        others.append(LlmSandbox(tag, llm_python))
    try:
        yield Bench(ours, plain, tuple(others), runs)
    finally:
        for contender in (*others, ours, plain):
            await contender.aclose()


def say(text: str) -> None:
    """Tell what is going on, beside the table."""
    sys.stderr.write(f"{text}\n")


__all__ = ["OURS", "Bench", "prepared", "say"]
