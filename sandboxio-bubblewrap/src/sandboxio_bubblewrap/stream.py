"""The agent's stdin and stdout as a byte stream of whichever event loop reads it."""

import socket
from contextlib import suppress

import anyio
from anyio.abc import ByteStream


class SocketStream(ByteStream):
    """One end of a pair of sockets; it is bound to no loop until it is used."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._waiting = 0
        self._closed = False

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return the next bytes; cancelling loses nothing."""
        while not self._closed:
            try:
                data = self._socket.recv(max_bytes)
            except BlockingIOError:
                await self._wait(reading=True)
                continue
            except OSError as error:
                raise anyio.BrokenResourceError from error
            if not data and not self._closed:
                raise anyio.EndOfStream
            return data
        raise anyio.ClosedResourceError

    async def send(self, item: bytes) -> None:
        """Write all of it."""
        view = memoryview(item)
        while view:
            if self._closed:
                raise anyio.ClosedResourceError
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                await self._wait(reading=False)
            except OSError as error:
                raise anyio.BrokenResourceError from error

    async def _wait(self, *, reading: bool) -> None:
        self._waiting += 1
        try:
            await (anyio.wait_readable if reading else anyio.wait_writable)(self._socket)
        finally:
            self._waiting -= 1
            if self._closed and not self._waiting:
                self._socket.close()

    async def send_eof(self) -> None:
        """End the agent's stdin."""
        self._socket.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        """Close it at once; whoever waits is woken by the end of the stream, and then the descriptor goes."""
        if not self._closed:
            self._closed = True
            with suppress(OSError):  # the other end is gone
                self._socket.shutdown(socket.SHUT_RDWR)
            if not self._waiting:
                self._socket.close()
