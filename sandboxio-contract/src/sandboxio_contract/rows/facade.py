"""The row about synchronous code."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from sandboxio import ConfigurationError, Sandbox, SandboxError, SandboxGone
from sandboxio.api import connect, create
from sandboxio.files import FileReader, Files, FileWriter
from sandboxio.process import Process
from sandboxio.sync import (
    SyncFileReader,
    SyncFiles,
    SyncFileWriter,
    SyncProcess,
    SyncSandbox,
    connect_sync,
    create_sync,
)

from sandboxio_contract.rows import row
from sandboxio_contract.rows.inside import DEADLINE, gone
from sandboxio_contract.target import LIFETIME, Target, first_line
from sandboxio_contract.verdict import Finding, Inconclusive, Violated, proven, require

FACADES: tuple[tuple[type, type], ...] = (
    (Sandbox, SyncSandbox),
    (Process, SyncProcess),
    (Files, SyncFiles),
    (FileReader, SyncFileReader),
    (FileWriter, SyncFileWriter),
)
WORD = b"a file of the facade's"
ALONE = {"open", "finish", "abandon", "discarded_bytes"}
"""How `open_read` and `open_write` begin and end; `Process.discarded_bytes` is an attribute there."""
Shown = tuple[type[BaseException], type[BaseException] | None] | tuple[bytes, int] | None
"""The class of an error and of its cause, or what a call returned; ``None`` where an error was expected and none came."""


@row("SYN-01", within=90)
async def the_facade_does_the_same(target: Target) -> Finding:
    """Every public name with the same parameters; the same results, and errors of the same class with the same cause."""
    names = _same_surface()
    await target.need_sandbox()
    try:
        create_sync(target.dsn).kill()
    except ConfigurationError:
        pass
    else:
        raise Violated("create_sync() was taken in a thread that runs an event loop")
    async with target.sandbox() as sb:
        own: dict[str, Shown] = {"a file": await _filed(sb), "a stream": await _streamed(sb)}
        own |= {name: await _error_of(call) for name, call in _wrong(sb).items()}
    own |= await _absent(target)
    theirs, sandbox_id = await target.look(_used, target)
    for name, shown in own.items():
        require(theirs.get(name) == shown, f"{name}: {_text(theirs.get(name))} instead of {_text(shown)}")
    require(await gone(target, sandbox_id), "leaving the block of create_sync() left the sandbox alive")
    return proven(f"{names} names with the same parameters; {len(own)} results and errors are the same; it is gone")


def _same_surface() -> int:
    pairs: list[tuple[str, Any, Any]] = [("create", create, create_sync), ("connect", connect, connect_sync)]
    for ours, theirs in FACADES:
        here, there = _public(ours), _public(theirs)
        missing = sorted(here.keys() ^ there.keys())
        require(not missing, f"{ours.__name__} and {theirs.__name__} differ in {', '.join(missing)}")
        pairs += [(f"{ours.__name__}.{name}", here[name], there[name]) for name in here]
    for name, mine, other in pairs:
        if not isinstance(mine, property) and callable(mine):
            same = inspect.signature(mine).parameters == inspect.signature(other).parameters
            require(same, f"{name} takes other parameters than its synchronous form")
            require(not inspect.iscoroutinefunction(other), f"the synchronous {name} has to be awaited")
    return len(pairs)


def _public(cls: type) -> dict[str, object]:
    return {name: value for name, value in vars(cls).items() if not name.startswith("_") and name not in ALONE}


def _wrong(sb: Any) -> dict[str, Callable[[], Any]]:
    """Return calls that have to fail, of either kind of sandbox; the last one may end the sandbox."""
    return {
        "a missing file": lambda: sb.files.read("none"),
        "a wrong argument": lambda: sb.run([]),
        "a wrong timeout": lambda: sb.run(["true"], timeout=0),
        "an unknown language": lambda: sb.run_code("1", language="none"),
        "a failed command": lambda: _status(sb),
        "a deadline": lambda: sb.run(["sleep", "30"], timeout=DEADLINE),
    }


def _status(sb: Any) -> Any:
    result = sb.run(["false"])
    if inspect.isawaitable(result):
        return _awaited_status(result)
    return result.raise_for_status()


async def _awaited_status(result: Awaitable[Any]) -> None:
    (await result).raise_for_status()


async def _filed(sb: Sandbox) -> Shown:
    try:
        await sb.files.write("facade", WORD)
        return await sb.files.read("facade"), 0
    except SandboxError as error:
        return _shown(error)


async def _streamed(sb: Sandbox) -> Shown:
    async with sb.stream(["echo", "streamed"]) as proc:
        return b"".join([chunk.data async for chunk in proc]), await proc.wait()


def _filed_here(sb: SyncSandbox) -> Shown:
    try:
        sb.files.write("facade", WORD)
        return sb.files.read("facade"), 0
    except SandboxError as error:
        return _shown(error)


def _streamed_here(sb: SyncSandbox) -> Shown:
    with sb.stream(["echo", "streamed"]) as proc:
        return b"".join(chunk.data for chunk in proc), proc.wait()


async def _error_of(call: Callable[[], Awaitable[object]]) -> Shown:
    try:
        await call()
    except SandboxError as error:
        return _shown(error)
    return None


async def _absent(target: Target) -> dict[str, Shown]:
    try:
        dsn = target.ground.absent_template()
    except Inconclusive:
        return {}

    async def make() -> None:
        await (await target.create(dsn=dsn)).kill()

    return {"an absent template": await _error_of(make)}


def _used(target: Target) -> tuple[dict[str, Shown], str]:
    """Use the facade from this thread; return its errors, and the id of a sandbox whose block was left."""
    mark: dict[str, Any] = {"metadata": target.mark, "timeout": LIFETIME}
    with create_sync(target.dsn, **mark) as sb:
        target.made.add(sb.id)
        require(sb.run(["true"]).ok, "run() of the facade failed")
        found: dict[str, Shown] = {"a file": _filed_here(sb), "a stream": _streamed_here(sb)}
        found |= {name: _sync_error(call) for name, call in _wrong(sb).items()}
    try:
        sb.run(["true"])
    except SandboxGone:
        pass
    else:
        raise Violated("a sandbox whose block was left still takes commands")
    try:
        dsn = target.ground.absent_template()
    except Inconclusive:
        return found, sb.id
    found["an absent template"] = _sync_error(lambda: create_sync(dsn, **mark).kill())
    return found, sb.id


def _sync_error(call: Callable[[], object]) -> Shown:
    try:
        call()
    except SandboxError as error:
        return _shown(error)
    except Exception as error:
        raise Violated(f"the facade raised {first_line(error)}, no error of sandboxio's") from error
    return None


def _shown(error: SandboxError) -> Shown:
    cause = error.__cause__
    return type(error), None if cause is None else type(cause)


def _text(shown: Shown) -> str:
    if shown is None:
        return "no error"
    return " from ".join(one.__name__ if isinstance(one, type) else repr(one) for one in shown)
