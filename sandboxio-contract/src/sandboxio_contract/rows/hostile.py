"""Rows about code that attacks what holds its sandbox: its lifetime is kept all the same, and it reaches nothing of it."""

import os
import signal
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from sandboxio import Enforcement

from sandboxio_contract.attacks import ATTEMPTS, REACH, SHELL_REACH, SHELL_SIEGE, SIEGE
from sandboxio_contract.interruption import on_trio
from sandboxio_contract.owner import READY
from sandboxio_contract.rows import row
from sandboxio_contract.rows.inside import GRACE, SLACK, attack, output_of
from sandboxio_contract.rows.owner import owner
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, Inconclusive, Part, Status, summed

if TYPE_CHECKING:
    import subprocess

LIFE = 8.0
"""Seconds that a besieged sandbox lives."""
LATEST = GRACE + SLACK
"""Seconds after its expiry in which the provider lets a sandbox go."""
QUIET, ATTACKED = "quiet", "attacked"
RESIDUAL = "code in the sandbox"
"""Words of a lifetime's residual that names what hostile code can do to it."""


@row("TMO-06", within=90, world=True, hostile=True)
async def the_lifetime_holds(target: Target) -> Finding:
    """A sandbox ends in time without help of its owner, also while code inside attacks what holds it.

    The owner is killed; or it is stopped with every process that it started, so that only the provider's side is left.
    """
    residual = next(iter(await _residuals(target)), None)
    parts: list[Part] = []
    try:
        siege = await _siege(target)
    except Inconclusive as reason:
        siege = None
        parts.append(Part("under attack", "not-provable", str(reason)))
    for name, took in (await _without_owner(target, siege, kill=False)).items():
        parts.append(_in_time(f"{name}, owner stopped", took, residual if name == ATTACKED else None))
    if siege:
        for name, took in (await _without_owner(target, siege, kill=True)).items():
            if name == ATTACKED:
                parts.append(_in_time(f"{name}, owner killed", took, None))
    return summed(parts)


def _in_time(name: str, took: float | None, residual: str | None) -> Part:
    if took is None:
        return _part(name, f"it lived on for {LATEST:g} s after its lifetime", residual)
    if took < -1 and name.startswith(QUIET):
        return Part(name, "violated", f"it was gone {-took:.1f} s before its lifetime was over")
    return Part(name, "proven", f"gone {took:+.1f} s after its expiry")


@row("TMO-06", within=60, world=True, hostile=True)
async def code_inside_reaches_nothing_that_holds_it(target: Target) -> Finding:
    """What works on a process of the attacker's own works neither on the first process nor on those beside it."""
    residuals = await _residuals(target)
    async with target.sandbox() as sb:
        said = await output_of(sb, await attack(sb, REACH, SHELL_REACH), timeout=30)
    tried: dict[str, list[list[str]]] = {}
    for line in said.splitlines():
        name, _, outcomes = line.partition(": ")
        tried.setdefault(name, []).append(outcomes.split(", "))
    if not tried:
        raise Inconclusive(f"the attack said nothing: {said[:200]!r}")
    return summed(_reached(name, outcomes, residuals) for name, outcomes in tried.items())


def _reached(name: str, outcomes: list[list[str]], residuals: Sequence[str]) -> Part:
    topic = "processor" if name in ("priority", "scheduling", "processors") else "memory"
    residual = next((text for text in residuals if topic in text), None)
    controls = {own for own, _ in outcomes}
    if any(protected == "done" for _, protected in outcomes):
        return _part(name, f"{name} works on a process that holds the sandbox", residual)
    if "missing" in controls:
        # Without a tool the attack was not made; where it is missing for all, another image tells.
        return Part(name, "proven" if name in ATTEMPTS else "not-provable", "the image has no means for it")
    how = (
        "works on its own processes only" if controls == {"done"} else f"refused on any process: {', '.join(controls)}"
    )
    return Part(name, "proven", how)


def _part(name: str, fact: str, residual: str | None) -> Part:
    status: Status = "proven with residual" if residual else "violated"
    return Part(name, status, f"the receipt says: {residual}" if residual else fact)


async def _siege(target: Target) -> list[str]:
    async with target.sandbox() as sb:
        return await attack(sb, SIEGE, SHELL_SIEGE)


async def _residuals(target: Target) -> list[str]:
    """Return what the receipt says that hostile code can do to the lifetime."""
    async with target.sandbox() as sb:
        item = next((one for one in sb.policy if one.policy == "lifetime"), None)
    named = item.residuals if isinstance(item, Enforcement) else ()
    return [text for text in named if RESIDUAL in text]


async def _without_owner(target: Target, siege: list[str] | None, *, kill: bool) -> dict[str, float | None]:
    """Have sandboxes made by another process, which is then no help.

    Return how long after its expiry the quiet one and the attacked one were gone, ``None`` for one that lived on.

    :param siege: runs in the attacked one; it says when it is under way.
    :param kill: the owner is killed; else it is stopped, and whatever it started.
    """
    await target.need_sandbox()
    how = f"{'killed' if kill else 'stopped'}-{'trio' if on_trio() else 'asyncio'}"
    mark = {"row": f"life-{target.token}-{how}"}
    commands = [None, siege] if siege else [None]
    order: dict[str, Any] = {
        "dsn": target.dsn,
        "commands": commands,
        "metadata": {**mark, **target.mark},
        "fork": False,
        "timeout": LIFE,
        "keeps_children": not kill,
        "loop": "trio" if on_trio() else "asyncio",
        "register": dict(target.register),
        "path": list(target.path),
    }
    with owner(order) as made:
        if siege and f"{READY}\n" not in made.said[0]:
            raise Inconclusive(f"the attack did not get under way: {made.said[0][-300:]!r}")
        # The attacked one is ready later.
        names = dict(zip(made.ids, (QUIET, ATTACKED), strict=False))
        expires = dict(zip(made.ids, made.expires, strict=True))
        with _no_help(made.process, kill=kill):
            ended = await _ends(target, mark, expires)
    return {name: ended[one] - expires[one] if one in ended else None for one, name in names.items()}


async def _ends(target: Target, mark: Mapping[str, str], expires: Mapping[str, float]) -> dict[str, float]:
    """Return when each sandbox was gone; what lives on is ended here."""
    ended: dict[str, float] = {}
    until = max(expires.values()) + LATEST
    while len(ended) < len(expires) and time.time() < until:
        held = {item.identity for item in await target.look(target.ground.objects, mark)}
        ended.update({one: time.time() for one in expires if one not in held and one not in ended})
        await anyio.sleep(0.1)
    for one in set(expires) - set(ended):
        await target.look(target.ground.lose, one)
    return ended


@contextmanager
def _no_help(process: "subprocess.Popen[str]", *, kill: bool) -> Generator[None]:
    """Kill the owner; or stop it with all that descends from it, which is killed afterwards."""
    if kill:
        process.send_signal(signal.SIGKILL)
        yield
        return
    stopped = [process.pid, *_descendants(process.pid)]
    try:
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in reversed(stopped):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _descendants(root: int) -> list[int]:
    """Return what a process started and what that started, but for what runs in a process namespace of its own.

    That is a sandbox, where its provider is this machine's kernel: what it does by itself is the provider's side.
    """
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError, ValueError):
                stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
                parents[int(folder.name)] = int(stat[stat.rindex(")") + 2 :].split()[1])
    found: list[int] = []
    for pid in parents:
        above = pid
        while above in parents and above != root:
            above = parents[above]
        if above == root and pid != root and _space(pid) == _space(root):
            found.append(pid)
    return found


def _space(pid: int) -> str | None:
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return None
