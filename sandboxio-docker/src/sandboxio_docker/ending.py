"""Why a sandbox ended, found out only when somebody asks."""

import json
import time
from contextlib import aclosing

import anyio
from anyio import to_thread
from sandboxio.agent.bootstrap import STATUS_LIFETIME, STATUS_OWNER_GONE

from sandboxio_docker.attach import wait_removed
from sandboxio_docker.endpoint import Endpoint
from sandboxio_docker.engine import Engine
from sandboxio_docker.errors import CONNECTION_LOST
from sandboxio_docker.reaper import Reaper, ReaperUnavailable
from sandboxio_docker.sdk import Json
from sandboxio_docker.wire import Answer, EngineAnswer, ask

PATIENCE = 2.0
"""Seconds to wait for the engine's word; the removal of a full layer takes longer and is not waited for."""
AT_ONCE = 1.0
"""Seconds between a kill for want of memory and the end of the sandbox that died of it."""
MOST_EVENTS = 10_000
"""Events of one sandbox that are looked at; code in it may cause any number."""
KILLED = 137
"""128 + SIGKILL: by the kernel for want of memory, or by the engine for whoever asked it."""


class Ending:
    """Watches one container's end: an open request to the engine, read only when needed; no task."""

    def __init__(
        self,
        engine: Engine,
        reaper: Reaper,
        container_id: str,
        name: str,
        expires_at: float,
        *,
        owner_elsewhere: bool = False,
    ) -> None:
        self._engine = engine
        self._reaper = reaper
        self._container_id = container_id
        self._name = name
        self._expires_at = expires_at
        # For another one's owner that is no loss of a connection: its end killed the sandbox, whichever way was quicker.
        self._kills = (KILLED, STATUS_OWNER_GONE) if owner_elsewhere else (KILLED,)
        self._since = time.time() - 60
        self._waiting: Answer | None = None
        self._renewing = anyio.Lock()
        self._reason: str | None = None

    async def watch(self, endpoint: Endpoint) -> None:
        """Begin to watch; before the start, so that an early end is not missed. Later it renews what was cut."""
        async with self._renewing:
            if self.was_cut():
                await self.aclose()
                self._waiting = await wait_removed(endpoint, self._container_id)

    def was_cut(self) -> bool:
        """Whether the open request ended without an answer: the way to the engine was cut, or the engine went."""
        return self._waiting is None or self._waiting.has_ended()

    def busy(self) -> None:
        """Tell the reaper that user code may write to the disk from now on.

        When nothing lives any more the reaper learns from the agent, or without one from the engine.
        """
        self._reaper.busy(self._name, True)

    async def detach(self) -> None:
        """Have the reaper let the sandbox outlive this process; return once that is certain."""
        await to_thread.run_sync(self._reaper.detach, self._name, abandon_on_cancel=True)

    async def aclose(self) -> None:
        """Give up the open request."""
        if self._waiting is not None:
            await self._waiting.aclose()

    async def reason(self) -> str:
        """Return ``"lifetime"``, ``"killed"``, ``"unknown"``, or the field of `Resources` whose cap ended it."""
        if self._reason is None:
            self._reason = await self._find_out()
        return self._reason

    async def _find_out(self) -> str:
        told = await to_thread.run_sync(self._told_by_reaper, abandon_on_cancel=True)
        if told is not None:
            return told
        status = await self._status()
        if status == STATUS_LIFETIME or time.time() >= self._expires_at - 1:
            return "lifetime"
        if status in (KILLED, None) and await self._ended_by_memory():
            return "memory_mb"
        return "killed" if status in self._kills else "unknown"

    def _told_by_reaper(self) -> str | None:
        try:
            return self._reaper.status(self._name)
        except ReaperUnavailable:
            return None

    async def _status(self) -> int | None:
        lines = [] if self._waiting is None else await _lines(self._waiting, 1)
        return lines[0].get("StatusCode") if lines else None

    async def _ended_by_memory(self) -> bool:
        """Whether the sandbox died of it: a command's earlier death for want of memory does not count."""
        events = await self._events(self._since, "oom", "die")
        died = max((_moment(event) for event in events if event.get("Action") == "die"), default=time.time())
        return any(event.get("Action") == "oom" and died - _moment(event) < AT_ONCE for event in events)

    async def out_of_memory(self, since: float) -> bool:
        """Whether the kernel ended a process for want of memory; inspect does not say it of all (moby #15621, #18470).

        :param since: seconds since the epoch.
        """
        return bool(await self._events(since, "oom"))

    async def _events(self, since: float, *kinds: str) -> list[Json]:
        chosen = json.dumps({"container": [self._container_id], "event": list(kinds)})
        # `until` in fractions of a second: an instant to come would be waited for.
        query = {"since": f"{since:.3f}", "until": f"{time.time():.3f}", "filters": chosen}
        try:
            events = await ask(await self._engine.negotiated(), "GET", "/events", query)
        except (EngineAnswer, OSError):
            return []
        try:
            return await _lines(events)
        finally:
            await events.aclose()


def _moment(event: Json) -> float:
    return int(event.get("timeNano") or 0) / 1e9


async def _lines(answer: Answer, most: int = MOST_EVENTS) -> list[Json]:
    """Return the first objects of an answer, those that came before it broke or `PATIENCE` was over."""
    found: list[Json] = []
    with anyio.move_on_after(PATIENCE):
        try:
            async with aclosing(answer.lines()) as lines:
                async for line in lines:
                    found.append(json.loads(line))
                    if len(found) == most:
                        break
        except (*CONNECTION_LOST, OSError, ValueError):
            return found
    return found
