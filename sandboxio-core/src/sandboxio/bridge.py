"""SDKs that know asyncio only, for callers on any loop: they run in one asyncio loop of their own, in a thread.

An adapter makes its SDK's clients there and calls them there, so that they belong to one loop for as long as the backend
lives, whichever loops come and go. Cancellation is carried over, and what is cancelled has ended when the caller goes on;
a stream is read no faster than its consumer takes it.
"""

import asyncio
import atexit
import sys
import threading
import weakref
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import Any, Generic, TypeVar, cast

import anyio

from sandboxio.errors import BackendUnavailable
from sandboxio.loop_thread import Hold, LoopThread, SharedThread
from sandboxio.teardown import finish, teardown_grace

T = TypeVar("T")
U = TypeVar("U")

_shared = SharedThread("sandboxio-bridge")
_left: set[Future[object]] = set()
"""What `Bridge.leave` was given and has not ended."""


@atexit.register
def _wait_for_what_was_left() -> None:
    if _left:
        wait(tuple(_left), teardown_grace())


class Bridge:
    """One backend's way to its SDK. The thread is started by the first call, and shared by all bridges."""

    def __init__(self) -> None:
        self._hold: Hold | None = None

    async def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run ``work`` in the SDK's loop; its errors are raised here as they are.

        :raises BackendUnavailable: the SDK cancelled its own work; that is no cancellation of the caller.
        """
        submitted = self._thread().submit(work)
        waker = _Waker()
        submitted.ended.add_done_callback(waker.wake)
        try:
            await waker.wait()
        except BaseException:
            submitted.cancel()
            await finish(waker.wait, teardown_grace(), lambda: None)
            raise
        return _outcome(submitted.ended)

    async def feed(self, items: AsyncIterator[T], work: "Callable[[AsyncIterator[T]], Coroutine[Any, Any, U]]") -> U:
        """Run ``work`` in the SDK's loop with ``items`` of the caller's, each taken when it is asked for there.

        If they fail, ``work`` fails where it waits for the next one: what it sends is never taken for whole.
        """
        fed: _Fed[T] = _Fed()
        submitted = self._thread().submit(lambda: work(fed))
        submitted.ended.add_done_callback(fed.wake)
        try:
            async for item in items:
                if not await fed.give(item, submitted.ended):
                    break  # it has ended without asking for more
            fed.end()
            await fed.until(submitted.ended.done)
        except BaseException:
            submitted.cancel()
            await finish(lambda: fed.until(submitted.ended.done), teardown_grace(), lambda: None)
            raise
        finally:
            if isinstance(items, AsyncGenerator):
                await items.aclose()
        return _outcome(submitted.ended)

    def iterate(self, make: Callable[[], AsyncIterator[T]]) -> "BridgedStream[T]":
        """Return the stream that ``make``, called in the SDK's loop, gives; close it with ``aclosing``."""
        return BridgedStream(self._thread(), make)

    def leave(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Start work that nobody waits for, such as the end of what a given-up request may still make.

        The thread stays for it, whatever becomes of this bridge; at the end of the process it is waited for, at most the
        grace. Its errors are nobody's.
        """
        hold = _shared.hold()
        left = hold.thread.submit(work).ended
        _left.add(left)
        left.add_done_callback(_left.discard)
        left.add_done_callback(lambda _: hold.release_soon())

    async def aclose(self) -> None:
        """Give up the thread; it ends with its last user. Clients have to be closed before, with `call`."""
        if self._hold is not None:
            self._hold.release()
            self._hold = None

    def _thread(self) -> LoopThread:
        if self._hold is None:
            self._hold = _shared.hold()
            weakref.finalize(self, self._hold.release_soon).atexit = False
        return self._hold.thread


class BridgedStream(AsyncIterator[T], Generic[T]):
    """A stream of the SDK's, read in one task of its loop, one item for each that is asked for.

    A read that is cancelled loses nothing: the next one gets what came.
    """

    def __init__(self, thread: LoopThread, make: Callable[[], AsyncIterator[T]]) -> None:
        self._thread = thread
        self._make = make
        self._ready: deque[T] = deque()
        self._asked = self._told = False
        self._wanted = asyncio.Event()
        self._waker: _Waker | None = None
        self._pumping = thread.submit(self._pump)
        self._pumping.ended.add_done_callback(self._wake)

    async def __anext__(self) -> T:
        """Return the next item."""
        while not self._ready:
            # Before it is asked for, and looked for once more after that: it comes from another thread.
            self._waker = waker = _Waker()
            if not self._asked:
                self._asked = True
                self._thread.call_soon(self._wanted.set)
            if self._ready:
                break
            if self._pumping.ended.done():
                self._told = True
                _outcome(self._pumping.ended)
                raise StopAsyncIteration
            await waker.wait()
        self._asked = False
        return self._ready.popleft()

    async def aclose(self) -> None:
        """End the stream, also while it waits for an item; an error that no read has raised is raised here."""
        self._pumping.cancel()
        waker = _Waker()
        self._pumping.ended.add_done_callback(waker.wake)
        await finish(waker.wait, teardown_grace(), lambda: None)
        if self._pumping.ended.done() and not self._told:
            with suppress(asyncio.CancelledError):
                self._pumping.ended.result()

    async def _pump(self) -> None:
        # One task from the first item to the last: what the SDK opened in it can only be closed in it.
        items = self._make()
        try:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                try:
                    item = await anext(items)
                except StopAsyncIteration:
                    return
                self._ready.append(item)
                self._wake()
        finally:
            close = getattr(items, "aclose", None)
            if close is not None:
                await close()

    def _wake(self, _: object = None) -> None:
        if self._waker is not None:
            self._waker.wake()


class _Fed(AsyncIterator[T], Generic[T]):
    """Items of the caller's, in the SDK's loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: Future[tuple[T] | None] | None = None
        self._ended = False
        self._waker: _Waker | None = None

    async def __anext__(self) -> T:
        """Ask for the next one, in the SDK's loop."""
        asked: Future[tuple[T] | None] = Future()
        with self._lock:
            if self._ended:
                raise StopAsyncIteration
            self._asked = asked
        self.wake()
        got = await asyncio.wrap_future(asked)
        if got is None:
            raise StopAsyncIteration
        return got[0]

    async def give(self, item: T, ended: "Future[Any]") -> bool:
        """Hand one over when it is asked for; false if nobody asks any more."""
        await self.until(lambda: ended.done() or self._asked is not None)
        with self._lock:
            asked, self._asked = self._asked, None
        if asked is None:
            return False
        asked.set_result((item,))
        return True

    def end(self) -> None:
        """Say that there are no more."""
        with self._lock:
            self._ended = True
            asked, self._asked = self._asked, None
        if asked is not None:
            asked.set_result(None)

    async def until(self, come: Callable[[], bool]) -> None:
        """Wait until something has come about of which `wake` tells."""
        while not come():
            # Before it is looked for once more: it comes about in another thread.
            self._waker = waker = _Waker()
            if come():
                return
            await waker.wait()

    def wake(self, _: object = None) -> None:
        """Tell the caller's loop."""
        if self._waker is not None:
            self._waker.wake()


class _Waker:
    """An event of the running loop that another thread sets."""

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._soon = _in_this_loop()

    def wake(self, _: object = None) -> None:
        with suppress(RuntimeError):  # the loop that waited has ended
            self._soon(self._event.set)

    async def wait(self) -> None:
        await self._event.wait()


def _in_this_loop() -> Callable[[Callable[[], object]], object]:
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        return cast("Callable[[Callable[[], object]], object]", trio.lowlevel.current_trio_token().run_sync_soon)
    return asyncio.get_running_loop().call_soon_threadsafe


def _outcome(ended: "Future[T]") -> T:
    try:
        return ended.result()
    except asyncio.CancelledError as error:
        raise BackendUnavailable(
            "the SDK gave the call up before it was answered",
            hint="see whether the backend is overloaded, and call again",
        ) from error
