"""P9: what the import costs, and the first create."""

from benchmarks.bench import Bench
from benchmarks.figure import ENGINE, OURS, Figure, Goal
from benchmarks.measure import Action, alternate
from benchmarks.probes.start import probe

HEAVY = "asyncio, anyio, pydantic, docker, sandboxio_docker"


async def measure(bench: Bench) -> list[Figure]:
    """Import in fresh processes; create twice in fresh processes."""
    await probe("first_create")  # it compiles whatever has no bytecode yet
    loaded: set[str] = set()
    actions: dict[str, Action] = {OURS: _import("sandboxio", loaded), ENGINE: _import("docker", set())}
    imports = await alternate(actions, bench.runs)
    cost = {name: [1000 * value for value in values] for name, values in imports.items()}
    firsts = [await probe("first_create") for _ in range(bench.few(7))]
    extra = [1000 * (first["first"] - first["later"]) for first in firsts]
    return [
        Figure("P9", "import, CPU", "ms", cost, (Goal(1.0),), ["engine = `import docker`, the SDK"]),
        Figure("P9", f"loaded of {HEAVY}", "modules", {OURS: [len(loaded)]}, (Goal(0),), sorted(loaded)),
        Figure(
            "P9", "first create minus a later one", "ms", {OURS: extra}, (Goal(300),), [f"n={len(extra)} processes"]
        ),
    ]


def _import(name: str, loaded: set[str]) -> Action:
    async def act() -> float:
        seen = await probe("importing", name)
        loaded.update(seen["heavy"])
        return float(seen["cpu"])

    return act
