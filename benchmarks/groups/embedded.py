"""P4: sandboxes of this machine's own kernel, against the bare program and against no sandbox at all."""

import asyncio
import subprocess
from time import perf_counter

import sandboxio
from sandboxio_bubblewrap.program import find_program

from benchmarks.bench import Bench
from benchmarks.figure import BARE, OURS, Figure, Goal, milliseconds
from benchmarks.measure import alternate, timed

TARGET = "bubblewrap://"
MANY = 100
# The same namespaces, a read-only root, and devices and processes of its own; no caps, no filter, no agent.
BARE_OPTIONS = (
    *("--unshare-all", "--unshare-user", "--uid", "1000", "--gid", "1000", "--disable-userns", "--cap-drop", "ALL"),
    *("--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib"),
    *("--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
)


async def measure(bench: Bench) -> list[Figure]:
    """Make one after the other, run in one that is warm, and make a hundred at once."""
    await _ours()
    await _bare()
    created = await alternate({OURS: _ours, BARE: _bare}, bench.runs)
    return [
        Figure(
            "P4",
            "create → first result, bubblewrap",
            "ms",
            milliseconds(created),
            (Goal(3, BARE),),
            [f"{BARE}: bwrap with the same namespaces and `true`, no caps, filter or agent"],
        ),
        await _warm(bench),
        await _crowd(bench),
    ]


async def _made() -> sandboxio.Sandbox:
    return await sandboxio.create(TARGET)


async def _ours() -> float:
    began = perf_counter()
    sandbox = await sandboxio.create(TARGET)
    await sandbox.run(["true"])
    seconds = perf_counter() - began
    await sandbox.kill()
    return seconds


async def _bare() -> float:
    began = perf_counter()
    process = await asyncio.create_subprocess_exec(find_program().path, *BARE_OPTIONS, "/usr/bin/true")
    assert await process.wait() == 0
    return perf_counter() - began


async def _warm(bench: Bench) -> Figure:
    """Measure what a warm run costs beyond the same command without any sandbox, pair by pair."""
    beyond: list[float] = []
    async with sandboxio.create(TARGET) as sandbox:
        for _ in range(2 * bench.runs + 3):
            inside, _ = await timed(sandbox.run(["true"]))
            began = perf_counter()
            subprocess.run(["true"], check=True)  # noqa: ASYNC221 - it is what is compared
            beyond.append(inside - (perf_counter() - began))
    return Figure(
        "P4", "warm run of `true` beyond subprocess.run, bubblewrap", "ms", milliseconds({OURS: beyond[3:]}), (Goal(2),)
    )


async def _crowd(bench: Bench) -> Figure:
    samples: dict[str, list[float]] = {OURS: [], BARE: []}
    failures: list[str] = []
    for _ in range(bench.few(3)):
        began = perf_counter()
        made = await asyncio.gather(*(_made() for _ in range(MANY)), return_exceptions=True)
        alive = [one for one in made if isinstance(one, sandboxio.Sandbox)]
        ran = await asyncio.gather(*(one.run(["true"]) for one in alive), return_exceptions=True)
        await asyncio.gather(*(one.kill() for one in alive))
        samples[OURS].append(perf_counter() - began)
        failures += [repr(one) for one in (*made, *ran) if isinstance(one, BaseException)]
        began = perf_counter()
        await asyncio.gather(*(_bare() for _ in range(MANY)))
        samples[BARE].append(perf_counter() - began)
    note = f"{len(failures)} of {bench.few(3) * MANY} failed{': ' + failures[0] if failures else ''}; {BARE}: as many at once"
    return Figure("P4", f"{MANY} at once: create, run, kill, bubblewrap", "s", samples, (), [note])
