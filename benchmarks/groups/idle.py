"""P10 and P11: what a sandbox costs that does nothing, in the owner's process and inside."""

from benchmarks.bench import Bench
from benchmarks.figure import OURS, Figure, Goal
from benchmarks.probes.start import probe


async def measure(bench: Bench) -> list[Figure]:
    """Hold some sandboxes in fresh processes."""
    seen = [await probe("idle", "40") for _ in range(bench.few(3))]

    def figure(key: str, title: str, unit: str, name: str, most: float, *notes: str) -> Figure:
        return Figure(key, title, unit, {OURS: [look[name] for look in seen]}, (Goal(most),), list(notes))

    return [
        figure("P10", "memory per idle sandbox", "KiB", "kib_each", 150, f"n={len(seen)} processes, 40 sandboxes each"),
        figure("P10", "the reaper's share of it", "KiB", "reaper_kib_each", 150),
        figure("P10", "threads for 40 more sandboxes", "threads", "threads", 0),
        figure("P10", "wake-ups in 5 s of 41 idle", "switches", "switches", 5),
        figure(
            "P10",
            "the reaper's wake-ups",
            "switches",
            "reaper_switches",
            20,
            "none of them for a sandbox in which nothing lives",
        ),
        figure(
            "P11",
            "resident, the agent",
            "MiB",
            "inside_mib",
            12,
            "its prepared supervisor is a fork and shares most of its pages with it",
        ),
        figure(
            "P11",
            "control group, all processes",
            "MiB",
            "cgroup_mib",
            12,
            "as the engine counts it, page cache and kernel memory too",
        ),
        figure("P11", "CPU in 5 s of idling", "ms", "inside_cpu_ms", 5),
    ]
