"""A block of synchronous code that an asynchronous context is entered and left for."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Generic, TypeVar

from sandboxio.loop_thread import Hold
from sandboxio.sync.waiting import Waiter

if TYPE_CHECKING:
    from types import TracebackType

T = TypeVar("T")
S = TypeVar("S")


class Block(Generic[T, S]):
    """Enters and leaves a context in the loop.

    It has a hold of its own: where the sandbox is killed in the block, the context has to be left in the loop, too.

    :param form: the asynchronous form, for an error.
    :param wrap: makes what the block gets from what the context gave.
    """

    def __init__(
        self, waiter: Waiter, form: str, context: AbstractAsyncContextManager[T], wrap: Callable[[Waiter, T], S]
    ) -> None:
        self._waiter = waiter
        self._form = form
        self._context = context
        self._wrap = wrap
        self._hold: Hold | None = None

    def __enter__(self) -> S:
        """Enter the context."""
        entered: list[T] = []

        async def enter() -> None:
            entered.append(await self._context.__aenter__())

        hold = self._waiter.hold_for(self)
        try:
            self._waiter.call(self._form, enter)
            self._hold = hold
        except BaseException as error:
            if entered:  # a Ctrl-C came between the context's entry and its return
                self._hold = hold
                self.__exit__(type(error), error, error.__traceback__)
            hold.release()
            raise
        return self._wrap(self._waiter, entered[0])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> bool | None:
        """Leave the context; the hold is given up in any case."""

        async def leave() -> bool | None:
            return await self._context.__aexit__(kind, error, trace)

        hold, self._hold = self._hold, None
        try:
            return self._waiter.call(self._form, leave, hold)
        finally:
            if hold is not None:
                hold.release()
