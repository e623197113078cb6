"""One command over a program that runs it in a sandbox; a shell in there says how it ended, see `exec_session`.

Nothing reads in the background: whoever waits for something reads.
"""

import signal
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import anyio

from sandboxio.errors import ConfigurationError, ExecutionError, ResourceLimitExceeded, SandboxGone
from sandboxio.port import Chunk, Command, Exit, Killed, StreamName

if TYPE_CHECKING:
    from anyio.abc import ByteReceiveStream, ByteSendStream

    from sandboxio.port import Observation

STARTED, NO_DIRECTORY = "started", "cwd"
NO_FORK = (2, 254)
"""With which shells end that can't fork: dash and busybox, bash."""
NO_PROCESS = "resource temporarily unavailable"
"""How C libraries tell that a kernel refused a process."""
KILLED = 128 + signal.SIGKILL
POLLS = (0.02, 0.1, 0.3, 0.6)
"""Seconds between looks at a sandbox that may have ended along with a command."""
OWN_END = 0.2
"""Seconds in which the program may end by itself after its command, unless a background child holds its streams.

One that is killed at the moment of its own end has two who ask for its exit status, and asyncio warns of that.
"""
_LOST = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


class Streams(Protocol):
    """The streams of one command, as `anyio.abc.Process` has them; an adapter of an API makes its own."""

    @property
    def stdin(self) -> "ByteSendStream | None":
        """Where to write; ``None`` if it is at its end."""
        ...

    @property
    def stdout(self) -> "ByteReceiveStream | None":
        """Where to read."""
        ...

    @property
    def stderr(self) -> "ByteReceiveStream | None":
        """Where to read."""
        ...

    @property
    def returncode(self) -> int | None:
        """How it ended, as far as is known: the exit code, minus a signal."""
        ...

    async def wait(self) -> int:
        """Wait for its end."""
        ...

    def kill(self) -> None:
        """Let go of it at once."""
        ...

    async def aclose(self) -> None:
        """Give up what is held."""
        ...


class SandboxOfCommand(Protocol):
    """The sandbox that a command runs in: what an adapter's backend is, beside a `Backend`."""

    @property
    def no_process(self) -> Sequence[str]:
        """What whoever starts commands says, in lower case, where the kernel refused it a process of its own in the sandbox."""
        ...

    async def limit_hit(self, sandbox_id: str, since: float) -> str | None:
        """Return the field of `Resources` for whose cap a process of a sandbox was killed since then (epoch), if any."""
        ...

    async def observe(self, sandbox_id: str) -> "Observation | None":
        """As `Backend.observe`."""
        ...

    async def destroy(self, sandbox_id: str) -> None:
        """As `Backend.destroy`."""
        ...


class ExecCommand:
    """A `ProcessDriver`.

    :param word: by which the shell's words are known from the command's; its first byte is in it once.
    :param running: where the command is listed until it is let go of.
    """

    def __init__(
        self,
        process: Streams,
        word: bytes,
        program: SandboxOfCommand,
        sandbox_id: str,
        running: "set[ExecCommand]",
    ) -> None:
        self._process, self._word, self._running = process, word, running
        self._program, self._sandbox_id = program, sandbox_id
        self._chunks: deque[Chunk] = deque()
        self._rest: dict[StreamName, bytes] = {"stdout": b"", "stderr": b""}
        self._open: set[StreamName] = set(self._rest)
        self._said: list[str] = []
        self._began = time.time()
        self._exit: Exit | None = None
        running.add(self)

    async def settle(self, command: Command) -> None:
        """Wait until the command is there; give it its code."""
        while not self._said and self._open:
            await self._read_some()
        if self._said == [NO_DIRECTORY]:
            raise ConfigurationError(
                f"the working directory {command.cwd!r} can't be used", hint="make it first, or pass another cwd="
            )
        if not self._said:
            raise await self._not_started()
        if command.code is not None:
            await self.send(command.code)
            await self.close_stdin()

    async def receive(self) -> Chunk | None:
        """Return the next piece of output; what a background child writes after the command's end is not waited for."""
        while not self._chunks and self._open:
            await self._read_some()
        return self._chunks.popleft() if self._chunks else None

    async def send(self, data: bytes) -> None:
        """Write to stdin; dropped once it is closed or the command ended."""
        if self._process.stdin is not None:
            try:
                await self._process.stdin.send(data)
            except _LOST:
                return

    async def close_stdin(self) -> None:
        """End stdin."""
        if self._process.stdin is not None:
            await self._process.stdin.aclose()

    async def wait(self) -> Exit:
        """Wait for the command to end, dropping its output."""
        while await self.receive() is not None:
            pass
        if self._exit is None:
            self._exit = await self._ended()
            with anyio.move_on_after(OWN_END):
                await self._process.wait()
            await self.aclose()
        return self._exit

    async def kill(self) -> Killed:
        """End the sandbox: nothing smaller can be ended for certain."""
        # First the stream: a provider may not see an end while output is left unread.
        await self.aclose()
        await self._program.destroy(self._sandbox_id)
        return "sandbox"

    async def aclose(self) -> None:
        """Let go of the command; one that has not ended lives on in the sandbox."""
        self._open.clear()
        self._running.discard(self)
        if self._process.returncode is None:
            self._process.kill()
        await self._process.aclose()

    async def _read_some(self) -> None:
        async with anyio.create_task_group() as group:
            for name in tuple(self._open):
                group.start_soon(self._read, name, group.cancel_scope)

    async def _read(self, name: StreamName, waiting: anyio.CancelScope) -> None:
        stream = self._process.stdout if name == "stdout" else self._process.stderr
        assert stream is not None
        try:
            self._take(name, await stream.receive())
        except _LOST:
            self._open.discard(name)
            self._give(name, self._rest[name])
        waiting.cancel()

    def _take(self, name: StreamName, data: bytes) -> None:
        """Tell the command's own output from what the shell says, wherever a chunk ends."""
        data = self._rest[name] + data
        own, word, said = data.partition(self._word)
        said, end, more = said.partition(b";")
        if not word:
            begun = data.rfind(self._word[:1])
            own = data[:begun] if begun >= 0 and self._word.startswith(data[begun:]) else data
        self._give(name, own)
        self._rest[name] = b"" if end else data[len(own) :]
        if not end:
            return
        if name == "stdout":
            self._said.append(said.decode("ascii", "replace"))
            if self._said == [STARTED]:
                self._take(name, more)
                return
        self._open.discard(name)

    def _give(self, name: StreamName, data: bytes) -> None:
        if data:
            self._chunks.append(Chunk(name, data))

    async def _ended(self) -> Exit:
        if len(self._said) < 2:
            return await self._unsaid("")
        code, _, missing = self._said[1].partition(" ")
        if not code.isdigit():
            raise ExecutionError("the command spoke in the shell's place", hint="don't run what does that")
        if int(code) == KILLED:
            return await self._killed()
        return Exit(int(code), started=not missing)

    async def _unsaid(self, text: str) -> Exit:
        """Find out what happened to a command of which the shell said nothing: it may have gone with the sandbox."""
        code = await self._process.wait()
        code = code if code >= 0 else 128 - code  # the program itself was killed by a signal
        if code in NO_FORK or any(sign in text.lower() for sign in (NO_PROCESS, *self._program.no_process)):
            return Exit(code, limit="pids")
        for pause in POLLS:
            if await self._program.observe(self._sandbox_id) is None:
                raise SandboxGone("the sandbox ended")
            await anyio.sleep(pause)
        return await self._killed() if code == KILLED else Exit(code, started=False)

    async def _killed(self) -> Exit:
        return Exit(KILLED, limit=await self._program.limit_hit(self._sandbox_id, self._began))

    async def _not_started(self) -> Exception:
        text = b"".join(chunk.data for chunk in self._chunks).decode("utf-8", "replace").strip()
        ended = await self._unsaid(text)
        if ended.limit is not None:
            return ResourceLimitExceeded(f"no command can be started: {text}", limit=ended.limit, value=None)
        return ExecutionError(
            f"no command was started: {text}", hint="see whether the image has sh, and the provider's log"
        )
