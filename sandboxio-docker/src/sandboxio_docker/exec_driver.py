"""One command over the engine's exec API: its streams, its end, and what the engine says in its place."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TYPE_CHECKING

import anyio
from sandboxio.errors import (
    ConfigurationError,
    ConnectError,
    ExecutionError,
    ResourceLimitExceeded,
    SandboxError,
    SandboxGone,
)
from sandboxio.port import Chunk, Command, Exit, Killed

from sandboxio_docker.attach import STDERR, Frames
from sandboxio_docker.ending import KILLED
from sandboxio_docker.errors import CONNECTION_LOST

if TYPE_CHECKING:
    from sandboxio_docker.exec_session import ExecSession

NOT_FOUND, NOT_EXECUTABLE = 127, 126
OVER_FILE_SIZE = 153
"""128 + SIGXFSZ: ended for a file larger than the cap. A program may exit with it too; the engine doesn't tell which."""
ENGINES_WORDS = ("OCI runtime exec failed", "unable to find user", "unable to find group")
"""How the engine's own error begins that it writes to the stdout of a command it could not start."""
NO_PROCESS = ("resource temporarily unavailable", "read init-p", "errno=11")
"""How the engine tells that the kernel refused a process: a command's, or runc's own (measured with runc 1.1)."""
UNUSABLE = ("permission denied", "exec format error", "is a directory", "not a directory")
LOOK_EVERY = 0.25
"""Seconds between looks at a command whose output is read; as much silence after its end is the end of its output."""
DRAIN = 1.0
"""Seconds spent waiting, in all, for output after the command's end: a background child may write for ever."""
POLLS = (0.02, 0.05, 0.1, 0.25, 0.5)
"""Seconds between looks at a command, the last one repeated."""
SHORT_POLLS = POLLS[:3]
"""Seconds between looks at a command whose output ended, and which should have ended."""


@dataclass(frozen=True, slots=True)
class Look:
    """A command as the engine sees it; ``pid`` is 0 if it never ran."""

    running: bool
    code: int | None
    pid: int


class ExecDriver:
    """One exec'd command."""

    def __init__(self, session: "ExecSession", exec_id: str, frames: Frames, interpreter: str | None = None) -> None:
        self._session = session
        self._interpreter = interpreter
        self._exec_id = exec_id
        self._frames = frames
        self._exit: Exit | None = None
        self._refusal: list[Chunk] = []
        self._began = time.time()
        self._over = False
        self._stdin_open = False
        self._ended = False
        self._looked_at = 0.0
        self._patience = DRAIN

    async def settle(self, command: Command) -> None:
        """Wait until the command runs, or was refused; give it its code."""
        look = await self._look_until(lambda look: look.pid != 0 or look.code is not None)
        if look.pid == 0 and look.code in (NOT_FOUND, NOT_EXECUTABLE) and (text := await self._engines_text()):
            await self.aclose()
            return self._refuse(command, text)
        self._stdin_open = wants_stdin(command)
        if command.code is not None:
            await self.send(command.code)
            await self.close_stdin()
        return None

    def _refuse(self, command: Command, text: str) -> None:
        # The engine writes its own error to the command's stdout, with exit code 126 whatever the reason was (runc #591).
        if "chdir to cwd" in text:
            raise ConfigurationError(
                f"the working directory {command.cwd!r} can't be used: {text}",
                hint="make it first, or pass another cwd=",
            )
        if "unable to find user" in text or "unable to find group" in text:
            raise ConfigurationError(f"the image has no user {command.user!r}: {text}", hint="pass a user that exists")
        if any(sign in text for sign in NO_PROCESS):
            raise ResourceLimitExceeded(f"no process may be started any more: {text}", limit="pids", value=None)
        missing = "executable file not found" in text or "no such file or directory" in text
        if not missing and not any(sign in text for sign in UNUSABLE):
            raise ExecutionError(
                f"the engine could not start {command.argv[0]}: {text}", hint="see the engine's log for the reason"
            )
        code = NOT_FOUND if missing else NOT_EXECUTABLE
        self._exit = Exit(code, started=False)
        what = "not found" if missing else "can't be executed"
        self._refusal = [Chunk("stderr", f"{command.argv[0]}: {what}\n".encode())]
        self._over = True

    async def receive(self) -> Chunk | None:
        """Return the next piece of output; see the port for when it is over."""
        try:
            return await self._receive()
        except (SandboxGone, ConnectError):
            await self.aclose()
            raise

    async def _receive(self) -> Chunk | None:
        if self._refusal:
            return self._refusal.pop()
        while not self._over:
            # A background child may hold the pipe (moby #33039): only the command's own end counts, not the stream's.
            await self._look()
            before, at_end = anyio.current_time(), False
            with anyio.move_on_after(min(LOOK_EVERY, max(self._patience, 0))):
                chunk = await self._next()
                if self._ended:
                    self._patience -= anyio.current_time() - before
                if chunk is not None:
                    return chunk
                at_end = True
            if at_end:
                await self._confirm_end()
            self._over = self._ended or at_end
        return None

    async def _confirm_end(self) -> None:
        """Make sure that the other side ended the stream, and that it was not cut on the way: both look the same.

        The engine ends it after the command, also where that closed its output before (moby's ``daemon/monitor.go``, read
        2026-11; seen with Docker 20.10): a command that still runs was cut off. One that ended meanwhile may have been:
        then the session's other connection went the same way.
        """
        for pause in SHORT_POLLS:
            ended = not (await self._session.inspect(self._exec_id)).running
            if self._session.was_cut():
                break
            if ended:
                return
            await anyio.sleep(pause)
        raise await self._session.lost()

    async def _look(self) -> None:
        now = anyio.current_time()
        if not self._ended and now - self._looked_at >= LOOK_EVERY:
            self._ended = not (await self._session.inspect(self._exec_id)).running
            self._looked_at = now

    async def _next(self) -> Chunk | None:
        try:
            frame = await self._frames.receive()
        except CONNECTION_LOST as error:
            raise await self._session.lost() from error
        if frame is None:
            return None
        return Chunk("stderr" if frame[0] == STDERR else "stdout", frame[1])

    async def send(self, data: bytes) -> None:
        """Write to stdin; dropped once it is closed or the command ended."""
        if not self._stdin_open or self._over:
            return
        async with anyio.create_task_group() as group:
            group.start_soon(self._end_with_command, group.cancel_scope)
            try:
                await self._frames.send(data)
            except (*CONNECTION_LOST, OSError):
                self._stdin_open = False
            group.cancel_scope.cancel()

    async def _end_with_command(self, sending: anyio.CancelScope) -> None:
        """End a write that the command will never take: the engine keeps the connection open, and reads no more of it."""
        while not self._ended:
            await anyio.sleep(LOOK_EVERY)
            try:
                await self._look()
            except SandboxError:
                break  # whoever waits for the command's end looks again, and is told
        self._stdin_open = False
        sending.cancel()

    async def close_stdin(self) -> None:
        """End stdin."""
        if self._stdin_open and not self._over:
            self._stdin_open = False
            try:
                await self._frames.send_eof()
            except (*CONNECTION_LOST, OSError):
                return

    async def wait(self) -> Exit:
        """Wait for the command to end, dropping its output; an unknown exit code is never 0."""
        while await self.receive() is not None:
            pass
        if self._exit is None:
            try:
                self._exit = await self._find_exit()
            except SandboxGone:
                await self.aclose()
                raise
            await self.aclose()
        return self._exit

    async def _find_exit(self) -> Exit:
        # The stream may end early (docker-py #3160): the exit code is the engine's word, however long it takes.
        look = await self._look_until(lambda look: not look.running and look.code is not None)
        assert look.code is not None
        if look.code == NOT_FOUND and self._interpreter and not await self._session.has_program(self._interpreter):
            # The shell that kept the code says 127; the code itself may as well.
            return Exit(NOT_FOUND, started=False)
        if look.code == OVER_FILE_SIZE:
            return Exit(look.code, limit="disk_mb")
        return await self._killed() if look.code == KILLED else Exit(look.code)

    async def _killed(self) -> Exit:
        """Tell apart who ended the command: the kernel for want of memory, the end of the whole sandbox, or a kill."""
        if await self._session.out_of_memory(self._began):
            return Exit(KILLED, limit="memory_mb")
        if await self._session.has_ended():
            raise await self._session.gone()
        return Exit(KILLED)

    async def kill(self) -> Killed:
        """End the sandbox: nothing smaller can be ended for certain this way."""
        # First the stream: the engine does not see the container's end while an output of it is not read (5 s and more).
        await self.aclose()
        await self._session.end()
        return "sandbox"

    async def aclose(self) -> None:
        """Close the stream."""
        await self._frames.aclose()

    async def _look_until(self, enough: Callable[[Look], bool]) -> Look:
        for pause in chain(POLLS, repeat(POLLS[-1])):
            look = await self._session.inspect(self._exec_id)
            if enough(look):
                return look
            await anyio.sleep(pause)
        raise AssertionError

    async def _engines_text(self) -> str | None:
        """Return the engine's own error if that is what the streams hold, else leave them as they are."""
        frames: list[tuple[int, bytes]] = []
        while frame := await self._frames.receive():
            frames.append(frame)
        text = b"".join(piece for _, piece in frames).decode("utf-8", "replace").strip()
        if text.startswith(ENGINES_WORDS):
            return text
        for kind, piece in reversed(frames):
            self._frames.give_back(kind, piece)
        return None


def wants_stdin(command: Command) -> bool:
    """Whether something goes in over stdin, be it the program itself."""
    return command.stdin or command.code is not None
