"""Rows about the disk cap: three ways to fill a disk, each with a control that may."""

from collections.abc import Callable

import anyio
from sandboxio import (
    Enforcement,
    ExecutionTimeout,
    ResourceLimitExceeded,
    Resources,
    Sandbox,
    SandboxGone,
)

from sandboxio_contract.rows import row
from sandboxio_contract.rows.inside import need_shell
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, Inconclusive, Violated, proven, require, violated

MEBI = 2**20
CAP_MB = 16
FILLED_MB = 3 * CAP_MB
ROOMY_MB = 8 * CAP_MB
HOLD = 25
"""Seconds for which too much is held: who looks from time to time has looked several times by then."""
REST = 5
"""Seconds for which the control holds as much: who looks from time to time has looked at it, too."""
PIECES = 6
ROUNDING = 1.05

_MANY = f"""
i=0
while [ $i -lt {FILLED_MB * 16} ]; do head -c 65536 /dev/zero > small$i || exit 3; i=$((i+1)); done
echo filled; sleep $1
"""
_DELETED = f"""
for n in {" ".join(map(str, range(PIECES)))}; do
    (exec 3> gone$n; rm gone$n; head -c {FILLED_MB * MEBI // PIECES} /dev/zero >&3 && : > done$n; sleep 60) > /dev/null 2>&1 &
done
for tenth in $(seq 150); do
    [ "$(echo done*)" = "{" ".join(f"done{n}" for n in range(PIECES))}" ] && echo filled && exec sleep $1
    sleep 0.1
done
exit 3
"""


@row("CAP-01", within=150, world=True, own_caps=True)
async def many_small_files_hit_the_disk_cap(target: Target) -> Finding:
    """Files that are each far below the cap hit it together."""
    return await _judged(target, lambda hold: ["sh", "-c", _MANY, "sh", hold])


@row("CAP-01", within=150, world=True, own_caps=True)
async def one_big_file_hits_the_disk_cap(target: Target) -> Finding:
    """A file larger than the cap can't be written, and whoever tries is told so."""
    command = ["dd", "if=/dev/zero", "of=big", f"bs={MEBI}", f"count={FILLED_MB}"]
    return await _judged(target, lambda _: command)


@row("CAP-01", within=150, world=True, own_caps=True)
async def deleted_files_that_are_open_hit_the_disk_cap(target: Target) -> Finding:
    """Files that have no name any more, which no walk over directories finds, hit the cap."""
    return await _judged(target, lambda hold: ["sh", "-c", _DELETED, "sh", hold], unless_named="deleted files")


async def _judged(target: Target, filling: Callable[[str], list[str]], *, unless_named: str | None = None) -> Finding:
    """Fill a disk with room for it, then one without.

    :param filling: makes the command from the seconds for which it holds what it has written.
    :param unless_named: by these words a receipt names that this way is not watched.
    """
    await _control(target, filling(str(REST)))
    async with target.sandbox(resources=Resources(disk_mb=CAP_MB)) as sb:
        item = next(one for one in sb.policy if one.policy == "disk")
        if not isinstance(item, Enforcement) or item.requested != CAP_MB:
            violated(f"asked for {CAP_MB} MiB, and the receipt says {item!r}")
        try:
            result = await sb.run(filling(str(2 * HOLD)), timeout=HOLD)
            if result.ok:
                await anyio.sleep(HOLD)
                await sb.run(["true"])
        except ResourceLimitExceeded as error:
            return await _hit(sb, error)
        except SandboxGone as error:
            violated(f"hitting the disk cap is reported as {error.message}, not as ResourceLimitExceeded")
        except ExecutionTimeout:
            result = None
        if result is not None and result.exit_code != 0:
            return await _kept_out(sb, f"exit code {result.exit_code}")
    held = f"{FILLED_MB} MiB were held under a cap of {CAP_MB}"
    if unless_named is not None and any(unless_named in residual for residual in item.residuals):
        return Finding("proven with residual", f"{held}; the receipt says that {unless_named} are not counted")
    raise Violated(held)


async def _control(target: Target, filling: list[str]) -> None:
    """Fill a disk that has room for it, and see that this ends nothing."""
    async with target.sandbox(resources=Resources(disk_mb=ROOMY_MB)) as sb:
        await need_shell(sb)
        try:
            result = await sb.run(filling, timeout=60)
            await anyio.sleep(REST)
            alive = await sb.run(["true"])
        except (ResourceLimitExceeded, SandboxGone) as error:
            violated(f"{FILLED_MB} MiB under a cap of {ROOMY_MB} ended the sandbox: {error.message}")
    if result.exit_code != 0 or not alive.ok:
        raise Inconclusive(f"no control: with room for it the command gave {result.exit_code}, too: {result.stderr!r}")


async def _hit(sb: Sandbox, error: ResourceLimitExceeded) -> Finding:
    """Judge the error, and the next call's."""
    require(error.limit == "disk_mb", f"the error names {error.limit!r}, not 'disk_mb'")
    require(error.value == CAP_MB, f"the error names the value {error.value!r}, not {CAP_MB}")
    try:
        await sb.run(["true"])
    except ResourceLimitExceeded as again:
        require(again.limit == "disk_mb", f"the next call's error names {again.limit!r}, not 'disk_mb'")
        return proven(f"the sandbox was ended; this call and the next raised disk_mb = {CAP_MB}")
    except SandboxGone as gone:
        violated(f"the next call after the cap was hit raised {gone.message}, not ResourceLimitExceeded")
    return await _kept_out(sb, f"ResourceLimitExceeded, disk_mb = {CAP_MB}")


async def _kept_out(sb: Sandbox, how: str) -> Finding:
    """Judge what a command left that was kept from writing more."""
    size = sum(entry.size for entry in await sb.files.ls())
    require(size <= ROUNDING * CAP_MB * MEBI, f"{size / MEBI:.0f} MiB are there under a cap of {CAP_MB}: {how}")
    return proven(f"the command could not write on ({how}): {size / MEBI:.1f} of {CAP_MB} MiB, and the sandbox lives")
