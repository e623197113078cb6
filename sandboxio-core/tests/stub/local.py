"""A session whose commands are processes of this machine, to run scripts by a real shell."""

import os
import signal
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence

import anyio
from anyio.abc import Process
from sandboxio.port import Chunk, Command, Exit, Killed, ProcessDriver, StreamName


class LocalSession:
    """Starts ``sh`` as ``shell`` says, everything else as it is."""

    def __init__(self, shell: Sequence[str] = ("sh",)) -> None:
        self.native: object = None
        self.drivers: list[LocalDriver] = []
        self._shell = tuple(shell)

    async def start(self, command: Command) -> ProcessDriver:
        argv = (*self._shell, *command.argv[1:]) if command.argv[0] == "sh" else command.argv
        process = await anyio.open_process(
            argv,
            stdin=subprocess.PIPE if command.stdin else subprocess.DEVNULL,
            cwd=command.cwd,
            env={"PATH": os.environ["PATH"], **command.env},
            start_new_session=True,
        )
        driver = LocalDriver(process)
        self.drivers.append(driver)
        return driver

    async def aclose(self) -> None:
        for driver in self.drivers:
            await driver.process.aclose()

    def info(self) -> Mapping[str, object]:
        return {}


class LocalDriver:
    def __init__(self, process: Process) -> None:
        self.process = process
        self._streams: deque[StreamName] = deque(("stdout", "stderr"))

    async def receive(self) -> Chunk | None:
        while self._streams:
            name = self._streams[0]
            stream = self.process.stdout if name == "stdout" else self.process.stderr
            assert stream is not None
            try:
                return Chunk(name, await stream.receive())
            except anyio.EndOfStream:
                self._streams.popleft()
        return None

    async def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        try:
            await self.process.stdin.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return

    async def close_stdin(self) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.aclose()

    async def wait(self) -> Exit:
        code = await self.process.wait()
        return Exit(code if code >= 0 else 128 - code, started=True)

    async def kill(self) -> Killed:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return "tree"
        await self.process.wait()
        return "tree"
