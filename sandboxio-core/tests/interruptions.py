"""The ways in which a caller can be interrupted, each delivered at a chosen suspension of a coroutine."""

import asyncio
import signal
import warnings
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
import trio

Body = Callable[[], Awaitable[object]]
Act = Callable[[], object]

WAYS = (
    "asyncio: anyio scope",
    "asyncio: one native cancel",
    "asyncio: two native cancels",
    "asyncio: asyncio.timeout",
    "asyncio: KeyboardInterrupt",
    "trio: anyio scope",
    "trio: KeyboardInterrupt",
)


class Counted:
    """Forwards what its coroutine yields and gets, counts the suspensions, and acts at one of them."""

    def __init__(self, awaitable: Awaitable[object], at: int, act: Act) -> None:
        self._awaitable = awaitable
        self._at = at
        self._act = act
        self.count = 0

    def __await__(self) -> Generator[Any, Any, object]:
        inner = self._awaitable.__await__()
        step: Callable[[], Any] = lambda: next(inner)  # noqa: E731
        while True:
            try:
                yielded = step()
            except StopIteration as stop:
                return stop.value
            self.count += 1
            if self.count == self._at:
                self._act()
            try:
                value = yield yielded
            except BaseException as error:  # noqa: BLE001 - whatever is thrown is forwarded
                step = _throwing(inner, error)
            else:
                step = _sending(inner, value)


def _throwing(inner: Generator[Any, Any, Any], error: BaseException) -> Callable[[], Any]:
    return lambda: inner.throw(error)


def _sending(inner: Generator[Any, Any, Any], value: object) -> Callable[[], Any]:
    return lambda: inner.send(value)


@dataclass
class Outcome:
    """How a run ended.

    :param delivered: whether the chosen suspension was reached.
    :param surfaced: whether the interruption came out as what it was.
    """

    delivered: bool = False
    surfaced: bool = False
    error: BaseException | None = None
    warned: list[warnings.WarningMessage] = field(default_factory=list[warnings.WarningMessage])


def interrupt(way: str, body: Body, at: int) -> Outcome:
    """Run ``body`` in a loop of its own and interrupt it at its ``at``-th suspension."""
    outcome = Outcome()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            _RUNNERS[way](body, at, outcome)
        except BaseException as error:  # noqa: BLE001 - it is judged by the test
            outcome.error = error
    outcome.warned = [one for one in caught if not issubclass(one.category, DeprecationWarning)]
    return outcome


def _acting(outcome: Outcome, act: Act) -> Act:
    def once() -> None:
        outcome.delivered = True
        act()

    return once


async def _in_scope(body: Body, at: int, outcome: Outcome) -> None:
    with anyio.CancelScope() as scope:
        await Counted(body(), at, _acting(outcome, scope.cancel))
        await anyio.lowlevel.checkpoint()
    outcome.surfaced = scope.cancelled_caught


def _asyncio_scope(body: Body, at: int, outcome: Outcome) -> None:
    asyncio.run(_in_scope(body, at, outcome))


def _trio_scope(body: Body, at: int, outcome: Outcome) -> None:
    trio.run(_in_scope, body, at, outcome)


def _native(body: Body, at: int, outcome: Outcome, times: int) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()

        def cancel() -> None:
            task.cancel()
            for again in range(1, times):
                loop.call_later(0.05 * again, task.cancel)

        async def run() -> None:
            await Counted(body(), at, _acting(outcome, cancel))

        task = asyncio.create_task(run())
        await asyncio.wait({task})
        outcome.surfaced = task.cancelled()
        if not task.cancelled():
            task.result()

    asyncio.run(main())


def _asyncio_timeout(body: Body, at: int, outcome: Outcome) -> None:
    async def main() -> None:
        try:
            async with asyncio.timeout(None) as deadline:
                await Counted(body(), at, _acting(outcome, lambda: deadline.reschedule(0)))
        except TimeoutError:
            outcome.surfaced = True

    asyncio.run(main())


def _asyncio_keyboard(body: Body, at: int, outcome: Outcome) -> None:
    async def main() -> None:
        await Counted(body(), at, _acting(outcome, lambda: signal.raise_signal(signal.SIGINT)))

    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        outcome.surfaced = True


def _trio_keyboard(body: Body, at: int, outcome: Outcome) -> None:
    @trio.lowlevel.enable_ki_protection
    def press() -> None:
        signal.raise_signal(signal.SIGINT)

    async def main() -> None:
        await Counted(body(), at, _acting(outcome, press))

    try:
        trio.run(main)
    except KeyboardInterrupt:
        outcome.surfaced = True


_RUNNERS: dict[str, Callable[[Body, int, Outcome], None]] = {
    "asyncio: anyio scope": _asyncio_scope,
    "asyncio: one native cancel": lambda body, at, outcome: _native(body, at, outcome, 1),
    "asyncio: two native cancels": lambda body, at, outcome: _native(body, at, outcome, 2),
    "asyncio: asyncio.timeout": _asyncio_timeout,
    "asyncio: KeyboardInterrupt": _asyncio_keyboard,
    "trio: anyio scope": _trio_scope,
    "trio: KeyboardInterrupt": _trio_keyboard,
}
assert tuple(_RUNNERS) == WAYS
