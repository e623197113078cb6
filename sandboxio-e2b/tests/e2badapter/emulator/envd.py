"""envd's process service: it starts processes, passes their streams on, and signals the one that is named."""

import asyncio
import base64
import contextlib
import json
import os
import signal
import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Literal

from aiohttp import web
from sandboxio_contract.emulation import GuestGone, Request, Stream

from .connect import Failed, end_frame, frame, unframe
from .machine import HOME, Machine, Running

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
WRAPPER = ("/bin/sh", "-c", 'exec /usr/bin/nice -n 0 "${@}"', "--")
"""How envd starts what it is told to: through programs that only exec, so that the process stays the one it started."""
KEEPALIVE = 50.0
_BLOCK = 32 * 1024
_QUEUE = 8

Order = Literal["error", "end"]


class Processes:
    """The service.

    :param deadline_first: what wins the race at a stream's deadline: the stream's own error, or the end of the killed process.
    """

    def __init__(self) -> None:
        self.deadline_first: Order = "error"
        self._pumps: set[asyncio.Task[None]] = set()

    async def answer(self, machine: Machine, request: Request) -> web.StreamResponse:
        """Answer one request."""
        call = request.path.rpartition("/")[2]
        body = await request.body(1 << 26)
        if call == "Start":
            return await self._start(machine, request, _one(unframe(body)))
        if call == "Connect":
            return await self._stream(machine, request, self._selected(machine, _one(unframe(body))), "connect")
        said = _one(unframe(body)) if call == "StreamInput" else json.loads(body or b"{}")
        unary = {"List": self._list, "SendSignal": self._signal, "SendInput": self._input, "CloseStdin": self._close}
        if call not in unary:
            raise Failed("unimplemented", f"the emulator has no {call}")
        return web.json_response(await unary[call](machine, said))

    async def _start(self, machine: Machine, request: Request, said: Mapping[str, Any]) -> web.StreamResponse:
        config: Mapping[str, Any] = said.get("process") or {}
        user = user_of(machine, request)
        if not config.get("cmd"):
            raise Failed("invalid_argument", "cmd is required")
        return await self._stream(
            machine, request, await self._spawn(machine, config, user, said.get("stdin")), "start"
        )

    async def _spawn(self, machine: Machine, config: Mapping[str, Any], user: str, stdin: bool | None) -> Running:
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        given, give = os.pipe() if stdin else (os.open(os.devnull, os.O_RDONLY), None)
        cwd = config.get("cwd") or home(user)
        env = {"PATH": PATH, "HOME": home(user), "USER": user, "LOGNAME": user, **machine.env, **config.get("envs", {})}
        argv = [*WRAPPER, config["cmd"], *config.get("args", ())]
        try:
            started = await machine.guest.spawn(argv, (given, out_end, err_end), env=env, cwd=cwd, user=user)
        except NotADirectoryError as error:
            raise Failed("invalid_argument", f"cwd '{cwd}' does not exist") from error
        except OSError as error:
            raise Failed("invalid_argument", f"error starting process: {error}") from error
        finally:
            for one in (given, out_end, err_end):
                os.close(one)
        if give is not None:
            os.set_blocking(give, False)
        running = Running(started.pid, config, user, give)
        machine.processes[running.pid] = running
        machine.history.append(" ".join(argv[len(WRAPPER) :]))
        pump = asyncio.create_task(self._pump(machine, running, {"stdout": out, "stderr": err}, started.ended))
        self._pumps.add(pump)
        pump.add_done_callback(self._pumps.discard)
        return running

    async def _pump(
        self, machine: Machine, running: Running, outputs: Mapping[str, int], ended: "asyncio.Future[int]"
    ) -> None:
        """Pass output on until nobody holds the pipes any more, then tell the end: so envd waits."""
        await asyncio.sleep(0)  # whoever asked for it listens by then
        try:
            await asyncio.gather(*(_pass_on(running, name, one) for name, one in outputs.items()))
            status = os.waitstatus_to_exitcode(await ended)
        except GuestGone:
            status = -signal.SIGKILL
        finally:
            machine.processes.pop(running.pid, None)
            if running.stdin is not None:
                with contextlib.suppress(OSError):
                    os.close(running.stdin)
                running.stdin = None
        running.end = _end(status)
        await _tell(running, {"end": running.end})

    async def _stream(self, machine: Machine, request: Request, running: Running, _call: str) -> web.StreamResponse:
        events: asyncio.Queue[dict[str, Any]] = asyncio.Queue(_QUEUE)
        running.listeners.append(events)
        deadline = _deadline(request)
        try:
            async with request.stream({"Content-Type": "application/connect+json"}) as stream:
                await stream.send(frame({"event": {"start": {"pid": running.pid}}}))
                await self._events(machine, running, events, stream, deadline)
                return stream.response
        finally:
            running.listeners.remove(events)
            while not events.empty():  # whoever waits for room here need not any more
                events.get_nowait()

    async def _events(
        self,
        machine: Machine,
        running: Running,
        events: "asyncio.Queue[dict[str, Any]]",
        stream: Stream,
        deadline: float | None,
    ) -> None:
        gone = asyncio.ensure_future(machine.gone.wait())
        coming = asyncio.ensure_future(events.get())
        try:
            while True:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                bound = KEEPALIVE if left is None else min(KEEPALIVE, left)
                await asyncio.wait({coming, gone}, timeout=bound, return_when=asyncio.FIRST_COMPLETED)
                if coming.done() and not gone.done():
                    event = coming.result()
                    await stream.send(frame({"event": event}))
                    if "end" in event:
                        return await stream.send(end_frame())
                    coming = asyncio.ensure_future(events.get())
                    continue
                if gone.done():
                    text = f"the connection to sandbox {machine.sandbox_id} ended before the stream completed"
                    return await stream.send(end_frame(Failed("unavailable", text)))
                if left is not None and left <= bound:
                    deadline = None
                    await self._at_deadline(machine, running, stream)
                    if self.deadline_first == "error":
                        return None
                    continue
                await stream.send(frame({"event": {"keepalive": {}}}))
        finally:
            gone.cancel()
            coming.cancel()

    async def _at_deadline(self, machine: Machine, running: Running, stream: Stream) -> None:
        """The leader is killed, and nothing else; who listens gets an error, or the end of the killed process."""
        with contextlib.suppress(ProcessLookupError, GuestGone):
            await machine.guest.kill(running.pid)
        if self.deadline_first == "error":
            await stream.send(end_frame(Failed("deadline_exceeded", "context deadline exceeded")))

    async def _list(self, machine: Machine, _: Mapping[str, Any]) -> dict[str, Any]:
        processes = [{"pid": one.pid, "config": dict(one.config)} for one in machine.processes.values()]
        return {"processes": processes} if processes else {}

    async def _signal(self, machine: Machine, said: Mapping[str, Any]) -> dict[str, Any]:
        running = self._selected(machine, said)
        number = {"SIGNAL_SIGKILL": signal.SIGKILL, "SIGNAL_SIGTERM": signal.SIGTERM}.get(said.get("signal", ""))
        if number is None:
            raise Failed("unimplemented", "invalid signal")
        try:
            await machine.guest.kill(running.pid, number)
        except ProcessLookupError as error:
            raise Failed("not_found", f"process with pid {running.pid} not found") from error
        return {}

    async def _input(self, machine: Machine, said: Mapping[str, Any]) -> dict[str, Any]:
        running = self._selected(machine, said)
        if running.stdin is None:
            raise Failed("internal", "error writing to stdin: stdin not enabled or closed")
        data = base64.b64decode(said.get("input", {}).get("stdin", ""))
        try:
            await _write(running.stdin, data)
        except OSError as error:
            raise Failed("internal", f"error writing to stdin: {error}") from error
        return {}

    async def _close(self, machine: Machine, said: Mapping[str, Any]) -> dict[str, Any]:
        running = self._selected(machine, said)
        if running.stdin is None:
            raise Failed("internal", "error closing stdin: already closed")
        os.close(running.stdin)
        running.stdin = None
        return {}

    @staticmethod
    def _selected(machine: Machine, said: Mapping[str, Any]) -> Running:
        pid = said.get("process", {}).get("pid")
        if pid not in machine.processes:
            raise Failed("not_found", f"process with pid {pid} not found")
        return machine.processes[pid]


def user_of(machine: Machine, request: Request, default: str = "user") -> str:
    """Return who a request is for. :raises Failed: there is no such user."""
    kind, _, word = request.headers.get("Authorization", "").partition(" ")
    name = base64.b64decode(word).decode().partition(":")[0] if kind == "Basic" else default
    return check_user(machine, name)


def check_user(machine: Machine, name: str) -> str:
    """Return the name of a user. :raises Failed: there is none."""
    try:
        machine.guest.machine.uid(name)
    except KeyError as error:
        raise Failed("unauthenticated", f"invalid username: '{name}'") from error
    return name


def home(user: str) -> str:
    """Return a user's home."""
    return "/root" if user in ("root", "0") else HOME


async def _pass_on(running: Running, name: str, descriptor: int) -> None:
    os.set_blocking(descriptor, False)
    try:
        async with contextlib.aclosing(_read(descriptor)) as pieces:
            async for data in pieces:
                await _tell(running, {"data": {name: base64.b64encode(data).decode()}})
    finally:
        os.close(descriptor)


async def _read(descriptor: int) -> AsyncGenerator[bytes]:
    while True:
        try:
            data = os.read(descriptor, _BLOCK)
        except BlockingIOError:
            await _ready(descriptor, write=False)
            continue
        if not data:
            return
        yield data


async def _write(descriptor: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            await _ready(descriptor, write=True)


async def _ready(descriptor: int, *, write: bool) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    add, remove = (loop.add_writer, loop.remove_writer) if write else (loop.add_reader, loop.remove_reader)

    def set_ready() -> None:
        if not ready.done():
            ready.set_result(None)

    add(descriptor, set_ready)
    try:
        await ready
    finally:
        remove(descriptor)


async def _tell(running: Running, event: dict[str, Any]) -> None:
    """Tell all who listen; each holds the process back while it does not read."""
    for listener in tuple(running.listeners):
        while listener in running.listeners:
            try:
                listener.put_nowait(event)
                break
            except asyncio.QueueFull:
                await asyncio.sleep(0.001)


def _end(status: int) -> dict[str, Any]:
    if status < 0:
        word = signal.Signals(-status).name.removeprefix("SIG").lower()
        text = "signal: killed" if status == -signal.SIGKILL else f"signal: {word}"
        return {"exitCode": -1, "exited": False, "status": text, "error": text}
    text = f"exit status {status}"
    return (
        {"exited": True, "status": text}
        if status == 0
        else {"exitCode": status, "exited": True, "status": text, "error": text}
    )


def _deadline(request: Request) -> float | None:
    value = request.headers.get("Connect-Timeout-Ms")
    return time.monotonic() + int(value) / 1000 if value else None


def _one(messages: list[Any]) -> Mapping[str, Any]:
    if len(messages) != 1:
        raise Failed("invalid_argument", f"one message was expected, {len(messages)} came")
    message: Mapping[str, Any] = messages[0]
    return message
