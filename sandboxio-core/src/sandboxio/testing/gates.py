"""What happens at each moment of a wire call: before it is sent, after it is committed, before it is answered."""

from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

import anyio
import anyio.lowlevel

T = TypeVar("T")

Point = Literal["before", "committed", "answer"]
POINTS: tuple[Point, ...] = ("before", "committed", "answer")
Behaviour = Callable[[], Awaitable[None]]


class Gates:
    """The wire to the provider: records each call and lets a test stand at each of its moments.

    :ivar calls: the names of the calls made, in order.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._behaviours: dict[tuple[str, Point], Behaviour] = {}

    def at(self, call: str, point: Point, behaviour: Behaviour) -> None:
        """Await ``behaviour`` whenever a call of that name reaches that moment."""
        self._behaviours[call, point] = behaviour

    def clear(self) -> None:
        """Let everything through again."""
        self._behaviours.clear()

    async def wire(self, call: str, commit: Callable[[], T]) -> T:
        """Make one call; ``commit`` is what the provider does."""
        self.calls.append(call)
        await self._reach(call, "before")
        result = commit()
        await self._reach(call, "committed")
        await self._reach(call, "answer")
        return result

    async def _reach(self, call: str, point: Point) -> None:
        behaviour = self._behaviours.get((call, point))
        if behaviour is None:
            await anyio.lowlevel.checkpoint()
        else:
            await behaviour()


class Hold:
    """A behaviour that waits until the test lets it go; made inside the loop that it is for."""

    def __init__(self) -> None:
        self.reached = anyio.Event()
        self.release = anyio.Event()

    async def __call__(self) -> None:
        """Say that the moment came, and wait."""
        self.reached.set()
        await self.release.wait()


def raising(*errors: BaseException, then: BaseException | None = None) -> Behaviour:
    """Raise each error once, in order, then ``then`` for ever, or nothing."""
    left = list(errors)

    async def behaviour() -> None:
        await anyio.lowlevel.checkpoint()
        if left:
            raise left.pop(0)
        if then is not None:
            raise then

    return behaviour


async def stalling() -> None:
    """Never answer."""
    await anyio.sleep_forever()


def stalling_once() -> Behaviour:
    """Stall the first time, then let everything through."""
    stalled = False

    async def behaviour() -> None:
        nonlocal stalled
        if not stalled:
            stalled = True
            await anyio.sleep_forever()
        await anyio.lowlevel.checkpoint()

    return behaviour
