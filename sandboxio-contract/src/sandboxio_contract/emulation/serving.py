"""An HTTP server on this machine's loopback for an emulator, with its recorder and its faults, in a thread and loop of its own.

The emulator gives one coroutine that answers requests. What a fault does to an answer, and what is recorded, is the same for
every provider, so it stands here.
"""

import asyncio
import contextlib
import secrets
import socket
import struct
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from aiohttp import web

from sandboxio_contract.emulation.faults import Fault, Faults
from sandboxio_contract.emulation.recorder import Exchange, Recorder
from sandboxio_contract.ground.wire import Call

T = TypeVar("T")

STALL = 120.0
"""Seconds that a stalled answer takes at most, so that nothing waits for ever where a client does."""
MOST_BODY = 1 << 20
"""Bytes of a body that `Request.body` takes unless it is told otherwise."""
MOST_KEPT = 1 << 16
"""Bytes of a body or an answer that are recorded."""
_SECONDS = 20.0


class Answer(Protocol):
    """How a provider words its errors."""

    def __call__(self, status: int, message: str) -> web.Response:
        """Return an error in the provider's own form."""
        ...


class Request:
    """One request, for the emulator to answer exactly once: by what it returns, or by `stream`."""

    def __init__(self, raw: web.BaseRequest, exchange: Exchange, fault: Fault | None, recorder: Recorder) -> None:
        self.raw, self.exchange = raw, exchange
        self.streams = False
        """Whether it is being answered piece by piece: that ends when the client goes."""
        self._fault, self._recorder = fault, recorder

    @property
    def method(self) -> str:
        """The method."""
        return self.raw.method

    @property
    def path(self) -> str:
        """The path, unquoted."""
        return self.raw.path

    @property
    def query(self) -> Mapping[str, str]:
        """The query."""
        return self.raw.query

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, in any case."""
        return self.raw.headers

    async def body(self, most: int = MOST_BODY) -> bytes:
        """Read the body whole. :raises web.HTTPRequestEntityTooLarge: it is longer."""
        body = bytearray()
        async for data in self.chunks():
            body += data
            if len(body) > most:
                raise web.HTTPRequestEntityTooLarge(most, len(body))
        self.exchange.body = bytes(body[:MOST_KEPT])
        return bytes(body)

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Read the body piece by piece; it is not recorded."""
        while data := await self.raw.content.readany():
            yield data

    async def committed(self) -> None:
        """Say that it was carried out: here it is held, and faults strike."""
        await self._recorder.hold(self.exchange.call, "after commit")
        if self._fault is not None:
            strike_after(self._fault)

    @contextlib.asynccontextmanager
    async def stream(self, headers: Mapping[str, str], status: int = 200) -> "AsyncGenerator[Stream]":
        """Answer piece by piece; what was asked for is carried out by now."""
        await self.committed()
        response = web.StreamResponse(status=status, headers=headers)
        await response.prepare(self.raw)
        self.exchange.status = status
        self.streams = True
        stream = Stream(self, response, cut=self._fault is not None and self._fault.kind == "cut")
        yield stream
        await stream.finish()

    def reset(self) -> None:
        """Break the connection, for the client to see it as broken."""
        transport = self.raw.transport
        if transport is not None:
            raw = transport.get_extra_info("socket")
            with contextlib.suppress(OSError, AttributeError):
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()
        raise Broken


class Stream:
    """The pieces of an answer."""

    def __init__(self, request: Request, response: web.StreamResponse, *, cut: bool) -> None:
        self._request, self.response, self._cut = request, response, cut

    async def send(self, data: bytes) -> None:
        """Send one piece; it waits while the client does not read."""
        self._request.exchange.answer += data[: MOST_KEPT - len(self._request.exchange.answer)]
        await self.response.write(data[: len(data) // 2] if self._cut else data)
        if self._cut:
            self._request.reset()

    async def finish(self) -> None:
        """End it."""
        await self.response.write_eof()


class Broken(Exception):
    """The connection was broken on purpose."""


class Ended(Exception):
    """A fault has answered in the emulator's place."""

    def __init__(self, response: web.StreamResponse) -> None:
        super().__init__()
        self.response = response


def strike_after(fault: Fault) -> None:
    """Answer in the emulator's place where a fault strikes what was carried out."""
    if fault.kind == "504 after commit":
        raise Ended(web.Response(status=504, text="upstream request timeout"))
    if fault.kind == "garbage":
        raise Ended(
            web.Response(status=200, body=b"\x00\xff{<" + secrets.token_bytes(60), content_type="application/json")
        )


class Serving:
    """A server that is up from its making until `close`.

    :param answer: what answers requests, in the server's loop.
    :param error: how the provider words an error.
    """

    def __init__(
        self, answer: Callable[[Request], Awaitable[web.StreamResponse]], error: Answer, recorder: Recorder
    ) -> None:
        self.recorder, self.faults = recorder, Faults()
        self._answer, self._error = answer, error
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._loop = asyncio.new_event_loop()
        self._up: Future[None] = Future()
        self._down = asyncio.Event()
        self._at_work: set[asyncio.Future[web.StreamResponse]] = set()
        self._thread = threading.Thread(target=self._run, name="emulator", daemon=True)
        self._thread.start()
        self._up.result(_SECONDS)

    def call(self, work: Coroutine[Any, Any, T], timeout: float = _SECONDS) -> T:
        """Run something in the server's loop, from any other thread, and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout)

    def close(self) -> None:
        """Go away. Nothing happens the second time."""
        if self._thread.is_alive():
            self.recorder.open_gates()
            self._loop.call_soon_threadsafe(self._down.set)
            self._thread.join(_SECONDS)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = web.Server(self._handle, access_log=None, handler_cancellation=True)
        runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=0.5, keepalive_timeout=400.0)
        await runner.setup()
        await web.SockSite(runner, self._listener).start()
        self._up.set_result(None)
        await self._down.wait()
        for work in tuple(self._at_work):
            work.cancel()
        await runner.cleanup()

    async def _handle(self, raw: web.BaseRequest) -> web.StreamResponse:
        """Answer, and carry out to its end what was asked for, also where nobody waits for the answer any more."""
        call = Call(raw.method, raw.path)
        fault = self.faults.take(call)
        exchange = Exchange(call, raw.query_string, dict(raw.headers), fault=fault.kind if fault else None)
        self.recorder.note(exchange)
        request = Request(raw, exchange, fault, self.recorder)
        work = asyncio.ensure_future(self._carry_out(request, fault))
        self._at_work.add(work)
        work.add_done_callback(self._at_work.discard)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            if request.streams:
                work.cancel()
            raise

    async def _carry_out(self, request: Request, fault: Fault | None) -> web.StreamResponse:
        await self.recorder.hold(request.exchange.call, "before send")
        try:
            if fault is not None:
                await self._strike_before(fault, request)
            response = await self._answer(request)
            if response.prepared:
                return response
            await request.committed()
        except Ended as ended:
            response = ended.response
        except Broken:
            return web.Response(status=503)  # to nobody
        return await self._finish(request, response)

    async def _strike_before(self, fault: Fault, request: Request) -> None:
        if fault.kind == "stall":
            await asyncio.sleep(STALL)
        elif fault.kind == "reset":
            request.reset()
        elif fault.kind in ("429", "500"):
            text = "the request rate is limited" if fault.kind == "429" else "internal error"
            raise Ended(self._error(int(fault.kind), text))

    async def _finish(self, request: Request, response: web.StreamResponse) -> web.StreamResponse:
        request.exchange.status = response.status
        if isinstance(response, web.Response) and isinstance(response.body, bytes):
            request.exchange.answer += response.body[:MOST_KEPT]
            fault = request.exchange.fault
            if fault == "cut" and response.body:
                broken = web.StreamResponse(status=response.status, headers={"Content-Length": str(len(response.body))})
                broken.content_type = response.content_type
                await broken.prepare(request.raw)
                await broken.write(response.body[: len(response.body) // 2])
                with contextlib.suppress(Broken):
                    request.reset()
            elif fault == "cut":
                with contextlib.suppress(Broken):
                    request.reset()
        return response
