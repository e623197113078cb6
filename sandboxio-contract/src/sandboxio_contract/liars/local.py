"""The stub's session: commands are local processes in the sandbox's directory."""

import os
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import anyio
import anyio.to_thread
from sandboxio.errors import ConfigurationError, SandboxGone
from sandboxio.port import CODE_PATH, Chunk, Command, Exit, Killed, StreamName

from sandboxio_contract.liars.world import Record, World

POLL = 0.005
REST = 0.08
"""Seconds of silence after a command's end: what it printed itself has been read by then."""


class StubSession:
    """A session; files go over commands.

    :cvar drives: what drives its commands.
    """

    drives: ClassVar["type[StubProcess]"]

    def __init__(self, world: World, record: Record) -> None:
        self.native: object = record
        self._world, self._record = world, record

    async def start(self, command: Command) -> "StubProcess":
        """Start a local process in a session of its own."""
        if self._record.identity not in self._world.records:
            raise SandboxGone("it is gone")
        cwd = command.cwd if command.cwd and command.cwd != "/" else self._record.folder
        if not await anyio.Path(cwd).is_dir():
            raise ConfigurationError(f"the working directory {cwd} is missing")
        code: str | None = None
        if command.code is not None:
            code = str(Path(self._record.folder, f"code-{uuid.uuid4().hex}"))
            await anyio.Path(code).write_bytes(command.code)
        argv = [code if code and part == CODE_PATH else part for part in command.argv]
        return self.started(argv, {"PATH": os.environ.get("PATH", ""), **command.env}, cwd, stdin=command.stdin)

    def started(self, argv: list[str], env: Mapping[str, str], cwd: str, *, stdin: bool) -> "StubProcess":
        """Start it, or return one that says why it can't be."""
        try:
            process = subprocess.Popen(
                argv,
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            code = 127 if isinstance(error, FileNotFoundError) else 126
            return StubProcess(None, Exit(code, started=False), [Chunk("stderr", f"{argv[0]}: {error}\n".encode())])
        self._record.processes.append(process)
        driver = self.driver(argv)(process)
        driver.record = self._record
        return driver

    def driver(self, argv: list[str]) -> "type[StubProcess]":
        """Return the class that drives a command; liars have others."""
        return self.drives

    async def aclose(self) -> None:
        """Hold nothing."""

    def info(self) -> Mapping[str, object]:
        """Say what is known."""
        return {"transport": "local", "kill": "tree", "cwd": self._record.folder}


class StubProcess:
    """One local process; two threads read its pipes."""

    record: Record | None = None
    """The sandbox that it is in."""
    most = 1_000_000
    """Bytes that it holds for a reader; then it stands still."""

    def __init__(
        self, process: "subprocess.Popen[bytes] | None", ended: Exit | None = None, chunks: list[Chunk] | None = None
    ) -> None:
        self.process = process
        self._ended = ended
        self._silent_since: float | None = None
        self._chunks = chunks or []
        self._readers = [
            threading.Thread(target=self._read, args=(name,), daemon=True)
            for name in (("stdout", "stderr") if process else ())
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, name: StreamName) -> None:
        assert self.process is not None
        pipe = self.process.stdout if name == "stdout" else self.process.stderr
        assert pipe is not None
        with pipe, suppress(OSError, ValueError):
            while data := os.read(pipe.fileno(), 65_536):
                while self.unread() > self.most:
                    time.sleep(POLL)
                self._chunks.append(Chunk(name, data))

    def unread(self) -> int:
        """Return how many bytes are held for a reader."""
        return sum(len(chunk.data) for chunk in tuple(self._chunks))

    def shows_also(self, name: StreamName) -> None:
        """Have what is held come from another stream, too."""
        self._chunks += [Chunk(name, chunk.data) for chunk in self._chunks]

    async def receive(self) -> Chunk | None:
        """Return the next chunk; a background child that holds a pipe is not waited for."""
        while not self._chunks:
            if not any(reader.is_alive() for reader in self._readers):
                return self._chunks.pop(0) if self._chunks else None
            if self.is_over():
                return None
            await anyio.sleep(POLL)
        self._silent_since = None
        return self.next_of(self._chunks)

    def next_of(self, held: list[Chunk]) -> Chunk:
        """Take the next of what is held."""
        return held.pop(0)

    def is_over(self) -> bool:
        """Whether the command itself ended and its output is read; what it left running may hold its pipes."""
        if self.process is None or self.process.poll() is None:
            return False
        if self._silent_since is None:
            self._silent_since = time.monotonic()
        return time.monotonic() - self._silent_since > REST

    async def send(self, data: bytes) -> None:
        """Write in a worker thread."""
        process = self.process
        if process is None or process.stdin is None:
            return
        with suppress(OSError, ValueError):
            await anyio.to_thread.run_sync(process.stdin.write, data, abandon_on_cancel=True)
            await anyio.to_thread.run_sync(process.stdin.flush, abandon_on_cancel=True)

    async def close_stdin(self) -> None:
        """End stdin."""
        if self.process is not None and self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()

    async def wait(self) -> Exit:
        """Wait for the end."""
        while self._ended is None:
            assert self.process is not None
            self._chunks.clear()
            code = self.process.poll()
            if code is not None:
                if code < 0 and self.record is not None and self.record.is_over:
                    raise SandboxGone("the sandbox ended, and the command with it")
                return Exit(128 - code, signal=-code) if code < 0 else Exit(code)
            await anyio.sleep(POLL)
        return self._ended

    async def kill(self) -> Killed:
        """End the process group."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        return "tree"


StubSession.drives = StubProcess
