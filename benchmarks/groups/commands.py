"""P1: a command in a sandbox that is warm."""

from benchmarks.bench import Bench
from benchmarks.figure import ENGINE, PEER, Figure, Goal, milliseconds
from benchmarks.measure import alternate


async def measure(bench: Bench) -> list[Figure]:
    """Run ``true`` again and again."""
    async with bench.boxes() as boxes:
        actions = {name: box.true for name, box in boxes.items()}
        await alternate(actions, 3)  # whatever is slow the first time
        samples = await alternate(actions, 2 * bench.runs)
    goals = (Goal(0.05, ENGINE), Goal(0.05, PEER))
    return [Figure("P1", "warm run of `true`", "ms", milliseconds(samples), goals)]
