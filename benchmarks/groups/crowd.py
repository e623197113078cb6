"""P7: a hundred sandboxes at once from one process."""

import os

from benchmarks.bench import Bench
from benchmarks.contenders.base import Contender
from benchmarks.contenders.plain import Plain
from benchmarks.figure import ENGINE, OURS, Figure, Goal, milliseconds
from benchmarks.measure import Action, alternate
from benchmarks.settings import CONCURRENCY, GRACE

COUNT = 100
APART = "apart"
COUNT_WITH_NETWORK = 25
"""The engine's address pools hold about thirty networks."""
THREADS = 2 * CONCURRENCY + 4
"""What our process may have for any number of sandboxes: the workers of both lanes, and a few of the interpreter's."""


class Crowds:
    """The crowds of one figure, and what was seen of them."""

    def __init__(self, count: int, *, egress: bool) -> None:
        self.failures: list[str] = []
        self.threads: list[float] = []
        self._count = count
        self._egress = egress

    def failed(self, name: str) -> float:
        """Return how many sandboxes of a contender failed, in all its crowds."""
        return float(sum(failure.startswith(f"{name}: ") for failure in self.failures))

    def action(self, contender: Contender) -> Action:
        """Return one crowd of a contender."""

        async def act() -> float:
            seen = await contender.crowd(self._count, egress=self._egress)
            self.failures += [f"{contender.name}: {failure}" for failure in seen.failures]
            if contender.name == OURS:
                self.threads.append(seen.threads)
            return seen.seconds

        return act

    def apart(self, plain: Plain) -> Action:
        """Return one crowd of the engine's plain way, each in a network of its own."""

        async def act() -> float:
            seen = await plain.crowd_apart(self._count)
            self.failures += [f"{plain.name}: {failure}" for failure in seen.failures]
            return seen.seconds

        return act


async def measure(bench: Bench) -> list[Figure]:
    """Create all, run in all, remove all; first without a network, then with one."""
    os.environ["SBX_TEARDOWN_GRACE"] = str(GRACE)
    figures: list[Figure] = []
    for count, egress, what in ((COUNT, False, "deny"), (COUNT_WITH_NETWORK, True, "allow")):
        crowds = Crowds(count, egress=egress)
        runs = bench.few(3)
        actions = {contender.name: crowds.action(contender) for contender in bench.contenders}
        if egress:
            actions[APART] = crowds.apart(bench.plain)
        samples = await alternate(actions, runs, {other.name: 1 for other in bench.others})
        apart = samples.pop(APART, None)
        failed = {name: [crowds.failed(name) / len(samples[name])] for name in samples}
        note = [f"n={runs}, the others n=1; {CONCURRENCY} requests at once; llm-sandbox's are removed by force"]
        goals: tuple[Goal, ...] = (Goal(1.2, ENGINE),)
        if egress:
            note.append(f"it needs {count} free subnets: whoever else uses the engine's address pools makes it fail")
            note.append("the others share one bridge, where each reaches each: no goal, the next figure compares alike")
            goals = ()
        figures += [
            Figure("P7", f"{count} at once, {what}", "ms", milliseconds(samples), goals, note),
            Figure(
                "P7", f"failures of {count}, {what}", "each time", failed, (Goal(0),), sorted(set(crowds.failures))[:3]
            ),
            Figure("P7", f"threads at {count}", "threads", {OURS: crowds.threads}, (Goal(THREADS),)),
        ]
        if apart is not None:
            like = {OURS: samples[OURS], ENGINE: apart}
            note = [
                "the engine's containers too have a network of their own each; on a shared one they reach each other"
            ]
            figures.append(
                Figure("P7", f"{count} at once, allow, apart", "ms", milliseconds(like), (Goal(1.2, ENGINE),), note)
            )
    return figures
