"""Work that no cancellation may interrupt.

anyio's shield stops anyio's own cancellation, but not a native ``task.cancel()`` on asyncio, and trio delivers a
KeyboardInterrupt into a shielded wait. So such work runs in a task of its own that nobody else holds; the caller waits,
remembers what hits it meanwhile, and raises it afterwards.
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar, cast

import anyio

from sandboxio.errors import ConfigurationError

T = TypeVar("T")

Work = Callable[[], Coroutine[Any, Any, T]]


def teardown_grace() -> float:
    """Seconds that a teardown may take: ``$SBX_TEARDOWN_GRACE``, 5 by default."""
    text = os.environ.get("SBX_TEARDOWN_GRACE", "5")
    try:
        grace = float(text)
    except ValueError:
        grace = float("nan")
    if not 0 < grace <= 300:
        raise ConfigurationError("SBX_TEARDOWN_GRACE is no number of seconds between 0 and 300")
    return grace


class OwnTask(Generic[T]):
    """A piece of work in a task of its own, started at once; to wait for it is cancellable, the work is not."""

    def __init__(self, work: Work[T]) -> None:
        self._value: T | None = None
        self._error: BaseException | None = None
        self._task: _Runner = _TrioRunner(self._run, work) if _on_trio() else _AsyncioRunner(self._run, work)

    async def _run(self, work: Work[T]) -> None:
        try:
            self._value = await work()
        except Exception as error:  # noqa: BLE001 - it is raised in `result`
            self._error = error
        except BaseException as error:
            self._error = error
            raise

    @property
    def done(self) -> bool:
        """Whether the work ended."""
        return self._task.done

    def cancel(self) -> None:
        """Give the work up."""
        self._task.cancel()

    async def wait(self) -> T:
        """Wait for the end and return the result; cancelling the wait leaves the work running."""
        while not self._task.done:
            await self._task.wait(None)
        return self.result()

    def result(self) -> T:
        """Return what the ended work returned, or raise what it raised."""
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


async def finish(work: Work[T], grace: float, on_expiry: Callable[[], None]) -> T | None:
    """Run ``work`` to its end, at most ``grace`` seconds; cancellation is remembered and raised after that.

    :param on_expiry: called if the grace ends first; the work is then given up and ``None`` returned.
    """
    task = OwnTask(work)
    interrupted = await task.outlast(grace)
    if not task.done:
        task.cancel()
        on_expiry()
    if interrupted is not None:
        raise interrupted
    return task.result() if task.done else None


def _on_trio() -> bool:
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_run())


class _Runner(Protocol):
    @property
    def done(self) -> bool: ...
    def cancel(self) -> None: ...
    async def wait(self, timeout: float | None) -> None: ...


class _AsyncioRunner:
    def __init__(self, run: Callable[[Work[T]], Awaitable[None]], work: Work[T]) -> None:
        async def body() -> None:
            await run(work)

        self._task = asyncio.get_running_loop().create_task(body())
        self._task.add_done_callback(_retrieve)

    @property
    def done(self) -> bool:
        return self._task.done()

    def cancel(self) -> None:
        self._task.cancel()

    async def wait(self, timeout: float | None) -> None:
        await asyncio.wait({self._task}, timeout=timeout)


def _retrieve(task: "asyncio.Task[None]") -> None:
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
        trio.lowlevel.spawn_system_task(body)

    @property
    def done(self) -> bool:
        return self._ended.is_set()

    def cancel(self) -> None:
        self._scope.cancel()

    async def wait(self, timeout: float | None) -> None:
        with anyio.move_on_after(timeout):
            await self._ended.wait()
