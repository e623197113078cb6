"""Work that no cancellation may interrupt.

anyio's shield stops anyio's own cancellation, but not a native ``task.cancel()`` on asyncio, and trio delivers a
KeyboardInterrupt into a shielded wait. So such work runs in a task of its own that nobody else holds; the caller waits,
remembers what hits it meanwhile, and raises it afterwards.
"""

import asyncio
import contextvars
import math
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar, cast

import anyio

from sandboxio.bounds import seconds_from
from sandboxio.errors import BackendUnavailable, ConfigurationError, SandboxError

T = TypeVar("T")

Work = Callable[[], Coroutine[Any, Any, T]]

DEFAULT_GRACE = 5.0
MAX_GRACE = 300.0
SETTLE = 0.25
"""Seconds beyond the grace for work that was given up to clean up after itself."""


def check_grace() -> None:
    """Refuse a wrong ``$SBX_TEARDOWN_GRACE`` before anything exists that would have to be torn down.

    :raises ConfigurationError: it is no number of seconds.
    """
    _chosen_grace()


def teardown_grace() -> float:
    """Seconds that a teardown may take: ``$SBX_TEARDOWN_GRACE``, 5 by default and where that is wrong by now."""
    try:
        return _chosen_grace()
    except ConfigurationError:
        return DEFAULT_GRACE


def _chosen_grace() -> float:
    return seconds_from("SBX_TEARDOWN_GRACE", DEFAULT_GRACE, MAX_GRACE)


def is_cancellation(error: BaseException) -> bool:
    """Whether an error that others' code raised is this task's own cancellation, and not one that they made up or kept."""
    if not isinstance(error, anyio.get_cancelled_exc_class()):
        return False
    if anyio.current_effective_deadline() == -math.inf:
        return True
    task = None if _on_trio() else asyncio.current_task()
    return task is not None and task.cancelling() > 0


class OwnTask(Generic[T]):
    """A piece of work in a task of its own, started at once; to wait for it is cancellable, the work is not."""

    def __init__(self, work: Work[T]) -> None:
        self._value: T | None = None
        self._error: BaseException | None = None
        self._given_up = False
        self._task: _Runner = _TrioRunner(self._run, work) if _on_trio() else _AsyncioRunner(self._run, work)

    async def _run(self, work: Work[T]) -> None:
        try:
            self._value = await work()
        except (GeneratorExit, anyio.get_cancelled_exc_class()) as error:
            self._error = error
            raise
        except BaseException as error:  # noqa: BLE001 - it is raised in `result`; here a SystemExit would end the loop
            self._error = error

    @property
    def done(self) -> bool:
        """Whether the work ended."""
        return self._task.done

    @property
    def failed(self) -> bool:
        """Whether the work ended with an error of ours."""
        return self._task.done and isinstance(self._error, SandboxError)

    @property
    def given_up(self) -> bool:
        """Whether `cancel` was called; the work may still run for a moment."""
        return self._given_up

    def cancel(self) -> bool:
        """Give the work up; false if that was done before."""
        first, self._given_up = not self._given_up, True
        if first:
            self._task.cancel()
        return first

    async def wait(self) -> T:
        """Wait for the end and return the result; cancelling the wait leaves the work running."""
        while not self._task.done:
            await self._task.wait(None)
        return self.result()

    def result(self) -> T:
        """Return what the ended work returned, or raise what it raised.

        :raises BackendUnavailable: it was cancelled from within or given up; that is no cancellation of the caller.
        """
        if isinstance(self._error, (asyncio.CancelledError, GeneratorExit)) or _is_trio_cancelled(self._error):
            raise BackendUnavailable(
                "the call was given up before it was answered",
                hint="see whether the backend is overloaded, and call again",
            ) from self._error
        if self._error is not None:
            raise self._error
        return cast("T", self._value)

    async def outlast(self, grace: float) -> BaseException | None:
        """Wait until the work ended or ``grace`` seconds are over, whatever hits the caller meanwhile.

        :return: the first interruption (a native cancellation or KeyboardInterrupt); the caller raises it.
        """
        interrupted: BaseException | None = None
        deadline = time.monotonic() + grace
        # The shield keeps anyio from delivering its scope's cancellation anew at every turn of the loop; that kind of
        # cancellation is level-triggered and comes back by itself.
        with anyio.CancelScope(shield=True):
            while not self._task.done and (left := deadline - time.monotonic()) > 0:
                try:
                    await self._task.wait(left)
                except (asyncio.CancelledError, KeyboardInterrupt) as error:
                    interrupted = interrupted or error
        return interrupted

    async def finish(self, grace: float, on_expiry: Callable[[], None]) -> T | None:
        """Wait for the end, at most ``grace`` seconds; cancellation is remembered and raised after that.

        :param on_expiry: called if the grace ends first, once however many wait; the work is then given up and
            ``None`` returned.
        """
        interrupted = await self.outlast(grace)
        try:
            if not self.done:
                first = self.cancel()
                # The end of the loop cancels a second time, which would cut its cleaning up short.
                meanwhile = await self.outlast(SETTLE)
                interrupted = interrupted or meanwhile
                if first:
                    on_expiry()
        finally:
            # Also where a warning that was turned into an error comes in between: cancellation stays cancellation.
            if interrupted is not None:
                raise interrupted
        return None if self._given_up else self.result()

    async def stop(self, grace: float) -> None:
        """Give the work up and see it end, at most ``grace`` seconds later."""
        self.cancel()
        interrupted = await self.outlast(grace)
        if interrupted is not None:
            raise interrupted


async def finish(work: Work[T], grace: float, on_expiry: Callable[[], None]) -> T | None:
    """Run ``work`` to its end, at most ``grace`` seconds; see `OwnTask.finish`."""
    return await OwnTask(work).finish(grace, on_expiry)


def _on_trio() -> bool:
    trio = sys.modules.get("trio")
    if trio is None:
        return False
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return False
    return True


def _is_trio_cancelled(error: BaseException | None) -> bool:
    trio = sys.modules.get("trio")
    return trio is not None and isinstance(error, trio.Cancelled)


class _Runner(Protocol):
    @property
    def done(self) -> bool: ...
    def cancel(self) -> None: ...
    async def wait(self, timeout: float | None) -> None: ...


_alive: set["asyncio.Task[None]"] = set()
"""Tasks at work: asyncio itself keeps weak references only."""


class _AsyncioRunner:
    def __init__(self, run: Callable[[Work[T]], Awaitable[None]], work: Work[T]) -> None:
        async def body() -> None:
            await run(work)

        self._task = asyncio.get_running_loop().create_task(body())
        self._task.add_done_callback(_retrieve)
        _alive.add(self._task)
        # `asyncio.run` and signal handlers of the "cancel everything" kind cancel what `asyncio.all_tasks` shows, and
        # would end a provision or a teardown half-way. Whoever waits for this task is still shown, and so waited for.
        asyncio.tasks._unregister_task(self._task)  # pyright: ignore[reportPrivateUsage] - documented, "Extending asyncio"

    @property
    def done(self) -> bool:
        return self._task.done()

    def cancel(self) -> None:
        if not self._task.done():
            # Nobody waits any more: now the end of the loop has to see to it.
            asyncio.tasks._register_task(self._task)  # pyright: ignore[reportPrivateUsage]
            self._task.cancel()

    async def wait(self, timeout: float | None) -> None:
        await asyncio.wait({self._task}, timeout=timeout)


def _retrieve(task: "asyncio.Task[None]") -> None:
    _alive.discard(task)
    # The outcome is kept by OwnTask; asking here keeps asyncio from reporting it as never retrieved.
    if not task.cancelled():
        task.exception()


class _TrioRunner:
    def __init__(self, run: Callable[[Work[T]], Awaitable[None]], work: Work[T]) -> None:
        import trio

        self._ended = trio.Event()
        self._scope = trio.CancelScope()

        async def body() -> None:
            try:
                with self._scope:
                    await run(work)
            finally:
                self._ended.set()

        # A system task: outside every scope of the caller, and KeyboardInterrupt never lands in it.
        trio.lowlevel.spawn_system_task(body, context=contextvars.copy_context())

    @property
    def done(self) -> bool:
        return self._ended.is_set()

    def cancel(self) -> None:
        self._scope.cancel()

    async def wait(self, timeout: float | None) -> None:
        with anyio.move_on_after(timeout):
            await self._ended.wait()
