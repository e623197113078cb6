"""Rows about streamed commands."""

import statistics
import time
from collections.abc import Awaitable, Callable
from itertools import cycle
from pathlib import Path

import anyio
from sandboxio import ConfigurationError, Process, Sandbox

from sandboxio_contract.rows import row
from sandboxio_contract.rows.inside import ends_one_tree, need_shell, raises
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, Inconclusive, proven, require

TICKER = "i=0; while [ $i -lt 200 ]; do i=$((i+1)); echo $i > tick; echo $i; sleep 0.05; done"
MUCH = 200_000_000
SLEEPS = 6.0
GROWTH = 64 * 2**20
"""Bytes by which this process may grow while a consumer sleeps; far below `MUCH`."""


MOST_OF_GRACE = 3.0


class _Left(Exception):
    pass


@row("STR-01", world=True)
async def chunks_come_while_it_runs(target: Target) -> Finding:
    """The first chunk comes before the end, in order; leaving the block ends the tree; a cancelled read loses nothing."""
    async with target.sandbox() as sb:
        await need_shell(sb)
        started = time.monotonic()
        async with sb.stream(["sh", "-c", "echo first; sleep 2; echo second; echo err >&2"]) as proc:
            chunk = await proc.__anext__()
            early = time.monotonic() - started
            require(chunk.data == b"first\n" and chunk.stream == "stdout", f"the first chunk is {chunk!r}")
            require(early < 1.5, f"the first chunk came after {early:.1f} s, when the command was nearly over")
            rest = [(one.stream, one.data) async for one in proc]
            require(sorted(rest) == [("stderr", b"err\n"), ("stdout", b"second\n")], f"the rest is {rest!r}")
            require(await proc.wait() == 0 and proc.returncode == 0, f"the return code is {proc.returncode!r}")
        await _cancelled_reads(sb)
        await _dialogue(sb)
        await _waiting(sb)
        for name, leave in _WAYS_OUT.items():
            if ends_one_tree(sb):
                await _stops(sb, name, leave)
    return proven("first chunk early, order kept, cancelled reads lose nothing, every way out ends the tree")


@row("STR-02", within=120, world=True)
async def a_slow_consumer_delays_nobody(target: Target) -> Finding:
    """While a consumer sleeps on 200 MB, other calls and a kill are quick and this process does not grow (OUT-04)."""
    async with target.sandbox() as sb:
        await sb.run(["true"])
        alone = [await _timed(sb.run(["true"])) for _ in range(15)]
        kill_alone = await _killing(target, sb)
        memory = _resident()
        async with sb.stream(["head", "-c", str(MUCH), "/dev/zero"], timeout=60) as proc:
            await proc.__anext__()
            until = time.monotonic() + SLEEPS
            beside = [await _timed(sb.run(["true"])) for _ in range(15)]
            kill_beside = await _killing(target, sb) if ends_one_tree(sb) else 0.0
            await anyio.sleep(max(0.0, until - time.monotonic()))
            grown = _resident() - memory
            # Where a kill ends the sandbox, this one is the only kill beside the sleeper.
            own_kill = await _timed(proc.kill())
    run_alone, run_beside = statistics.median(alone), statistics.median(beside)
    kill_beside = kill_beside or own_kill
    # Floors of a few milliseconds: five times nothing is a bound that only measures the machine's noise.
    require(run_beside <= max(5 * run_alone, 0.05), f"run() took {run_beside:.3f} s beside it, {run_alone:.3f} s alone")
    # Ending a whole sandbox is the provider's work, and varies; within the grace of a teardown it must be in any case.
    floor, most = (0.1, 1.0) if ends_one_tree(sb) else (MOST_OF_GRACE, MOST_OF_GRACE)
    require(kill_beside <= max(5 * kill_alone, floor), f"a kill took {kill_beside:.3f} s, {kill_alone:.3f} s alone")
    require(max(beside) < 1, f"one run() took {max(beside):.2f} s beside a sleeping consumer")
    require(max(kill_beside, own_kill) < most, f"one kill took {max(kill_beside, own_kill):.2f} s")
    require(grown < GROWTH, f"this process grew by {grown // 2**20} MiB while the consumer slept")
    return proven(
        f"run() {run_beside * 1000:.1f} ms beside, {run_alone * 1000:.1f} ms alone; grown by {grown // 2**20} MiB"
    )


async def _killing(target: Target, sb: Sandbox) -> float:
    """Return what a kill of one command takes; where that ends the sandbox, in one of its own."""
    if ends_one_tree(sb):
        return statistics.median([await _timed_kill(sb) for _ in range(3)])
    async with target.sandbox() as other:
        return await _timed_kill(other)


async def _cancelled_reads(sb: Sandbox) -> None:
    seen = b""
    cancelled = 0
    # Of several lengths: what is on its way for a moment after it came is hit by the short ones, also on a slow machine.
    patience = cycle((0.002, 0.005, 0.02))
    async with sb.stream(["sh", "-c", "i=0; while [ $i -lt 20 ]; do i=$((i+1)); echo $i; sleep 0.03; done"]) as proc:
        while True:
            with anyio.move_on_after(next(patience)):
                chunk = await anext(proc, None)
                if chunk is None:
                    break
                seen += chunk.data
                continue
            cancelled += 1
    require(
        seen.split() == [str(i).encode() for i in range(1, 21)], f"{cancelled} cancelled reads lost output: {seen!r}"
    )


async def _dialogue(sb: Sandbox) -> None:
    async with sb.stream(["cat"]) as proc:
        await proc.send(b"ping\n")
        require((await proc.__anext__()).data == b"ping\n", "send() does not arrive while the command runs")
        async with anyio.create_task_group() as group:
            group.start_soon(_second_reader, proc)
            require((await proc.__anext__()).data == b"pong\n", "the rest of a dialogue is lost")
        await proc.close_stdin()
        require(await proc.wait() == 0, "closing stdin does not end cat")


async def _second_reader(proc: Process) -> None:
    await anyio.sleep(0.1)
    await raises(ConfigurationError, proc.__anext__(), "a second consumer")
    await proc.send(b"pong\n")


async def _waiting(sb: Sandbox) -> None:
    async with sb.stream(["head", "-c", "3000000", "/dev/zero"]) as proc:
        require(await proc.wait() == 0, "wait() without reading does not end")
        require(proc.discarded_bytes == 3_000_000, f"wait() counts {proc.discarded_bytes} dropped bytes of 3000000")
    async with sb.stream(["sh", "-c", "sleep 1; exit 5"]) as proc:
        require(await proc.wait() == 5, "wait() gives another exit code than 5")


async def _by_end(_: object) -> None:
    return None


async def _by_exception(_: object) -> None:
    raise _Left


async def _by_cancellation(scope: object) -> None:
    assert isinstance(scope, anyio.CancelScope)
    scope.cancel()
    await anyio.sleep(1)


_WAYS_OUT: dict[str, Callable[[object], Awaitable[None]]] = {
    "the end of the block": _by_end,
    "an exception": _by_exception,
    "a cancellation": _by_cancellation,
}


async def _stops(sb: Sandbox, name: str, leave: Callable[[object], Awaitable[None]]) -> None:
    with anyio.CancelScope() as scope:
        try:
            async with sb.stream(["sh", "-c", TICKER]) as proc:
                async for _ in proc:
                    break
                await leave(scope)
        except _Left:
            pass
    first = await sb.files.read("tick")
    await anyio.sleep(0.4)
    require(first == await sb.files.read("tick"), f"after {name} the command of a left stream goes on")


async def _timed(call: Awaitable[object]) -> float:
    started = time.monotonic()
    await call
    return time.monotonic() - started


async def _timed_kill(sb: Sandbox) -> float:
    async with sb.stream(["sleep", "30"]) as proc:
        return await _timed(proc.kill())


def _resident() -> int:
    """Return this process's resident memory, bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise Inconclusive("this host does not tell a process's resident memory")
