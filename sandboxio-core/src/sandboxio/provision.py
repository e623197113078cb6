"""The one call that is never cancelled: a request that was given up may still commit."""

import time
from collections.abc import Callable
from contextlib import suppress

import anyio

from sandboxio.calls import PortCalls
from sandboxio.destruction import Doomed, warn_orphan
from sandboxio.errors import CreationError, SandboxError
from sandboxio.planning import Plan
from sandboxio.teardown import SETTLE, OwnTask, teardown_grace

POLL = 0.1
"""Seconds between two looks at a provision that nobody waits for any more."""
ASK_BY_NAME, GIVE_UP, LAST_LOOK = 0.4, 0.8, 0.9
"""Parts of the grace after which a silent provision is looked for by name, is given up, and is looked for no more."""


async def provision(calls: PortCalls, plan: Plan) -> str:
    """Make the sandbox and return its id; on any other way out whatever was or will be made is destroyed."""

    async def work() -> str:
        with calls.mapped(CreationError):
            return await calls.backend.provision(plan)

    task = OwnTask(work)
    try:
        return await task.wait()
    except BaseException:
        # Also after an error: the request may have committed although the answer was one (504 after commit).
        with suppress(Exception):  # a warning turned into an error must not replace the error at hand
            await _Reclaim(calls, plan, task).run()
        raise


class _Reclaim:
    """Finds and destroys what a provision that nobody waits for any more has made or will make."""

    def __init__(self, calls: PortCalls, plan: Plan, task: OwnTask[str]) -> None:
        self._calls = calls
        self._plan = plan
        self._task = task
        self._grace = teardown_grace()
        self._started = time.monotonic()
        self._warned = False

    async def run(self) -> None:
        await OwnTask(self._work).finish(self._grace, self._give_up)

    async def _work(self) -> None:
        made = await self._made()
        if made is not None:
            await Doomed(self._calls, made, self._plan.spec.metadata).until_gone()
        if not self._task.done:
            self._give_up()
            await self._task.outlast(SETTLE)

    async def _made(self) -> str | None:
        """Wait for the provision's end; late in the grace ask by name, since its answer may never come."""
        while not self._task.done and self._left(GIVE_UP) > 0:
            if self._left(ASK_BY_NAME) <= 0 and (found := await self._found(self._grace * 0.2)) is not None:
                return found
            await anyio.sleep(min(POLL, self._grace / 20))
        if self._task.done:
            try:
                return self._task.result()
            except SandboxError:
                pass  # its answer was an error; whether it committed all the same is asked next
        return await self._found(self._left(LAST_LOOK), self._warn)

    def _left(self, part: float) -> float:
        return self._started + part * self._grace - time.monotonic()

    async def _found(self, bound: float, failed: Callable[[str], None] | None = None) -> str | None:
        try:
            return await self._calls.bounded(bound, lambda: self._calls.backend.find(self._plan.create_id))
        except SandboxError as error:
            if failed is not None:
                failed(f"looking for it failed: {error.message}")
            return None

    def _give_up(self) -> None:
        self._task.cancel()  # the adapter hears of it by this cancellation and sees to a late result
        self._warn("its creation was given up, and its end was not seen")

    def _warn(self, why: str) -> None:
        if not self._warned:
            self._warned = True
            warn_orphan(self._calls, self._plan.create_id, self._plan.spec.metadata, why)
