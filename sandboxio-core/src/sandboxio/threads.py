"""Others' synchronous code, in threads that the rest of the program does not wait for."""

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple, Unpack

import anyio
import anyio.to_thread

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def in_thread(function: Callable[[Unpack[Ts]], T], *arguments: *Ts) -> T:
    """Run others' code in a thread; left alone on cancellation, since what hangs there holds up nobody."""
    # A limiter of its own: trio counts a thread that was left alone until it ends, and the default one is the program's.
    return await anyio.to_thread.run_sync(
        function, *arguments, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
    )
