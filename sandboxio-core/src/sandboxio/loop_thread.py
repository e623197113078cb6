"""An asyncio loop in a daemon thread: for synchronous callers, and for SDKs that know asyncio only."""

import asyncio
import contextvars
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, TypeVar

from sandboxio.errors import ConfigurationError

T = TypeVar("T")

STOP_BOUND = 5.0
"""Seconds for what still runs in a loop to end, when the loop is stopped."""


class LoopThread:
    """One loop in one thread. What it is given runs in the context (trace, log fields) of whoever gave it."""

    def __init__(self, name: str) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._ended = False
        self._waited_for: set[Future[Any]] = set()
        self._lock = threading.RLock()  # a signal's handler may submit in the middle of a submission
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_here(self) -> bool:
        """Whether the caller runs in this thread."""
        return threading.current_thread() is self._thread

    def submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> "Submitted[T]":
        """Start ``work`` in the loop; where that has ended by now, it is cancelled work.

        :raises ConfigurationError: the thread stayed in the process that forked.
        """
        if self._pid != os.getpid():
            raise ConfigurationError("this belongs to the process that forked", hint="create a sandbox in the child")
        submitted = Submitted(self._loop, work)
        with self._lock:
            if self._ended:
                submitted.ended.set_exception(asyncio.CancelledError())
            else:
                self._waited_for.add(submitted.ended)
                submitted.ended.add_done_callback(self._waited_for.discard)
                self._loop.call_soon_threadsafe(submitted.begin, context=_context())
        return submitted

    def call_soon(self, act: Callable[[], None]) -> None:
        """Call ``act`` in the loop, unless that has ended or stayed in the process that forked."""
        if self._pid == os.getpid():
            with suppress(RuntimeError):  # it is closed
                self._loop.call_soon_threadsafe(act)

    def stop(self) -> None:
        """End the loop, cancelling what still runs in it; the thread ends with it."""
        if self._pid != os.getpid() or not self._thread.is_alive():
            return
        self.call_soon(self._stopping.set)
        if not self.is_here:
            self._thread.join(STOP_BOUND)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        main = self._loop.create_task(self._main())
        try:
            while not main.done():
                try:
                    self._loop.run_until_complete(main)
                except (SystemExit, KeyboardInterrupt):
                    # A caller's own callback ended so. Whoever waits for it is told; the others' sandboxes live on.
                    continue
        finally:
            self._loop.close()
            for ended in list(self._waited_for):  # what did not end in time: nobody may wait for it for ever
                ended.set_exception(asyncio.CancelledError())

    async def _main(self) -> None:
        await self._stopping.wait()
        with self._lock:
            self._ended = True
        await asyncio.sleep(0)  # what was submitted until now begins, so that it is among what is cancelled
        mine = asyncio.current_task()
        left = [task for task in asyncio.all_tasks() if task is not mine]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=STOP_BOUND)
        await self._loop.shutdown_asyncgens()


class Submitted(Generic[T]):
    """Work that was given to a loop thread.

    :ivar ended: resolved when the work has really ended; a cancelled one raises ``asyncio.CancelledError``.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self.ended: Future[T] = Future()
        self._loop = loop
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self._is_cancelled = False

    def begin(self) -> None:
        """Start the task; called in the loop."""
        if self._is_cancelled:
            self.ended.set_exception(asyncio.CancelledError())
            return
        self._task = self._loop.create_task(self._work())
        self._task.add_done_callback(self._end)

    def cancel(self) -> None:
        """Cancel the work, from any thread; it ends when it has cleaned up."""
        with suppress(RuntimeError):  # the loop is closed, and the work has ended with it
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()

    def _end(self, task: "asyncio.Task[T]") -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None:
            self.ended.set_exception(error)
        else:
            self.ended.set_result(task.result())


class SharedThread:
    """One loop thread per process for however many use it: started for the first, stopped after the last."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._reset()
        # The lock may be held by a thread that the child does not have.
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._lock = threading.RLock()  # a signal's handler may kill a sandbox in the middle of this
        self._thread: LoopThread | None = None
        self._users = 0

    def hold(self) -> "Hold":
        """Return a hold on the thread, which runs until every hold is released."""
        with self._lock:
            if self._thread is None:
                self._thread = LoopThread(self._name)
            self._users += 1
            return Hold(self, self._thread)

    def release(self, hold: "Hold") -> None:
        """Give up one hold, once; what a parent process held is no longer counted."""
        with self._lock:
            thread, was_released = hold.thread, hold.released
            hold.released = True
            if was_released or thread is not self._thread:
                return
            self._users -= 1
            if self._users:
                return
            self._thread = None
        thread.stop()


class Hold:
    """One user's hold on a shared thread.

    :ivar released: whether it was given up.
    """

    def __init__(self, shared: SharedThread, thread: LoopThread) -> None:
        self.thread = thread
        self.released = False
        self._shared = shared

    def release(self) -> None:
        """Give it up; repeating it does nothing."""
        self._shared.release(self)

    def release_soon(self) -> None:
        """Give it up from a finalizer: that may run in the middle of `SharedThread.hold`, so it takes no lock."""
        self.thread.call_soon(self.release)


def _context() -> contextvars.Context:
    """Return the caller's context, in which nothing says any more that another library's loop is running."""
    context = contextvars.copy_context()
    sniffio = sys.modules.get("sniffio")
    if sniffio is not None:
        context.run(sniffio.current_async_library_cvar.set, "asyncio")
    return context
