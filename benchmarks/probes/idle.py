"""What sandboxes cost while nothing runs in them."""

import asyncio
import gc
import sys
from typing import Any

import docker
import sandboxio

from benchmarks.contenders.ours import Ours
from benchmarks.probes.process import Footprint, answer, look, reaper_pid

PAUSE = 5.0
REST = 10.0
"""Seconds after the last command until a sandbox counts as idle: what may have been written is looked at once more."""


async def main(count: int) -> None:
    """Make one, which pays for what all share; then ``count`` more; then wait."""
    ours = Ours("probe")
    held = [await ours.make()]
    await held[0].run(["true"])
    reaper = reaper_pid()
    before = _settled(), look(reaper)
    for _ in range(count):
        held.append(await ours.make())
        await held[-1].run(["true"])
    after = _settled(), look(reaper)
    api: Any = docker.from_env().api
    await asyncio.sleep(REST)
    inside = _inside(api, held[0])
    idle = look(), look(reaper)
    await asyncio.sleep(PAUSE)
    later = look(), look(reaper)
    spent = _inside(api, held[0])["cpu_ns"] - inside["cpu_ns"]
    for sandbox in held:
        await sandbox.kill()
    answer(
        {
            "kib_each": (after[0].rss_kib - before[0].rss_kib) / count,
            "reaper_kib_each": (after[1].rss_kib - before[1].rss_kib) / count,
            "threads": after[0].threads - before[0].threads,
            "switches": later[0].switches - idle[0].switches,
            "reaper_switches": later[1].switches - idle[1].switches,
            "inside_mib": inside["rss_kib"] / 1024,
            "cgroup_mib": inside["bytes"] / 2**20,
            "inside_cpu_ms": spent / 1e6,
        }
    )


def _settled() -> Footprint:
    gc.collect()
    return look()


def _inside(api: Any, sandbox: sandboxio.Sandbox) -> dict[str, int]:
    listed = api.top(sandbox.id, ps_args="-eo pid,rss")
    rss = listed["Titles"].index("RSS")
    stats = api.stats(sandbox.id, stream=False, one_shot=True)
    return {
        "rss_kib": max(int(process[rss]) for process in listed["Processes"]),
        "bytes": stats["memory_stats"]["usage"],
        "cpu_ns": stats["cpu_stats"]["cpu_usage"]["total_usage"],
    }


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
