"""Blocking work on many sandboxes at once, as a program with threads does it."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import active_count
from time import perf_counter
from typing import TypeVar

from benchmarks.contenders.base import Crowd
from benchmarks.settings import CONCURRENCY

T = TypeVar("T")
R = TypeVar("R")


def crowd(count: int, make: Callable[[], T], use: Callable[[T], object], remove: Callable[[T], object]) -> Crowd:
    """Make all, use all, remove all, `CONCURRENCY` at a time."""
    failures: list[str] = []
    began = perf_counter()
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        made = _each(pool, lambda _: make(), range(count), failures)
        _each(pool, use, made, failures)
        threads = active_count()
        _each(pool, remove, made, failures)
    return Crowd(perf_counter() - began, threads, failures)


def _each(pool: ThreadPoolExecutor, work: Callable[[T], R], items: Iterable[T], failures: list[str]) -> list[R]:
    done: list[R] = []
    for future in [pool.submit(work, item) for item in items]:
        error = future.exception()
        if error is None:
            done.append(future.result())
        else:
            failures.append(repr(error))
    return done
