"""Rows about the memory cap, judged by what the host's control group saw."""

from collections.abc import Awaitable

import anyio
from sandboxio import Enforcement, ExecResult, ResourceLimitExceeded, Resources, Sandbox, SandboxGone

from sandboxio_contract.rows import row
from sandboxio_contract.rows.inside import has_python, need_shell, raises
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, Inconclusive, proven, require, violated

CAP_MB = 128
BEYOND_MB = 128
TOLERANCE_MB = 4
"""Pages that a kernel counts late; far below `BEYOND_MB`."""


def touching(size_mb: int) -> str:
    """Return a Python program that touches memory MiB by MiB and says when it has it all."""
    return (
        f"import sys\nheld = []\nfor i in range({size_mb}):\n    held.append(bytearray(b'x' * 2**20))\n"
        "print('touched', flush=True)"
    )


@row("CAP-03", within=120, world=True, own_caps=True)
async def memory_and_swap_are_bounded_together(target: Target) -> Finding:
    """With swap present, more than the cap can't be touched; the control may swap and does (RES-03)."""
    with target.ground.swap() as swap:
        script = touching(CAP_MB + BEYOND_MB - 16)
        control = await target.look(target.ground.swapping_control, CAP_MB, script)
        if control <= (CAP_MB + TOLERANCE_MB) * 2**20:
            raise Inconclusive(f"no control: the reference did not swap either ({control / 2**20:.0f} MiB at most)")
        async with target.sandbox(resources=Resources(memory_mb=CAP_MB)) as sb:
            ended = await _outcome(sb.run(await _touching_command(sb), timeout=60))
            peak = await _peak(target, sb)
    require("touched" not in ended, f"{CAP_MB + BEYOND_MB} MiB could be touched under a cap of {CAP_MB}")
    require(
        peak is None or peak <= (CAP_MB + TOLERANCE_MB) * 2**20,
        f"the peak of memory and swap was {(peak or 0) / 2**20:.0f} MiB, the cap is {CAP_MB}",
    )
    shown = "the sandbox itself was gone" if peak is None else f"the peak was {peak / 2**20:.0f} MiB"
    return proven(f"{shown} of {CAP_MB}; the control with {swap} reached {control / 2**20:.0f} MiB; {ended}")


@row("CAP-05", within=90, world=True, own_caps=True)
async def the_cap_that_was_hit_is_named(target: Target) -> Finding:
    """`ResourceLimitExceeded` names memory and its value, convicts only the command that died, and carries its output."""
    async with target.sandbox(resources=Resources(memory_mb=CAP_MB)) as sb:
        results: list[object] = []
        async with anyio.create_task_group() as group:
            group.start_soon(_collect, sb, results)
            await _convicted(sb)
        other = results[0]
        spared = isinstance(other, ExecResult) and other.exit_code == 0
        require(spared, f"another command of the sandbox got {other!r}")
        require((await sb.run(["true"])).ok, "the sandbox does not work afterwards")
    return proven(f"memory_mb = {CAP_MB} named, with the output; another command ended with 0")


async def _convicted(sb: Sandbox) -> None:
    call = sb.run(await _touching_command(sb), timeout=60)
    error = await raises((ResourceLimitExceeded, SandboxGone), call, "touching too much")
    if isinstance(error, SandboxGone):
        violated(f"hitting the memory cap is reported as {error.message}, not as ResourceLimitExceeded")
    require(error.limit == "memory_mb", f"the error names {error.limit!r}, not 'memory_mb'")
    require(error.value == CAP_MB, f"the error names the value {error.value!r}, not {CAP_MB}")
    require("begun" in error.stdout, "the error does not carry what was printed")


async def _touching_command(sb: Sandbox) -> list[str]:
    """Return a command that says that it has begun, and touches more memory than the cap."""
    size = CAP_MB + BEYOND_MB
    if await has_python(sb):
        return ["python3", "-c", "print('begun', flush=True)\n" + touching(size)]
    await need_shell(sb)
    return ["sh", "-c", f"echo begun; dd if=/dev/zero of=/dev/null bs={size}M count=1 && echo touched"]


async def _collect(sb: Sandbox, results: list[object]) -> None:
    try:
        results.append(await sb.run(["sleep", "4"], timeout=30))
    except Exception as error:  # noqa: BLE001 - what it got is the finding
        results.append(error)


async def _outcome(call: Awaitable[ExecResult]) -> str:
    try:
        result = await call
    except ResourceLimitExceeded as error:
        return f"ResourceLimitExceeded({error.limit})"
    except SandboxGone as error:
        return f"SandboxGone({error.reason})"
    return f"exit code {result.exit_code} {result.stdout.strip()}"


async def _peak(target: Target, sb: Sandbox) -> int | None:
    item = next(one for one in sb.policy if one.policy == "memory.swap")
    if not isinstance(item, Enforcement):
        violated("no receipt for memory.swap")
    if not await target.look(target.ground.exists, sb.id):
        return None
    return await target.look(target.ground.memory_peak, sb.id)
