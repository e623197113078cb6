"""Rows about the deadline of a call: refused if unbounded, raised in time, and the whole tree is gone."""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import sandboxio
from sandboxio import ConfigurationError, CreateTimeout, ExecutionTimeout, Sandbox, SandboxGone

from sandboxio_contract.rows import row
from sandboxio_contract.rows.inside import (
    DEADLINE,
    GRACE,
    SLACK,
    connected,
    ends_one_tree,
    gone,
    has_python,
    left_over,
    need_shell,
    output_of,
    raises,
    until,
)
from sandboxio_contract.rows.refusing import recorded
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, Inconclusive, Part, proven, require, summed, violated

UNBOUNDED: Mapping[str, Any] = {
    "0": 0,
    "-1": -1,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "a string": "5",
    "a truth value": True,
}
DEFAULT = 300.0
BESIDE = 10.0
"""Seconds for a command that leaves a child running."""
LIVES_ON = 5.0
"""Seconds within which a child that lives on writes again."""
HANGS = 2.0
"""Seconds for a creation whose provider does not answer."""

_BEAT = 'i=0; while :; do i=$((i+1)); echo $i > "$0"; sleep 0.1; done'
TREE = f"""
B='{_BEAT}'
sh -c "$B" plain &
setsid sh -c "$B" session &
( setsid sh -c "$B" twice & ) &
sh -c "trap '' TERM INT HUP; $B" stubborn &
env -i PATH="$PATH" sh -c "$B" cleared &
sleep 60
"""
"""Children that a careless kill misses, each with a heartbeat in a file."""
PART, CLOSED, ENDLESS = "echo part; sleep 30", "exec >/dev/null 2>&1; sleep 30", "while :; do echo y; done"
PRINTED, PRINTS = "after some output", 3
"""The case whose command has to print before its deadline, which is that many times as long."""
MEMBERS = ("plain", "session", "twice", "stubborn", "cleared")


@row("TMO-01")
async def unbounded_is_refused(target: Target) -> Finding:
    """No call takes "no limit", and the default is 300 s."""
    parts: list[Part] = []
    async with recorded(target) as asking:
        for name, value in {**UNBOUNDED, "None": None}.items():
            what = f"create(timeout={name})"
            parts.append(await asking.refuses(what, ConfigurationError, no_call=True, timeout=value))
    await target.need_sandbox()
    default = (await sandboxio.plan(target.dsn)).spec.timeout
    require(default == DEFAULT or "timeout=" in target.dsn, f"the default is {default:g} s")
    parts.append(Part("default", "proven", f"{default:g} s"))
    async with target.sandbox() as sb:
        for call, make in _calls(sb).items():
            for name, value in UNBOUNDED.items():
                await raises(ConfigurationError, make(value), f"{call}(timeout={name})")
            parts.append(Part(call, "refused", "every unbounded timeout raises"))
    return summed(parts)


@row("TMO-03")
async def a_deadline_raises(target: Target) -> Finding:
    """The deadline raises its own error in time, with what was printed; it never returns a result and never hangs (OUT-07)."""
    async with target.sandbox() as sb:
        await need_shell(sb)
        python = await has_python(sb)
    cases: dict[str, Callable[[Sandbox], Awaitable[Any]]] = {
        "a silent command": lambda sb: sb.run(["sleep", "30"], timeout=DEADLINE),
        PRINTED: lambda sb: sb.run(["sh", "-c", PART], timeout=PRINTS * DEADLINE),
        "closed output": lambda sb: sb.run(["sh", "-c", CLOSED], timeout=DEADLINE),
        "endless output": lambda sb: sb.run(["sh", "-c", ENDLESS], timeout=DEADLINE, max_output=1000),
        "unread stdin": lambda sb: sb.run(["sleep", "30"], stdin=bytes(4 * 1024 * 1024), timeout=DEADLINE),
        "stream": lambda sb: _read_all(sb, ["sh", "-c", PART]),
    }
    if python:
        cases["run_code"] = lambda sb: sb.run_code("while True: pass", timeout=DEADLINE)
    found: dict[str, Part] = {}
    async with anyio.create_task_group() as group:
        for name, case in cases.items():
            group.start_soon(_deadline, target, name, case, found)
    return summed(found[name] for name in cases)


@row("TMO-03", within=90)
async def a_creation_that_hangs_raises(target: Target) -> Finding:
    """`CreateTimeout` comes in time while the provider withholds its answer, and what it makes late goes (TMO-12)."""
    await target.need_sandbox()
    mark = {"row": f"hang-{target.token}"}
    with target.ground.spied() as spied:
        gate = spied.wire.gate(spied.creates, "after commit")
        started = time.monotonic()
        error = await raises(
            CreateTimeout,
            _awaited(target.create(dsn=spied.dsn, timeout=HANGS, metadata=mark)),
            f"create(timeout={HANGS:g}) on a hanging provider",
        )
        took = time.monotonic() - started
        require(gate.reached.is_set(), "create() never asked the provider for a sandbox")
        require(
            took <= HANGS + GRACE + SLACK, f"CreateTimeout came after {took:.1f} s instead of {HANGS:g} (+{GRACE:g})"
        )
        require(not isinstance(error, TimeoutError), "CreateTimeout is a builtin TimeoutError")
        gate.open()
        left = await left_over(target, mark, within=GRACE + 5)
    require(not left, f"left behind: {', '.join(map(str, left))}")
    return proven(f"CreateTimeout after {took:.1f} s; the sandbox that was made all the same is gone")


@row("TMO-04", world=True)
async def a_timed_out_tree_is_gone(target: Target) -> Finding:
    """Children that `setsid`, double-fork, ignore TERM or clear their environment die; another command goes on (TMO-01, TMO-02)."""
    outcome: list[object] = []
    async with target.sandbox() as sb:
        await need_shell(sb)
        async with anyio.create_task_group() as group:
            group.start_soon(_bystander, sb, outcome)
            await _tree_dies(sb)
        if not ends_one_tree(sb):
            require(isinstance(outcome[0], SandboxGone), f"the other command got {outcome[0]!r}, not SandboxGone")
            return proven("a kill ends the whole sandbox here, as info() says; the other command got SandboxGone")
        require(outcome[0] == "fine\n", f"the other command got {outcome[0]!r}")
        require(await output_of(sb, ["echo", "next"]) == "next\n", "the next command does not work")
    return proven(f"{len(MEMBERS)} kinds of children stopped for good; another command went on")


@row("TMO-04", world=True)
async def a_tree_that_a_connection_started_is_gone(target: Target) -> Finding:
    """It is over a further connection too, by the word of the one that made the sandbox, or with the whole sandbox."""
    async with target.sandbox() as sb:
        await need_shell(sb)
        again = await connected(target, sb)
        try:
            await _tree_dies(again, seen_by=sb)
            if not ends_one_tree(again):
                require(
                    await gone(target, sb.id), "the connection had to end the sandbox, and the provider still has it"
                )
                return proven("a connection ends the whole sandbox in a tree's place, as its info() says")
        finally:
            await again.kill()
    return proven(f"{len(MEMBERS)} kinds of children of a connection's command stopped for good")


@row("TMO-07", world=True)
async def a_background_child_is_not_waited_for(target: Target) -> Finding:
    """A child that keeps stdout open does not hold the call, and goes on living and writing afterwards (OUT-01)."""
    script = "( i=0; while :; do i=$((i+1)); echo $i; echo $i > alive; sleep 0.1; done ) & echo started"
    async with target.sandbox() as sb:
        await need_shell(sb)
        took = 0.0
        for turn in range(3):
            started = time.monotonic()
            result = await sb.run(["sh", "-c", script], timeout=BESIDE)
            took = time.monotonic() - started
            require(took <= 6, f"run() waited {took:.1f} s for a background child")
            require(result.exit_code == 0, f"exit code {result.exit_code}")
            require("started" in result.stdout, f"turn {turn}: stdout {result.stdout[:40]!r} misses the command's own")
        before = await sb.files.read("alive")
        after = await until(lambda: sb.files.read("alive"), lambda now: now != before, LIVES_ON)
        require(before != after, "the background child died with a successful run")
    return proven(f"run() returned after {took:.2f} s, and the children wrote on")


def _calls(sb: Sandbox) -> dict[str, Callable[[Any], Awaitable[Any]]]:
    async def enter(timeout: Any) -> None:
        async with sb.stream(["true"], timeout=timeout):
            pass

    return {
        "run": lambda value: sb.run(["true"], timeout=value),
        "run_code": lambda value: sb.run_code("1", timeout=value),
        "stream": enter,
    }


async def _awaited(creation: Any) -> object:
    made = await creation
    await made.kill()
    return made


async def _read_all(sb: Sandbox, argv: list[str]) -> list[bytes]:
    async with sb.stream(argv, timeout=DEADLINE) as proc:
        return [chunk.data async for chunk in proc]


async def _deadline(
    target: Target, name: str, case: Callable[[Sandbox], Awaitable[Any]], found: dict[str, Part]
) -> None:
    """Each case in a sandbox of its own: where a kill takes the sandbox, cases must not disturb each other."""
    async with target.sandbox() as sb:
        started = time.monotonic()
        error = await raises(ExecutionTimeout, case(sb), name)
        took = time.monotonic() - started
        deadline = DEADLINE * (PRINTS if name == PRINTED else 1)
        right = deadline <= took <= deadline + GRACE
        require(right, f"{name}: ExecutionTimeout came after {took:.1f} s instead of {deadline:g}")
        require(not isinstance(error, TimeoutError), f"{name}: a builtin TimeoutError")
        if name == PRINTED:
            require(error.stdout == "part\n", f"{name}: the error carries {error.stdout!r}, not what was printed")
        if name == "endless output":
            size = len(error.stdout_bytes)
            require(0 < size <= 1000, f"{name}: the error carries {size} bytes instead of at most max_output=1000")
        found[name] = Part(name, "proven", f"after {took:.2f} s")


async def _bystander(sb: Sandbox, outcome: list[object]) -> None:
    try:
        result = await sb.run(["sh", "-c", "sleep 5; echo fine"], timeout=30)
        outcome.append(result.stdout if result.exit_code == 0 else result)
    except sandboxio.SandboxError as error:
        outcome.append(error)


async def _tree_dies(sb: Sandbox, seen_by: Sandbox | None = None) -> None:
    started = time.monotonic()
    await raises(ExecutionTimeout, sb.run(["sh", "-c", TREE], timeout=2), "run(a tree, timeout=2)")
    took = time.monotonic() - started
    require(2 <= took <= 2 + GRACE, f"ExecutionTimeout came after {took:.1f} s instead of 2")
    if ends_one_tree(sb):
        await _no_beat(seen_by or sb)


async def _no_beat(sb: Sandbox) -> None:
    before = await _beats(sb)
    await anyio.sleep(1)
    after = await _beats(sb)
    alive = [name for name in MEMBERS if before[name] != after[name]]
    if alive:
        violated(f"still alive after the timeout: {', '.join(alive)}")


async def _beats(sb: Sandbox) -> dict[str, bytes]:
    missing = [name for name in MEMBERS if not await sb.files.exists(name)]
    if missing:
        raise Inconclusive(f"the image can't start these children, so their end proves nothing: {', '.join(missing)}")
    return {name: await sb.files.read(name) for name in MEMBERS}
