"""A command's streams over envd's one stream of events, read by whoever wants something, no faster than it is read."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import anyio
from sandboxio.bridge import Bridge, BridgedStream

if TYPE_CHECKING:
    from e2b.envd.process.process_connect import ProcessClient
    from e2b.envd.process.process_pb import ProcessSelector, StartRequest

T = TypeVar("T")
Name = Literal["stdout", "stderr"]
Event = tuple[Literal["start", "stdout", "stderr", "end"], Any]

KEEPALIVE = {"Keepalive-Ping-Interval": "50"}
SEND = 60.0
"""Seconds that one write to a command's stdin may take on the wire; core's own bounds are shorter where they are."""
_KILLED = -9
_PIPE = ("writing to stdin", "closing stdin")
"""How envd begins to tell that a command closed its stdin, or has ended (server source of 2026-08)."""


async def events(
    rpc: "ProcessClient", request: "StartRequest", headers: dict[str, str], seconds: float | None
) -> AsyncGenerator[Event]:
    """Start a process and yield what becomes of it; its bytes are as they were, which the SDK's own handle can't give."""
    from connectrpc.errors import ConnectError
    from e2b.envd.rpc import handle_rpc_exception
    from e2b.envd.utils import timeout_to_ms

    stream = cast(
        "AsyncGenerator[Any]",
        rpc.start(request, headers={**headers, **KEEPALIVE}, timeout_ms=timeout_to_ms(seconds)),
    )
    try:
        async for answer in stream:
            event = answer.event.event if answer.event is not None else None
            if event is None:
                continue
            if event.field == "start":
                yield "start", event.value.pid
            elif event.field == "data" and event.value.output.field in ("stdout", "stderr"):
                yield event.value.output.field, bytes(event.value.output.value)
            elif event.field == "end":
                # A leader that a signal ended has -1; envd sends no other signal than this by itself.
                yield "end", event.value.exit_code if event.value.exit_code >= 0 else _KILLED
    except ConnectError as error:
        raise cast("Exception", handle_rpc_exception(error)) from error
    finally:
        await stream.aclose()


async def asked(work: Coroutine[Any, Any, T]) -> T:
    """Await a call to envd, its errors as the SDK words them."""
    from connectrpc.errors import ConnectError
    from e2b.envd.rpc import handle_rpc_exception

    try:
        return await work
    except ConnectError as error:
        raise cast("Exception", handle_rpc_exception(error)) from error


class E2BProcess:
    """A started command; `sandboxio.exec_command.Streams`.

    :param send: writes to its stdin; nothing: it is at its end.
    """

    def __init__(self, output: "Output", stdin: "Stdin | None") -> None:
        self._output = output
        self.stdin: Any = stdin
        self.stdout: Any = Side(output, "stdout")
        self.stderr: Any = Side(output, "stderr")

    @property
    def returncode(self) -> int | None:
        """The exit code once it was told."""
        return self._output.exit_code

    async def wait(self) -> int:
        """Wait for its end, and that of everybody who holds its streams; what is not read is dropped."""
        return await self._output.end()

    def kill(self) -> None:
        """Let go of it: nothing ends by that."""

    async def aclose(self) -> None:
        """Stop listening."""
        await self._output.aclose()


class Output:
    """Both outputs, out of one stream."""

    def __init__(self, stream: "BridgedStream[Event]") -> None:
        self._stream = stream
        self._lock = anyio.Lock()
        self._ready: dict[str, deque[bytes]] = {"stdout": deque(), "stderr": deque()}
        self._over = False
        self._error: Exception | None = None
        self.exit_code: int | None = None

    async def start(self) -> int:
        """Wait until it has started and return its process id."""
        async for kind, value in self._stream:
            if kind == "start":
                return int(value)
        raise anyio.EndOfStream

    async def receive(self, name: Name) -> bytes:
        """Return the next piece of one of them; whoever waits reads for both."""
        while not self._ready[name] and not self._over:
            async with self._lock:
                if not self._ready[name] and not self._over:
                    await self._read()
        if self._ready[name]:
            return self._ready[name].popleft()
        raise anyio.EndOfStream

    async def end(self) -> int:
        """Return how it ended."""
        while self.exit_code is None and not self._over:
            async with self._lock:
                if not self._over:
                    await self._read()
                for ready in self._ready.values():
                    ready.clear()
        if self.exit_code is not None:
            return self.exit_code
        raise self._error or anyio.EndOfStream

    async def aclose(self) -> None:
        """Stop listening; it lives on."""
        self._over = True
        await self._stream.aclose()

    async def _read(self) -> None:
        try:
            kind, value = await anext(self._stream)
        except StopAsyncIteration:
            self._over = True
        except Exception as error:  # noqa: BLE001 - told to whoever asks how it ended
            self._over, self._error = True, error
        else:
            if kind == "end":
                self.exit_code = value
            elif kind in self._ready and value:
                self._ready[kind].append(value)


class Side:
    """One of the outputs, as `anyio.abc.ByteReceiveStream`."""

    def __init__(self, output: Output, name: Name) -> None:
        self._output = output
        self._name: Name = name

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        """Return the next piece."""
        return await self._output.receive(self._name)

    async def aclose(self) -> None:
        """Do nothing: both are closed together."""


class Stdin:
    """A command's stdin, as `anyio.abc.ByteSendStream`: each write is a request of its own, and is made once."""

    def __init__(self, bridge: Bridge, rpc: "ProcessClient", pid: int) -> None:
        self._bridge, self._rpc, self._pid = bridge, rpc, pid
        self._closed = False

    async def send(self, data: bytes) -> None:
        """Write. :raises anyio.BrokenResourceError: the command has ended, or closed it."""
        if self._closed:
            raise anyio.ClosedResourceError
        await self._ask(lambda: self._send(bytes(data)))

    async def aclose(self) -> None:
        """End it; repeating that does nothing."""
        if not self._closed:
            self._closed = True
            try:
                await self._ask(self._close)
            except anyio.BrokenResourceError:
                return

    async def _ask(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        from e2b.exceptions import NotFoundException, SandboxException, SandboxNotRunningException

        try:
            await self._bridge.call(lambda: asked(work()))
        except SandboxNotRunningException:
            raise
        except NotFoundException as error:
            raise anyio.BrokenResourceError from error
        except SandboxException as error:
            # The pipe's own trouble has neither class nor code of its own. What is not known for it is an error: what was to
            # be written may be lost.
            if type(error) is not SandboxException or not any(sign in str(error) for sign in _PIPE):
                raise
            raise anyio.BrokenResourceError from error

    async def _send(self, data: bytes) -> None:
        from e2b.envd.process import process_pb
        from protobuf import Oneof

        into: Oneof[Literal["stdin"], bytes] = Oneof("stdin", data)
        request = process_pb.SendInputRequest(process=self._selector(), input=process_pb.ProcessInput(input=into))
        async with asyncio.timeout(SEND):
            await self._rpc.send_input(request)

    async def _close(self) -> None:
        from e2b.envd.process import process_pb

        async with asyncio.timeout(SEND):
            await self._rpc.close_stdin(process_pb.CloseStdinRequest(process=self._selector()))

    def _selector(self) -> "ProcessSelector":
        from e2b.envd.process import process_pb
        from protobuf import Oneof

        which: Oneof[Literal["pid"], int] = Oneof("pid", self._pid)
        return process_pb.ProcessSelector(selector=which)
