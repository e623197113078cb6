"""Rows about a command that resists its end, and one that speaks in the agent's name."""

import time

import anyio
from sandboxio import ExecResult, ExecutionTimeout, Sandbox, SandboxError, SandboxGone

from sandboxio_contract.attacks import FORGE, RESIST, SHELL_FORGE, SHELL_RESIST
from sandboxio_contract.attacks.resist import MEMBERS
from sandboxio_contract.rows import row
from sandboxio_contract.rows.inside import GRACE, attack, ends_one_tree, gone, output_of, raises
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, Inconclusive, proven, require

BUDGET = 3.0
PATIENCE = 10.0
"""Seconds that the parts of a besieging command may take to be seen once, on a busy machine."""
SHELL_MEMBERS = 3
"""So many of the parts are there in the shell's version, too."""
BYSTANDER = "i=0; while [ $i -lt 40 ]; do i=$((i+1)); sleep 0.2; done; echo true words; exit 5"
ECHO = "sleep 1; echo true words; exit 5"


@row("TMO-04", within=90, hostile=True)
async def a_command_that_resists_is_ended(target: Target) -> Finding:
    """It besieges whoever should end it, lets its children be others all the time, and its tree is gone all the same."""
    outcome: list[object] = []
    async with target.sandbox() as sb:
        command = await attack(sb, RESIST, SHELL_RESIST)
        members = MEMBERS if command[0] == "python3" else MEMBERS[:SHELL_MEMBERS]
        async with anyio.create_task_group() as group:
            group.start_soon(_bystander, sb, BYSTANDER, outcome)
            await _resists(sb, command, len(members))
            require(not (ends_one_tree(sb) and outcome), f"another command got {outcome}")
            group.cancel_scope.cancel()
        try:
            before = await _beats(sb)
        except SandboxGone:
            require(await gone(target, sb.id), "run() says that the sandbox had to go, and the provider still has it")
            return proven("the whole sandbox went with the command, and the errors say so")
        missing = [name for name in members if name not in before]
        if missing:
            raise Inconclusive(f"these parts never ran, so their end proves nothing: {', '.join(missing)}")
        await anyio.sleep(1)
        after = await _beats(sb)
        alive = [name for name in members if before[name] != after[name]]
        require(not alive, f"still alive after the timeout: {', '.join(alive)}")
        require(await output_of(sb, ["echo", "next"]) == "next\n", "the next command does not work")
    return proven(f"{len(members)} kinds of children stopped for good; the sandbox works on")


async def _resists(sb: Sandbox, command: list[str], parts: int) -> None:
    async with sb.stream(command, timeout=60) as proc:
        with anyio.move_on_after(PATIENCE):
            await proc.__anext__()
            while len(await _beats(sb)) < parts:
                await anyio.sleep(0.1)
        started = time.monotonic()
    took = time.monotonic() - started
    require(took <= GRACE, f"leaving a stream whose command resists took {took:.1f} s")


@row("TMO-04", within=90, hostile=True)
async def a_timeout_holds_against_resistance(target: Target) -> Finding:
    """`ExecutionTimeout` comes in time though the command besieges whoever should end it."""
    async with target.sandbox() as sb:
        command = await attack(sb, RESIST, SHELL_RESIST)
        started = time.monotonic()
        call = sb.run(command, timeout=BUDGET)
        error = await raises(ExecutionTimeout, call, "run() of a command that resists")
        took = time.monotonic() - started
        require(BUDGET <= took <= BUDGET + GRACE, f"ExecutionTimeout came after {took:.1f} s instead of {BUDGET:g}")
        if "ready" not in error.stdout:
            raise Inconclusive(f"the attack did not get under way: {error.stderr[-300:]!r}")
        try:
            result = await sb.run(["true"], timeout=PATIENCE)
        except SandboxGone:
            require(await gone(target, sb.id), "run() says that the sandbox had to go, and the provider still has it")
            return proven(f"after {took:.1f} s, with the whole sandbox")
        require(result.exit_code == 0, f"the next command gave {result!r}")
    return proven(f"after {took:.1f} s; the sandbox works on")


@row("RUN-01", within=60, hostile=True)
async def nobody_speaks_in_the_agents_name(target: Target) -> Finding:
    """Frames that a command writes wherever it can change neither its own exit code nor another command's."""
    outcome: list[object] = []
    result: ExecResult | None = None
    async with target.sandbox() as sb:
        command = await attack(sb, FORGE, SHELL_FORGE)
        async with anyio.create_task_group() as group:
            group.start_soon(_bystander, sb, ECHO, outcome)
            await anyio.sleep(0.3)
            result = await sb.run(command, timeout=30)
        other = outcome[0]
        again = await output_of(sb, ["echo", "next"])
    assert result is not None
    told = result.stderr.strip()
    if not told or told.startswith("0 of its own"):
        raise Inconclusive(f"the attack could not even write to a process of its own: {told[-200:]!r}")
    require(result.exit_code == 7, f"it exited with 7, run() says {result.exit_code}")
    require(result.stdout_bytes.count(b"forged") == 66, "what it printed did not arrive as it was")
    true = isinstance(other, ExecResult) and (other.exit_code, other.stdout, other.stderr) == (5, "true words\n", "")
    require(true, f"another command, which said 'true words' and exited with 5, came to {other!r}")
    require(again == "next\n", "the next command's output is not its own")
    return proven(f"written to descriptors {told}; both exit codes and outputs are true")


async def _bystander(sb: Sandbox, script: str, outcome: list[object]) -> None:
    try:
        outcome.append(await sb.run(["sh", "-c", script], timeout=30))
    except SandboxError as error:
        outcome.append(error)


async def _beats(sb: Sandbox) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name in MEMBERS:
        if await sb.files.exists(f"beat-{name}"):
            found[name] = await sb.files.read(f"beat-{name}")
    return found
