"""Rows about caps as they are asked for, the process ceiling, and bounded output."""

import math
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from sandboxio import (
    Absent,
    ConfigurationError,
    Enforcement,
    ExecutionTimeout,
    Process,
    ResourceLimitExceeded,
    Resources,
    Sandbox,
    SandboxGone,
)

from sandboxio_contract.rows import row
from sandboxio_contract.rows.inside import ends_one_tree, has_python, need_shell, output_of, raises
from sandboxio_contract.rows.refusing import recorded
from sandboxio_contract.rows.transfers import constant_memory
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, Inconclusive, Part, Violated, proven, require, summed, violated

FIELDS = {"cpu": "cpu", "memory_mb": "memory", "disk_mb": "disk", "pids": "pids"}
PIDS = 64
MEBI = 2**20
MAX_OUTPUT = 8 * MEBI
MUCH = 200 * MEBI
ENDLESS = 4.0
"""Seconds for output that does not end."""
FLOOD = "i=0; while [ $i -lt 20 ]; do head -c 1048576 /dev/zero; i=$((i+1)); done; echo err >&2; exit 7"

_FORKS = """
import os, sys, time
made = 0
try:
    while made < 500:
        if os.fork() == 0:
            time.sleep(120)
            os._exit(0)
        made += 1
except OSError as error:
    print("stopped", made, error.errno, flush=True)
time.sleep(120)
"""
# A shell that can't fork ends; its trap keeps the place that it held, so that the ceiling stays reached.
_SHELL_FORKS = """
trap 'echo stopped; exec sleep 120' EXIT
i=0
while [ $i -lt 500 ]; do sleep 120 & i=$((i+1)); done 2>/dev/null
"""


@row("CAP-02")
async def a_cap_is_raised_never_unset(target: Target) -> Finding:
    """Values that would mean "no cap" can't be written, and a larger cap is applied."""
    parts = [_values()]
    if not (await target.info()).resource_caps_supported:
        return summed(parts)
    async with target.sandbox(resources=Resources(memory_mb=768)) as sb:
        receipts = {item.policy: item for item in sb.policy}
        parts += [_concrete(field, receipts[item]) for field, item in FIELDS.items()]
        memory = receipts["memory"]
        asked = isinstance(memory, Enforcement) and memory.requested == 768
        parts.append(Part("raised", "proven" if asked else "violated", f"asked for 768 MiB: {memory!r}"))
    return summed(parts)


@row("CAP-02", world=True, own_caps=True)
async def what_the_host_lacks_is_refused(target: Target) -> Finding:
    """A cap beyond what the host, account or template has is refused before anything is made."""
    await target.need_sandbox()
    parts: list[Part] = []
    async with recorded(target) as asking:
        for name, most in {"cpu": 100_000.0, "memory_mb": 2**31}.items():
            value = Resources(**{name: most})  # type: ignore[arg-type]
            parts.append(await asking.refuses(f"{name} beyond the host", ConfigurationError, resources=value))
    return summed(parts)


@row("CAP-04", world=True, own_caps=True)
async def the_process_ceiling_holds(target: Target) -> Finding:
    """A fork bomb is bounded on the host; what runs goes on; a new command is refused at once until the bomb is gone (RES-04)."""
    async with target.sandbox(resources=Resources(pids=PIDS)) as sb:
        item = next(one for one in sb.policy if one.policy == "pids")
        if isinstance(item, Absent):
            raise Inconclusive("the backend promised a ceiling that was asked for and gives no receipt for it")
        await need_shell(sb)
        await sb.files.write("kept", b"kept")
        async with _counter(sb) as other, _bomb(sb):
            host = await target.look(target.ground.processes, sb.id)
            require(host <= PIDS, f"the host counts {host} processes and threads, the ceiling is {PIDS}")
            new = await _refused_at_once(sb)
            await _files_go_on(sb)
            await _goes_on(other)
        try:
            require(await output_of(sb, ["echo", "alive"]) == "alive\n", "no command runs after the bomb was ended")
        except SandboxGone:  # said beforehand by some, whose kill may spare the sandbox all the same
            require(not ends_one_tree(sb), "the kill of one command ended the sandbox")
            return proven(f"the host counted {host} of {PIDS}; a new run was {new}; the kill ended the sandbox")
    return proven(f"the host counted {host} of {PIDS}; a new run was {new}; then all worked")


@row("CAP-08")
async def output_is_bounded(target: Target) -> Finding:
    """Beyond `max_output` the rest is dropped and counted as truncated; the exit code is true."""
    async with target.sandbox() as sb:
        await need_shell(sb)
        result = await sb.run(["sh", "-c", FLOOD], timeout=60)
        size = len(result.stdout_bytes)
        require(result.exit_code == 7, f"exit code {result.exit_code}, not 7")
        require(size == MAX_OUTPUT, f"{size} bytes kept of 20 MiB, the default is {MAX_OUTPUT}")
        require(result.stdout_truncated and not result.stderr_truncated, "the truncated stream is not marked as such")
        require(result.stderr == "err\n", f"stderr is {result.stderr!r}")
        exact = await sb.run(["head", "-c", str(MEBI), "/dev/zero"], max_output=MEBI)
        whole = len(exact.stdout_bytes) == MEBI and not exact.stdout_truncated
        require(whole, "output of exactly max_output bytes is not kept whole")
        first = await sb.run(["printf", "abcdef"], max_output=3)
        require(first.stdout == "abc", f"the first bytes are not those that are kept: {first.stdout!r}")
        for value in (0, -1, 2**30 + 1, 1.5):
            call = sb.run(["true"], max_output=value)  # type: ignore[arg-type]
            await raises(ConfigurationError, call, f"max_output={value!r}")
    return proven("20 MiB were cut to the first 8 MiB, marked, with exit code 7")


@row("CAP-08", within=120, world=True)
async def endless_output_does_not_fill_this_process(target: Target) -> Finding:
    """What is dropped takes no memory here, and a timeout of endless output carries the first bytes (OUT-03)."""
    async with target.sandbox() as sb:
        await need_shell(sb)
        await sb.run(["head", "-c", str(MUCH), "/dev/zero"], timeout=60)  # whatever is loaded or grown once
        async with constant_memory(4 * MAX_OUTPUT // MEBI) as grown:
            result = await sb.run(["head", "-c", str(MUCH), "/dev/zero"], timeout=60)
            require(result.ok and result.stdout_truncated, f"200 MiB of output gave {result!r}")
            require(len(result.stdout_bytes) == MAX_OUTPUT, f"{len(result.stdout_bytes)} bytes kept of {MAX_OUTPUT}")
            del result
            endless = sb.run(["sh", "-c", "while :; do head -c 1048576 /dev/zero; done"], timeout=ENDLESS)
            error = await raises(ExecutionTimeout, endless, "endless output")
            kept = len(error.stdout_bytes)
            require(0 < kept <= MAX_OUTPUT, f"the timeout of endless output carries {kept} bytes")
    return proven(f"200 MiB and endless output: this process grew by {grown() / MEBI:.0f} MiB")


def _values() -> Part:
    nothing: tuple[Any, ...] = (0, -1, math.nan, math.inf, "4", True)
    for field in FIELDS:
        for value in nothing:
            try:
                made = Resources(**{field: value})
            except ConfigurationError:
                continue
            return Part("values", "violated", f"Resources({field}={value!r}) was accepted: {made!r}")
    return Part("values", "refused", f"{len(FIELDS) * len(nothing)} values that unset a cap raise ConfigurationError")


def _concrete(field: str, item: object) -> Part:
    if isinstance(item, Absent):
        return Part(field, "violated" if field != "pids" else "proven", f"absent: {item.reason}")
    assert isinstance(item, Enforcement)
    number = isinstance(item.requested, (int, float)) and 0 < item.requested < math.inf
    return Part(field, "proven" if number else "violated", f"{item.requested!r} by {item.mechanism}")


@asynccontextmanager
async def _bomb(sb: Sandbox) -> AsyncGenerator[None]:
    argv = ["python3", "-c", _FORKS] if await has_python(sb) else ["sh", "-c", _SHELL_FORKS]
    async with sb.stream(argv, timeout=60) as proc:
        with anyio.move_on_after(15):
            async for chunk in proc:
                if b"stopped" in chunk.data:
                    break
        yield


@asynccontextmanager
async def _counter(sb: Sandbox) -> AsyncGenerator[Process]:
    """Run a command that counts without starting anything."""
    code = "import time\nfor i in range(10**6): print(i, flush=True); time.sleep(0.05)"
    argv = (
        ["python3", "-c", code] if await has_python(sb) else ["sh", "-c", "i=0; while :; do i=$((i+1)); echo $i; done"]
    )
    async with sb.stream(argv, timeout=60) as proc:
        await proc.__anext__()
        yield proc


async def _files_go_on(sb: Sandbox) -> None:
    try:
        content = await sb.files.read("kept")
    except ResourceLimitExceeded as error:
        # Where files are done by commands there is no other way than a command, which the ceiling may refuse.
        require(
            error.limit == "pids" and not ends_one_tree(sb), f"files do not go on under a fork bomb: {error.message}"
        )
    else:
        require(content == b"kept", "files give another content under a fork bomb")


async def _goes_on(other: Process) -> None:
    with anyio.move_on_after(5):
        for _ in range(3):
            await other.__anext__()
        return
    violated("a stream that ran before the fork bomb does not go on")


async def _refused_at_once(sb: Sandbox) -> str:
    """Return what became of a command at the ceiling: it must not hang, and where the agent starts it, it is refused."""
    started = time.monotonic()
    try:
        result = await sb.run(["true"], timeout=10)
    except ResourceLimitExceeded as error:
        require(error.limit == "pids", f"run() at the ceiling names the limit {error.limit!r}, not 'pids'")
        outcome = "refused"
    except ExecutionTimeout as error:
        raise Violated("run() at the ceiling hung until its timeout") from error
    else:
        # An engine's exec joins the control group from outside, past its ceiling: only what it starts is refused.
        require(not ends_one_tree(sb), f"run() at the ceiling was accepted and gave {result!r}")
        require(result.exit_code == 0, f"run() at the ceiling gave {result!r}")
        outcome = "started by the provider past the ceiling"
    took = time.monotonic() - started
    require(took < 3, f"run() at the ceiling took {took:.1f} s to be {outcome}")
    return f"{outcome} after {took:.2f} s"
