"""The attached streams of a container or exec: stdcopy frames taken apart, no thread and no task per sandbox.

Frame (moby's ``pkg/stdcopy``, read 2026-11): one byte of stream (0 and 1 stdout, 2 stderr, 3 the engine's own error),
three of padding, four of length (big endian), then the data. A terminal would have none (docker-py #1697): never used.
"""

from collections import deque
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

import anyio
from anyio.abc import ByteStream

from sandboxio_docker.endpoint import Endpoint
from sandboxio_docker.wire import Answer, ask

HEAD = 8
STDOUT, STDERR, ENGINE_ERROR = 1, 2, 3
MAX_DIAGNOSIS = 8 * 1024
"""Bytes of stderr that are kept to explain why an agent did not boot."""


class Demultiplexer:
    """Takes frames apart however they are split over reads; holds at most a frame's head."""

    def __init__(self) -> None:
        self._head = b""
        self._kind = STDOUT
        self._left = 0

    @property
    def is_whole(self) -> bool:
        """Whether what came so far ends with a frame."""
        return not self._head and not self._left

    def split(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield (stream, bytes) for the payload in ``data``, in order; what follows in one stream comes as one piece.

        :raises ValueError: this is no stdcopy stream.
        """
        for kind, pieces in groupby(self._pieces(memoryview(data)), itemgetter(0)):
            yield kind, b"".join(piece for _, piece in pieces)

    def _pieces(self, data: memoryview) -> Iterator[tuple[int, memoryview]]:
        while data:
            if not self._left:
                taken = data[: HEAD - len(self._head)]
                self._head += taken
                data = data[len(taken) :]
                self._open_frame()
                continue
            piece = data[: self._left]
            data = data[len(piece) :]
            self._left -= len(piece)
            yield self._kind, piece

    def _open_frame(self) -> None:
        if len(self._head) < HEAD:
            return
        kind, self._left = self._head[0], int.from_bytes(self._head[4:], "big")
        if kind > ENGINE_ERROR or self._head[1:4] != b"\0\0\0":
            raise ValueError("the engine's stream has no stdcopy frames")
        self._kind = kind or STDOUT
        self._head = b""


class Frames:
    """The frames of one attached connection."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._demultiplexer = Demultiplexer()
        self._ready: deque[tuple[int, bytes]] = deque()

    async def receive(self) -> tuple[int, bytes] | None:
        """Return the next (stream, bytes); ``None`` at the end. Cancelling loses nothing.

        :raises BrokenResourceError: the engine reports an error of its own, or sends no frames, or half of one.
        """
        while not self._ready:
            data = await self._answer.receive()
            if not data:
                if not self._demultiplexer.is_whole:
                    raise anyio.BrokenResourceError("the connection ended within a piece of output")
                return None
            try:
                self._ready.extend(self._demultiplexer.split(data))
            except ValueError as error:
                raise anyio.BrokenResourceError(str(error)) from error
        kind, piece = self._ready.popleft()
        if kind == ENGINE_ERROR:
            raise anyio.BrokenResourceError(piece.decode("utf-8", "replace"))
        return kind, piece

    def give_back(self, kind: int, piece: bytes) -> None:
        """Put back what was not used of the last frame."""
        self._ready.appendleft((kind, piece))

    async def send(self, data: bytes) -> None:
        """Write to the program's stdin."""
        await self._answer.send(data)

    async def send_eof(self) -> None:
        """End the program's stdin."""
        await self._answer.send_eof()

    async def aclose(self) -> None:
        """Close the connection; with ``StdinOnce`` the program's stdin ends too."""
        await self._answer.aclose()


class AgentStream(ByteStream):
    """Stdin and stdout of an agent as a byte stream; its stderr is kept for diagnosis, bounded."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._diagnosis = b""

    @property
    def diagnosis(self) -> str:
        """The first of what the program wrote to stderr."""
        return self._diagnosis.decode("utf-8", "replace").strip()

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return the next bytes of stdout."""
        while frame := await self._frames.receive():
            kind, piece = frame
            if kind == STDERR:
                self._diagnosis += piece[: MAX_DIAGNOSIS - len(self._diagnosis)]
                continue
            if len(piece) > max_bytes:
                self._frames.give_back(kind, piece[max_bytes:])
            return piece[:max_bytes]
        raise anyio.EndOfStream

    async def send(self, item: bytes) -> None:
        """Write to stdin."""
        await self._frames.send(item)

    async def send_eof(self) -> None:
        """End stdin."""
        await self._frames.send_eof()

    async def aclose(self) -> None:
        """Close the connection."""
        await self._frames.aclose()


async def attach(endpoint: Endpoint, container_id: str) -> Frames:
    """Attach to a container's first process; before the start, so that no byte is missed."""
    query = {"stream": "1", "stdin": "1", "stdout": "1", "stderr": "1"}
    return Frames(await ask(endpoint, "POST", f"/containers/{container_id}/attach", query, upgrade=True))


async def start_exec(endpoint: Endpoint, exec_id: str) -> Frames:
    """Start an exec that was created, its streams attached."""
    body = {"Detach": False, "Tty": False}
    return Frames(await ask(endpoint, "POST", f"/exec/{exec_id}/start", body=body, upgrade=True))


async def wait_removed(endpoint: Endpoint, container_id: str) -> Answer:
    """Ask for the end of a container; its status comes when it was removed.

    The head is answered once the engine listens (moby flushes it, API 1.30 on), so this comes before the start.
    """
    return await ask(endpoint, "POST", f"/containers/{container_id}/wait", {"condition": "removed"})
