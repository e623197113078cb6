"""The sandboxio package, on Docker."""

import asyncio
import warnings
from collections.abc import Coroutine
from pathlib import Path
from threading import active_count
from time import perf_counter
from typing import Any

import sandboxio
from sandboxio import NetworkPolicy, Resources

from benchmarks.contenders.base import Box, Crowd
from benchmarks.figure import OURS
from benchmarks.measure import NotBuilt, timed
from benchmarks.settings import CPU, DISK_MB, IMAGE, LIFETIME, MEMORY_MB, META, PIDS

TARGET = f"docker://{IMAGE}"


class OurBox:
    """A sandbox of sandboxio."""

    def __init__(self, sandbox: sandboxio.Sandbox) -> None:
        self.sandbox = sandbox

    async def true(self) -> float:
        """Run ``true``."""
        seconds, result = await timed(self.sandbox.run(["true"]))
        assert result.exit_code == 0
        return seconds

    async def stream(self, size: int) -> float:
        """Read what ``head`` prints."""
        began, seen = perf_counter(), 0
        async with self.sandbox.stream(["head", "-c", str(size), "/dev/zero"]) as process:
            async for chunk in process:
                seen += len(chunk.data)
        assert seen == size
        return perf_counter() - began

    async def put(self, local: Path, remote: str) -> float:
        """Upload."""
        return (await timed(self._transfer("upload", str(local), remote)))[0]

    async def get(self, remote: str, local: Path) -> float:
        """Download."""
        return (await timed(self._transfer("download", remote, str(local))))[0]

    async def write(self, local: Path, remote: str) -> float:
        """Write a file's content, which is in memory."""
        return (await timed(self.sandbox.files.write(remote, local.read_bytes())))[0]

    async def read(self, remote: str) -> float:
        """Read a file's content into memory."""
        return (await timed(self.sandbox.files.read(remote)))[0]

    async def many(self, count: int) -> float:
        """Start ``cat`` again and again, then end its stdin."""
        began = perf_counter()
        alive = [self.sandbox.stream(["cat"]) for _ in range(count)]
        await asyncio.gather(*(process.__aenter__() for process in alive))
        codes = await asyncio.gather(*(_finish(process) for process in alive))
        assert not any(codes)
        return perf_counter() - began

    async def remove(self) -> float:
        """Kill."""
        return (await timed(self.sandbox.kill()))[0]

    async def discard(self) -> None:
        """Kill."""
        await self.sandbox.kill()

    async def _transfer(self, name: str, source: str, target: str) -> None:
        method = getattr(self.sandbox.files, name, None)
        if method is None:
            raise NotBuilt(f"files.{name} is not built yet")
        await method(source, target)


async def _finish(process: sandboxio.Process) -> int:
    await process.close_stdin()
    code = await process.wait()
    await process.__aexit__(None, None, None)
    return code


class Ours:
    """Makes sandboxes through sandboxio, in this process and loop."""

    name = OURS

    def __init__(self, tag: str) -> None:
        self._tag = tag

    async def make(
        self, *, memory_mb: int = MEMORY_MB, pids: int = PIDS, disk_mb: int = DISK_MB, egress: bool = False
    ) -> sandboxio.Sandbox:
        """Make a sandbox."""
        return await sandboxio.create(
            TARGET,
            resources=Resources(cpu=CPU, memory_mb=memory_mb, disk_mb=disk_mb, pids=pids),
            network=NetworkPolicy(egress="allow" if egress else "deny"),
            timeout=LIFETIME,
            metadata={META: self._tag},
        )

    async def open(self, *, memory_mb: int = MEMORY_MB, pids: int = PIDS, disk_mb: int = DISK_MB) -> tuple[float, Box]:
        """Make a sandbox and run ``true``."""
        began = perf_counter()
        box = OurBox(await self.make(memory_mb=memory_mb, pids=pids, disk_mb=disk_mb))
        await box.true()
        return perf_counter() - began, box

    async def crowd(self, count: int, *, egress: bool = False) -> Crowd:
        """Create all, run in all, kill all; a sandbox that was not seen to be gone in time has failed too."""
        failures: list[str] = []
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", sandboxio.OrphanedSandboxWarning)
            began = perf_counter()
            made = await _all([self.make(egress=egress) for _ in range(count)], failures)
            boxes = [OurBox(sandbox) for sandbox in made]
            await _all([box.true() for box in boxes], failures)
            threads = active_count()
            await _all([box.remove() for box in boxes], failures)
            seconds = perf_counter() - began
        orphans = [str(one.message) for one in warned if issubclass(one.category, sandboxio.OrphanedSandboxWarning)]
        return Crowd(seconds, threads, [*failures, *orphans])

    async def left(self) -> int:
        """Return how many sandboxes of this run still exist."""
        return len(await sandboxio.list_managed("docker://", labels={META: self._tag}))

    async def aclose(self) -> None:
        """Kill what is left."""
        for managed in await sandboxio.list_managed("docker://", labels={META: self._tag}):
            await sandboxio.kill_managed("docker://", managed.sandbox_id)


async def _all(work: list[Coroutine[Any, Any, Any]], failures: list[str]) -> list[Any]:
    """Await all and return what came of those that did not fail."""
    results = await asyncio.gather(*work, return_exceptions=True)
    failures += [repr(result) for result in results if isinstance(result, BaseException)]
    return [result for result in results if not isinstance(result, BaseException)]
