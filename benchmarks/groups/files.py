"""P6: 200 MiB in and out."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.bench import Bench
from benchmarks.contenders.base import Box
from benchmarks.contenders.ours import OurBox
from benchmarks.figure import CLI, OURS, Figure, Goal, milliseconds
from benchmarks.measure import Action, NotBuilt, Samples, alternate
from benchmarks.probes.start import probe
from benchmarks.settings import MIB

SIZE = 200 * MIB
REMOTE = "/tmp/benchmark"
IN_MEMORY = "in memory"
MEMORY_GOAL = 32.0
"""MiB above idle."""


async def measure(bench: Bench) -> list[Figure]:
    """Copy a file in and out, by everybody's way; ours also between the sandbox and memory."""
    runs = bench.few(7)
    with local_file(SIZE) as local:
        async with bench.boxes() as boxes:
            up, down, missing = await exchange(boxes, local, runs)
        memory = {} if missing else await probe("transfer", str(local))
    note = [f"n={runs} of 200 MiB each", *missing]
    figures = [
        Figure("P6", "upload 200 MiB", "ms", _as(up, OURS), (Goal(2.0, CLI),), note),
        Figure("P6", "download 200 MiB", "ms", _as(down, OURS), (Goal(1 / 0.9, CLI),)),
        Figure("", "files.write 200 MiB", "ms", _as(up, IN_MEMORY)),
        Figure("", "files.read 200 MiB", "ms", _as(down, IN_MEMORY)),
    ]
    for name in ("upload", "download"):
        peaks = {OURS: [memory[name]]} if memory else {}
        figures.append(Figure("P6", f"memory of {name}", "MiB", peaks, (Goal(MEMORY_GOAL),)))
    return figures


async def exchange(boxes: dict[str, Box], local: Path, runs: int) -> tuple[Samples, Samples, list[str]]:
    """Copy in and out in turns; the third result names what is not built."""
    missing: list[str] = []
    ours = boxes[OURS]
    assert isinstance(ours, OurBox)
    back = local.with_name("back")
    up: dict[str, Action] = {name: _put(box, local, missing) for name, box in boxes.items()}
    down: dict[str, Action] = {name: _get(box, back, missing) for name, box in boxes.items()}
    up[IN_MEMORY] = lambda: ours.write(local, REMOTE)
    down[IN_MEMORY] = lambda: ours.read(REMOTE)
    return await alternate(up, runs), await alternate(down, runs), sorted(set(missing))


@contextmanager
def local_file(size: int) -> Generator[Path]:
    """Make a file of random bytes, in a folder of its own."""
    with TemporaryDirectory(prefix="sandboxio-benchmark-") as folder:
        path = Path(folder, "content")
        block = os.urandom(min(size, MIB))
        with path.open("wb") as file:
            for start in range(0, size, MIB):
                file.write(block[: size - start])
        yield path


def _put(box: Box, local: Path, missing: list[str]) -> Action:
    async def act() -> float | None:
        try:
            return await box.put(local, REMOTE)
        except NotBuilt as error:
            missing.append(str(error))
            return None

    return act


def _get(box: Box, local: Path, missing: list[str]) -> Action:
    async def act() -> float | None:
        local.unlink(missing_ok=True)
        try:
            return await box.get(REMOTE, local)
        except NotBuilt as error:
            missing.append(str(error))
            return None

    return act


def _as(samples: Samples, ours: str) -> dict[str, list[float]]:
    """Return the samples with one of our two ways as ours."""
    others = {name: values for name, values in samples.items() if name not in (OURS, IN_MEMORY)}
    return milliseconds({OURS: samples[ours], **others})
