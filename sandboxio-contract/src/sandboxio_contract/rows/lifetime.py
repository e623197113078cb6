"""Rows about the sandbox's own end."""

import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from sandboxio import ExecutionTimeout, Sandbox, SandboxGone

from sandboxio_contract.rows import row
from sandboxio_contract.rows.inside import GRACE, SLACK, gone, raises
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, proven, require

LIFE = 6.0


@row("TMO-02")
async def no_timeout_inherits_the_sandboxes(target: Target) -> Finding:
    """A call without a timeout ends at the sandbox's own, never later."""
    async with target.sandbox(timeout=LIFE) as sb:
        require(sb.timeout == LIFE, f"the sandbox says its timeout is {sb.timeout:g}")
        started = time.monotonic()
        error = await raises((SandboxGone, ExecutionTimeout), sb.run(["sleep", "60"]), "run() without a timeout")
        took = time.monotonic() - started
    require(took <= LIFE + GRACE, f"run() without a timeout went on for {took:.1f} s, the sandbox's is {LIFE:g}")
    if isinstance(error, SandboxGone):
        require(error.reason == "lifetime", f"SandboxGone names the reason {error.reason!r}, not 'lifetime'")
    return proven(f"{type(error).__name__} after {took:.1f} s of {LIFE:g}")


@row("TMO-05")
async def everything_raises_after_the_lifetime(target: Target) -> Finding:
    """After the lifetime every operation raises `SandboxGone`, a kill is fine, and the provider has let it go."""
    async with target.sandbox(timeout=LIFE) as sb:
        await anyio.sleep(max(0.0, sb.expires_at - time.time()) + 0.5)
        operations = _operations(sb)
        for name, operation in operations.items():
            error = await raises(SandboxGone, operation(), f"{name} after the lifetime")
            require(error.reason == "lifetime", f"{name}: the reason is {error.reason!r}, not 'lifetime'")
        away = await gone(target, sb.id, within=GRACE + SLACK)
        require(away, f"the provider still has the sandbox {GRACE + SLACK:g} s after its lifetime")
        await sb.kill()
    return proven(f"{len(operations)} operations raise SandboxGone(reason='lifetime'); the provider has let it go")


def _operations(sb: Sandbox) -> dict[str, Callable[[], Awaitable[Any]]]:
    async def stream() -> None:
        async with sb.stream(["true"]):
            pass

    files = sb.files
    return {
        "run": lambda: sb.run(["true"]),
        "run_code": lambda: sb.run_code("print(1)"),
        "stream": stream,
        "files.read": lambda: files.read("/etc/passwd"),
        "files.write": lambda: files.write("x", b"x"),
        "files.ls": lambda: files.ls("/"),
        "files.mkdir": lambda: files.mkdir("y"),
        "files.stat": lambda: files.stat("/"),
        "files.exists": lambda: files.exists("/"),
        "files.remove": lambda: files.remove("x"),
    }
