"""How it grows: a figure that grows faster than its work is a defect."""

from collections.abc import Mapping, Sequence

from benchmarks.bench import Bench
from benchmarks.contenders.base import Box
from benchmarks.figure import CLI, ENGINE, OURS, Figure
from benchmarks.groups.files import exchange, local_file
from benchmarks.measure import Action, NotBuilt, alternate
from benchmarks.settings import MIB

SANDBOXES = (1, 10, 100)
FILES = {"1 KiB": 1024, "1 MiB": MIB, "16 MiB": 16 * MIB, "128 MiB": 128 * MIB, "1 GiB": 1024 * MIB}
COMMANDS = (1, 10, 100, 1000)
MOST_EXECS = 100
"""Of the engine's own at once in one container: each costs it several processes."""


async def measure(bench: Bench) -> list[Figure]:
    """Measure the same with more and more of it."""
    return [*await _sandboxes(bench), *await _files(bench), *await _commands(bench)]


async def _sandboxes(bench: Bench) -> list[Figure]:
    figures: list[Figure] = []
    for count in SANDBOXES:
        runs = bench.few(1 if count > 10 else 5)

        async def ours(count: int = count) -> float:
            return (await bench.ours.crowd(count)).seconds

        async def plain(count: int = count) -> float:
            return (await bench.plain.crowd(count)).seconds

        samples = await alternate({OURS: ours, ENGINE: plain}, runs)
        figures.append(_each(f"{count} sandboxes at once, each", samples, count, runs))
    return figures


async def _files(bench: Bench) -> list[Figure]:
    figures: list[Figure] = []
    async with bench.boxes(memory_mb=2048, disk_mb=4096) as boxes:
        two = {name: boxes[name] for name in (OURS, CLI)}
        for label, size in FILES.items():
            runs = bench.few(1 if size > 128 * MIB else 5)
            with local_file(size) as local:
                up, down, _ = await exchange(two, local, runs)
            for what, samples in (("write/upload", up), ("read/download", down)):
                ours = {**samples, OURS: samples[OURS] or samples["in memory"]}
                ours.pop("in memory")
                figures.append(_each(f"{what} of {label}, each MiB", ours, size / MIB, runs))
    return figures


async def _commands(bench: Bench) -> list[Figure]:
    figures: list[Figure] = []
    async with bench.boxes(memory_mb=2048, pids=2500) as boxes:
        for count in COMMANDS:
            runs = bench.few(1 if count > 100 else 5)
            names = (OURS, ENGINE) if count <= MOST_EXECS else (OURS,)
            samples = await alternate({name: _many(boxes[name], count) for name in names}, runs)
            figures.append(_each(f"{count} commands at once, each", samples, count, runs))
    return figures


def _many(box: Box, count: int) -> Action:
    async def act() -> float | None:
        try:
            return await box.many(count)
        except NotBuilt:
            return None

    return act


def _each(title: str, samples: Mapping[str, Sequence[float]], count: float, runs: int) -> Figure:
    each = {name: [1000 * value / count for value in values] for name, values in samples.items()}
    return Figure("", title, "ms", each, (), [f"n={runs}"] if runs < 5 else [])
