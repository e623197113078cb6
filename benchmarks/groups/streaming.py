"""P5: a hundred megabytes of output."""

from collections.abc import Callable, Coroutine
from typing import Any

from benchmarks.bench import Bench
from benchmarks.contenders.base import Box
from benchmarks.figure import ENGINE, OURS, Figure, Goal, milliseconds
from benchmarks.measure import alternate
from benchmarks.probes.start import probe

SIZE = 100_000_000
MEMORY_GOAL = 32.0
"""MiB above idle."""


async def measure(bench: Bench) -> list[Figure]:
    """Drop what ``head -c 100000000 /dev/zero`` prints, as fast as it comes; then slowly, looking at the memory."""
    runs = bench.few(15)
    async with bench.boxes() as boxes:
        samples = await alternate({name: _stream(box) for name, box in boxes.items()}, runs)
    speed = Figure(
        "P5", "100 MB of stdout", "ms", milliseconds(samples), (Goal(1.0, ENGINE),), [f"n={runs} of 100 MB each"]
    )
    memory = await probe("streaming", str(SIZE))
    notes = ["the consumer pauses for 2 s after its first chunk; peak resident memory of a fresh process above idle"]
    flat = Figure("P5", "memory while streaming", "MiB", {OURS: [memory["peak_mib"]]}, (Goal(MEMORY_GOAL),), notes)
    return [speed, flat]


def _stream(box: Box) -> Callable[[], Coroutine[Any, Any, float]]:
    return lambda: box.stream(SIZE)
