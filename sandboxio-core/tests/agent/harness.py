"""An agent as a process of this machine, over its stdin and stdout."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import Process
from anyio.streams.stapled import StapledByteStream
from sandboxio.agent.bootstrap import agent_argv
from sandboxio.agent.process import AgentProcess
from sandboxio.agent.session import AgentSession, open_agent
from sandboxio.port import Command, Exit

PATIENCE = 30
"""Seconds after which a test fails instead of waiting; this machine may be busy."""

AS_FIRST_PROCESS = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all")
IS_ROOT = os.geteuid() == 0


@dataclass
class Result:
    """What a finished command left."""

    exit: Exit
    stdout: bytes
    stderr: bytes


class Local:
    """An open session with an agent of this machine."""

    def __init__(self, session: AgentSession, process: Process) -> None:
        self.session = session
        self.process = process

    async def start(
        self,
        *argv: str,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: bool = False,
        user: str | None = None,
        code: bytes | None = None,
    ) -> AgentProcess:
        driver = await self.session.start(Command(argv, env or {}, cwd, stdin, user, code))
        assert isinstance(driver, AgentProcess)
        return driver

    async def run(
        self,
        *argv: str,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        code: bytes | None = None,
    ) -> Result:
        with anyio.fail_after(PATIENCE):
            return await finished(await self.start(*argv, env=env, cwd=cwd, user=user, code=code))

    async def python(self, code: str, *arguments: str) -> Result:
        return await self.run(sys.executable, "{code}", *arguments, code=code.encode())

    async def ended(self) -> int:
        """Wait for the agent's own end and return its exit status."""
        with anyio.fail_after(PATIENCE):
            return await self.process.wait()


async def finished(driver: AgentProcess) -> Result:
    output: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
    while (chunk := await driver.receive()) is not None:
        output[chunk.stream].append(chunk.data)
    return Result(await driver.wait(), b"".join(output["stdout"]), b"".join(output["stderr"]))


async def read_line(driver: AgentProcess) -> str:
    """Return output up to the first newline, to know that a command has come so far."""
    text = b""
    with anyio.fail_after(PATIENCE):
        while not text.endswith(b"\n"):
            chunk = await driver.receive()
            assert chunk is not None, text
            text += chunk.data
    return text.decode().strip()


@contextlib.asynccontextmanager
async def local_agent(
    *,
    python: str = sys.executable,
    prefix: Sequence[str] = (),
    program: str | None = None,
    lifetime: float = 600,
    owner_bound: bool = True,
    workdir: str | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    same_python: bool = False,
) -> AsyncGenerator[Local]:
    """Run an agent; at the end it is closed, and killed by its process id if it does not go by itself."""
    argv = [*prefix, python, *agent_argv()[1:]]
    if program is not None:
        argv[-1] = program
    process = await anyio.open_process(argv, stderr=None, cwd=cwd or Path("/"), env=env, start_new_session=True)
    assert process.stdin is not None
    assert process.stdout is not None
    stream = StapledByteStream(process.stdin, process.stdout)
    try:
        with anyio.fail_after(PATIENCE):
            session = await open_agent(
                stream,
                lifetime=lifetime,
                owner_bound=owner_bound,
                workdir=workdir,
                same_python=same_python,
                boot_timeout=PATIENCE,
            )
        try:
            yield Local(session, process)
        finally:
            with anyio.CancelScope(shield=True):
                await session.aclose()
    finally:
        with anyio.CancelScope(shield=True):
            await close(process)


async def close(process: Process) -> None:
    with anyio.move_on_after(5):
        await process.wait()
    if process.returncode is None:
        process.kill()
    await process.aclose()


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat[stat.rindex(")") + 2] not in "ZX"


def running(words: str, before: Collection[str] = ()) -> list[int]:
    """Return processes that were not there before and were started with these words."""
    found: list[int] = []
    for name in set(os.listdir("/proc")).difference(before):
        if name.isdigit() and is_alive(int(name)):
            with contextlib.suppress(OSError):  # it went meanwhile
                if words.encode() in Path("/proc", name, "cmdline").read_bytes():
                    found.append(int(name))
    return found


async def eventually(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait for what no message announces."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        await anyio.sleep(0.005)


def end(*pids: int) -> None:
    """End processes that a test has left on purpose."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def can_be_first_process() -> bool:
    """Tell whether this machine lets the test make a process namespace."""
    if not shutil.which("unshare"):
        return False
    return subprocess.run([*AS_FIRST_PROCESS, "true"], capture_output=True, check=False).returncode == 0
