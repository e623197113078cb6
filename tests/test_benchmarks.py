"""The benchmarks' own arithmetic; no speed is asserted anywhere."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from benchmarks.figure import CLI, ENGINE, OURS, PEER, Figure, Goal
from benchmarks.measure import alternate
from benchmarks.probes.process import look
from benchmarks.table import render


def test_a_goal_compares_medians_and_is_not_met_by_an_outlier() -> None:
    figure = Figure("P1", "warm run", "ms", {OURS: [2, 3, 90], ENGINE: [60, 50, 61]}, (Goal(0.05, ENGINE), Goal(4)))
    ratio, absolute = figure.outcomes()
    assert (ratio.measured, ratio.met) == (0.05, True)
    assert (absolute.measured, absolute.met) == (3, True)


def test_what_was_not_measured_meets_no_goal() -> None:
    figure = Figure("P6", "upload", "ms", {OURS: [], CLI: [5]}, (Goal(2, CLI), Goal(1, PEER)))
    assert [outcome.met for outcome in figure.outcomes()] == [None, None]
    assert figure.to_json()["medians"] == {OURS: None, CLI: 5}


def test_the_table_shows_ratios_verdicts_and_notes() -> None:
    figure = Figure("P2", "create", "ms", {OURS: [60], ENGINE: [50]}, (Goal(0.6, ENGINE),), ["n=1"])
    table = render([figure])
    assert "50 (1.2×)" in table
    assert "NOT MET (1.2)" in table
    assert "P2: n=1" in table


def test_contenders_take_turns_and_each_turn_begins_with_another() -> None:
    order: list[str] = []

    def action(name: str) -> Callable[[], Coroutine[Any, Any, float]]:
        async def act() -> float:
            order.append(name)
            return 1.0

        return act

    samples = asyncio.run(alternate({name: action(name) for name in "ABC"}, 3, {"C": 1}))
    assert "".join(order) == "ABCBAAB"
    assert {name: len(values) for name, values in samples.items()} == {"A": 3, "B": 3, "C": 1}


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_a_look_at_a_process_counts_its_descriptors_and_threads() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        seen = look(process.pid)
    assert seen.threads == 1
    assert seen.descriptors >= 3
    assert seen.rss_kib > 0
