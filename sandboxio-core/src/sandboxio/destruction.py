"""The end of a sandbox: asked for, seen, or said loudly not to have been seen."""

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import anyio

from sandboxio.calls import PortCalls
from sandboxio.errors import OrphanedSandboxWarning, SandboxError
from sandboxio.notices import warn
from sandboxio.port import Session
from sandboxio.teardown import OwnTask, teardown_grace

FIRST_POLL, LAST_POLL = 0.02, 0.5
"""Seconds between two looks at a sandbox that is being removed; they grow."""
ASK_AGAIN = 1.0
"""Seconds after which the end of a sandbox that is still there is asked for once more."""

CLOSE_BOUND = 1.0
"""Seconds that closing a connection may take."""


@dataclass(slots=True)
class Doomed:
    """A sandbox that has to go.

    :param labels: shown in the warning, so that an operator can tell whose it is.
    :param seen_gone: whether its end was seen.
    """

    calls: PortCalls
    sandbox_id: str
    labels: Mapping[str, str]
    seen_gone: bool = False
    trouble: list[SandboxError] = field(default_factory=list[SandboxError])

    async def until_gone(self) -> None:
        """Ask for its end and look until it is gone, whatever the provider answers; the caller bounds it in time."""
        pause = FIRST_POLL
        while not await self._asked_and_gone(pause):
            pause = min(2 * pause, LAST_POLL)
            await anyio.sleep(pause)

    async def _asked_and_gone(self, pause: float) -> bool:
        try:
            with self.calls.mapped():
                await self.calls.backend.destroy(self.sandbox_id)
                asked_at = time.monotonic()
                while await self.calls.backend.observe(self.sandbox_id) is not None:
                    if time.monotonic() - asked_at > ASK_AGAIN:
                        return False
                    await anyio.sleep(pause)
                    pause = min(2 * pause, LAST_POLL)
        except SandboxError as error:
            self.trouble[:] = [error]
            return False
        self.seen_gone = True
        return True

    def warn(self, why: str = "it was not gone within the grace") -> None:
        """Name it, so that an operator can reap it, unless its end was seen after all."""
        if not self.seen_gone:
            last = f"; the last answer was: {self.trouble[0].message}" if self.trouble else ""
            warn_orphan(self.calls, self.sandbox_id, self.labels, why + last)


async def destroy_for_sure(
    calls: PortCalls, sandbox_id: str, labels: Mapping[str, str], session: Session | None = None
) -> None:
    """Destroy a sandbox, immune to cancellation, within the teardown grace, and close its session.

    Emits `OrphanedSandboxWarning` if its end could not be seen; raises no error of its own, so that none is replaced.
    """
    doomed = Doomed(calls, sandbox_id, labels)

    async def work() -> None:
        await doomed.until_gone()
        if session is not None:
            await close(calls, session)

    await OwnTask(work).finish(teardown_grace(), doomed.warn)


async def close(calls: PortCalls, session: Session) -> None:
    """Close the connection to a sandbox that is gone; it may well be broken, and must not hold anybody up."""
    with suppress(SandboxError), calls.mapped(), anyio.move_on_after(CLOSE_BOUND):
        await session.aclose()


async def close_session(calls: PortCalls, session: Session) -> None:
    """Close a session whose sandbox lives on, immune to cancellation."""
    await OwnTask(lambda: close(calls, session)).finish(2 * CLOSE_BOUND, lambda: None)


async def close_backend(calls: PortCalls) -> None:
    """Close what was made for one sandbox or one call, immune to cancellation; it must not hold anybody up either."""

    async def work() -> None:
        with suppress(SandboxError), calls.mapped(), anyio.move_on_after(CLOSE_BOUND):
            await calls.backend.aclose()

    await OwnTask(work).finish(CLOSE_BOUND, lambda: None)


@asynccontextmanager
async def closing(calls: PortCalls) -> AsyncGenerator[PortCalls]:
    """Use calls for one operation."""
    try:
        yield calls
    finally:
        await close_backend(calls)


def warn_orphan(calls: PortCalls, sandbox_id: str, labels: Mapping[str, str], why: str) -> None:
    """Name a sandbox that may still be there."""
    text = f"sandbox {sandbox_id} of {calls.backend.info.name} (labels {dict(labels)}) may be left over: {why}"
    warn(calls.redactor.text(text), OrphanedSandboxWarning)
