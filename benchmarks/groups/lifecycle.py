"""P2 and P3: from create to the first result, and from kill to gone."""

from benchmarks.bench import Bench
from benchmarks.contenders.base import Contender
from benchmarks.figure import ENGINE, PEER, Figure, Goal, milliseconds
from benchmarks.measure import Action, Samples, alternate

PEER_CLOSES = 3
"""llm-sandbox closes in more than ten seconds (it waits for the engine's stop grace): a few times tell enough."""


async def measure(bench: Bench) -> list[Figure]:
    """Open and remove one sandbox after the other."""
    removals: Samples = {contender.name: [] for contender in bench.contenders}
    actions = {contender.name: _cycle(contender, removals) for contender in bench.contenders}
    await _warm_up(bench)
    samples = await alternate(actions, bench.runs)
    created = Figure(
        "P2",
        "create → first result",
        "ms",
        milliseconds(samples),
        (Goal(0.6, ENGINE), Goal(0.6, PEER)),
        ["network none and the same caps for all; llm-sandbox without its environment set-up"],
    )
    killed = Figure(
        "P3",
        "kill → gone",
        "ms",
        milliseconds(removals),
        (Goal(1.2, ENGINE),),
        [f"llm-sandbox n={len(removals.get(PEER, ()))}: its close() waits for the engine's stop grace"],
    )
    return [created, killed]


async def _warm_up(bench: Bench) -> None:
    for contender in bench.contenders:
        _, box = await contender.open()
        await box.discard()


def _cycle(contender: Contender, removals: Samples) -> Action:
    async def act() -> float:
        seconds, box = await contender.open()
        if contender.name == PEER and len(removals[PEER]) >= PEER_CLOSES:
            await box.discard()
        else:
            removals[contender.name].append(await box.remove())
        return seconds

    return act
