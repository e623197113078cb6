"""Interrupt an operation at one exact suspension, in each way in which a program can be interrupted.

The operation's coroutine is driven through an awaitable that forwards ``send`` and ``throw`` and counts how often it
suspends. At the n-th time the interruption is set off, so that it hits the operation at just that point.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import anyio

T = TypeVar("T")

Way = Literal["scope", "native", "native twice", "timeout", "interrupt"]
"""``scope``: an anyio scope is cancelled. ``native``: `asyncio.Task.cancel`, once or twice 50 ms apart. ``timeout``:
`asyncio.timeout` expires. ``interrupt``: KeyboardInterrupt is raised where the operation waits."""

When = Callable[[int], bool]
"""Is asked at each suspension, with its number, until it says yes: that is the point."""

WAYS: tuple[Way, ...] = ("scope", "native", "native twice", "timeout", "interrupt")
BETWEEN = 0.05


@dataclass(slots=True)
class Outcome(Generic[T]):
    """How an interrupted operation ended.

    :param fired: whether it was still running at the point.
    :param value: what it returned all the same.
    :param error: what it raised instead of the interruption.
    """

    fired: bool
    interrupted: bool = False
    value: T | None = None
    error: BaseException | None = None


class Driven(Generic[T]):
    """A coroutine that is awaited through this object; ``at_suspension`` may return an exception to throw in there."""

    def __init__(self, work: Coroutine[Any, Any, T], at_suspension: Callable[[int], BaseException | None]) -> None:
        self._work = work
        self._at_suspension = at_suspension
        self.suspensions = 0

    def __await__(self) -> Generator[Any, Any, T]:
        """Drive the coroutine to its end."""
        send: Any = None
        error: BaseException | None = None
        while True:
            try:
                waits_for = self._work.send(send) if error is None else self._work.throw(error)
            except StopIteration as ended:
                value: T = ended.value
                return value
            send, error = None, None
            self.suspensions += 1
            error = self._at_suspension(self.suspensions)
            if error is not None:
                # As a loop does that cancels a task. Hardly any program can leave a future pending that nobody waits
                # for, and a stream of anyio's that is then read again can wait for ever.
                if isinstance(waits_for, asyncio.Future):
                    waits_for.cancel()
                continue
            try:
                send = yield waits_for
            except BaseException as thrown:  # noqa: BLE001 - it belongs to the operation, which decides
                error = thrown


def at(point: int) -> When:
    """Name the ``point``-th suspension."""
    return lambda number: number == point


def ways() -> tuple[Way, ...]:
    """Return the ways that exist on the running event loop.

    trio has one kind of cancellation, its scopes; it raises KeyboardInterrupt in the main task only, and that is what
    a scope's cancellation already stands for.
    """
    return ("scope",) if on_trio() else WAYS


def on_trio() -> bool:
    """Whether the running event loop is trio's."""
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_run())


async def interrupt(way: Way, when: When, work: Callable[[], Coroutine[Any, Any, T]]) -> Outcome[T]:
    """Run an operation and interrupt it at the suspension that ``when`` names; see `at`."""
    return await {
        "scope": _by_scope,
        "native": _natively,
        "native twice": _natively_twice,
        "timeout": _by_timeout,
        "interrupt": _by_keyboard,
    }[way](when, work)


async def _by_scope(when: When, work: Callable[[], Coroutine[Any, Any, T]]) -> Outcome[T]:
    outcome: Outcome[T] = Outcome(fired=False)
    with anyio.CancelScope() as scope:

        def on(number: int) -> None:
            if not outcome.fired and when(number):
                outcome.fired = True
                scope.cancel()

        await _note(outcome, Driven(work(), on))
    outcome.interrupted = scope.cancelled_caught
    return outcome


async def _natively(when: When, work: Callable[[], Coroutine[Any, Any, T]]) -> Outcome[T]:
    return await _in_a_task(when, work, lambda task: task.cancel())


async def _natively_twice(when: When, work: Callable[[], Coroutine[Any, Any, T]]) -> Outcome[T]:
    def both(task: "asyncio.Task[None]") -> None:
        task.cancel()
        asyncio.get_running_loop().call_later(BETWEEN, task.cancel)

    return await _in_a_task(when, work, both)


async def _in_a_task(
    when: When, work: Callable[[], Coroutine[Any, Any, T]], cancel: "Callable[[asyncio.Task[None]], object]"
) -> Outcome[T]:
    outcome: Outcome[T] = Outcome(fired=False)

    def on(number: int) -> None:
        if not outcome.fired and when(number):
            outcome.fired = True
            cancel(task)

    async def body() -> None:
        await _note(outcome, Driven(work(), on))

    task = asyncio.get_running_loop().create_task(body())
    await asyncio.wait({task})
    outcome.interrupted = task.cancelled()
    return outcome


async def _by_timeout(when: When, work: Callable[[], Coroutine[Any, Any, T]]) -> Outcome[T]:
    outcome: Outcome[T] = Outcome(fired=False)

    async def body() -> None:
        loop = asyncio.get_running_loop()
        limit = asyncio.timeout(None)
        try:
            async with limit:

                def on(number: int) -> None:
                    if not outcome.fired and when(number):
                        outcome.fired = True
                        limit.reschedule(loop.time())

                await _note(outcome, Driven(work(), on))
        except TimeoutError:
            outcome.interrupted = limit.expired()

    await asyncio.wait({asyncio.get_running_loop().create_task(body())})
    return outcome


async def _by_keyboard(when: When, work: Callable[[], Coroutine[Any, Any, T]]) -> Outcome[T]:
    outcome: Outcome[T] = Outcome(fired=False)

    def on(number: int) -> BaseException | None:
        if outcome.fired or not when(number):
            return None
        outcome.fired = True
        return KeyboardInterrupt()

    async def body() -> None:
        try:
            await _note(outcome, Driven(work(), on))
        except KeyboardInterrupt:
            outcome.interrupted = True

    await asyncio.wait({asyncio.get_running_loop().create_task(body())})
    return outcome


async def _note(outcome: Outcome[T], driven: Driven[T]) -> None:
    try:
        outcome.value = await driven
    except Exception as error:  # noqa: BLE001 - anything but the interruption is a finding
        outcome.error = error
