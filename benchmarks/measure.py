"""How everything is measured: the contenders take turns, A B A B, so that a noisy machine is noisy for all."""

from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")

Action = Callable[[], Awaitable[float | None]]
"""Does something once and returns the seconds it took; ``None``: done, but not to be counted."""
Samples = dict[str, list[float]]


class NotBuilt(Exception):
    """A contender has no such operation (yet); the message names it."""


async def timed(work: Awaitable[T]) -> tuple[float, T]:
    """Await ``work`` and return the seconds it took, and its result."""
    began = perf_counter()
    result = await work
    return perf_counter() - began, result


async def alternate(actions: Mapping[str, Action], runs: int, fewer: Mapping[str, int] | None = None) -> Samples:
    """Let every contender act ``runs`` times in turns, and each turn begin with another one.

    :param fewer: contenders that are too slow for as many runs.
    """
    names = list(actions)
    samples: Samples = {name: [] for name in names}
    for turn in range(runs):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            if turn < (fewer or {}).get(name, runs) and (seconds := await actions[name]()) is not None:
                samples[name].append(seconds)
    return samples
