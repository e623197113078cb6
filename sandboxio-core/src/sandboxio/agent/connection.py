"""One connection to an agent: many channels over one byte stream, and no task while nobody waits."""

from collections.abc import Callable
from typing import Protocol

import anyio
from anyio.abc import ByteStream
from anyio.lowlevel import checkpoint_if_cancelled

from sandboxio.agent.protocol import Decoder, Frame, ProtocolViolation, Request, encode
from sandboxio.errors import SandboxGone
from sandboxio.teardown import OwnTask

_READ_SIZE = 262144
_SEND_SIZE = 262144


class Receiver(Protocol):
    """What a channel's frames go to."""

    def take(self, frame: Frame) -> bool:
        """Take in one frame; true if the agent has nothing more to say on its channel.

        :raises ProtocolViolation: the frame can't come here, or not now.
        """
        ...


class AgentConnection:
    """Frames to and from an agent.

    Whoever waits for a frame reads for all: it hands every frame to its channel, and when its own came or it is
    cancelled, another waiter goes on. Cancelling a waiter loses no byte. What is sent is queued and written by a task
    that lives only as long as something is queued, so that a cancelled caller never leaves half a frame behind.
    """

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._decoder = Decoder()
        self._receivers: dict[int, Receiver] = {}
        self._next_channel = 1
        self._waiting: dict[int, list[anyio.Event]] = {}
        self._reading = False
        self._ended: str | None = None
        self._cause: Exception | None = None
        self._unsent: list[bytes] = []
        self._sender: OwnTask[None] | None = None

    @property
    def ended(self) -> bool:
        """Whether the connection is over."""
        return self._ended is not None

    def open(self, receiver: Receiver) -> int:
        """Return a channel whose frames go to ``receiver``."""
        channel = self._next_channel
        self._next_channel += 1
        self._receivers[channel] = receiver
        return channel

    def reopen(self, channel: int, receiver: Receiver) -> None:
        """Expect frames on a channel again that was over."""
        self._receivers[channel] = receiver

    def post(self, kind: Request, channel: int, payload: bytes = b"") -> None:
        """Queue one frame; what is queued for a connection that is over is dropped."""
        self.post_raw(encode(kind, channel, payload))

    def post_raw(self, data: bytes) -> None:
        """Queue bytes as they are."""
        if self._ended is None:
            self._unsent.append(data)
            if self._sender is None or self._sender.done:
                self._sender = OwnTask(self._send)

    async def _send(self) -> None:
        while self._unsent:
            count = size = 0
            while count < len(self._unsent) and size < _SEND_SIZE:
                size += len(self._unsent[count])
                count += 1
            data = b"".join(self._unsent[:count])
            del self._unsent[:count]
            try:
                await self._stream.send(data)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                # Nobody listens any more. What was said before can still be read; the reader learns of the end.
                self._unsent.clear()

    async def until(self, ready: Callable[[], bool], channel: int) -> None:
        """Wait until ``ready()``, which can only be changed by a frame on ``channel``.

        :raises SandboxGone: the connection ended before (reason ``"unknown"``).
        """
        await checkpoint_if_cancelled()
        while not ready():
            if self._ended is not None:
                raise SandboxGone(self._ended, reason="unknown") from self._cause
            try:
                if self._reading:
                    await self._wait_for_frame(channel)
                else:
                    await self._read()
            except BaseException:
                self._hand_over()
                raise
        self._hand_over()

    async def _wait_for_frame(self, channel: int) -> None:
        event = anyio.Event()
        waiting = self._waiting.setdefault(channel, [])
        waiting.append(event)
        try:
            await event.wait()
        finally:
            waiting.remove(event)
            if not waiting:
                self._waiting.pop(channel, None)

    def _hand_over(self) -> None:
        """Let some other waiter read on."""
        if not self._reading:
            for events in self._waiting.values():
                events[0].set()
                return

    async def _read(self) -> None:
        """Read once, and give what came to the channels."""
        self._reading = True
        try:
            data = await self._stream.receive(_READ_SIZE)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            self._end("the sandbox's agent is gone", error)
            return
        finally:
            self._reading = False
        try:
            for frame in self._decoder.feed(data):
                self._dispatch(frame)
        except ProtocolViolation as violation:
            self._end(f"the sandbox's agent broke the protocol: {violation}", violation)
            await anyio.aclose_forcefully(self._stream)

    def _dispatch(self, frame: Frame) -> None:
        receiver = self._receivers.get(frame.channel)
        if receiver is None:
            message = f"a frame {frame.kind.name} on a channel where nothing is expected"
            raise ProtocolViolation(message)
        if receiver.take(frame):
            del self._receivers[frame.channel]
        for event in self._waiting.get(frame.channel, ()):
            event.set()

    def _end(self, why: str, cause: Exception | None) -> None:
        if self._ended is None:
            self._ended = why
            self._cause = cause
        self._unsent.clear()
        self._receivers.clear()
        for events in self._waiting.values():
            for event in events:
                event.set()

    def expect_boot(self, receiver: Receiver) -> None:
        """Let the one frame that belongs to no request go to ``receiver``."""
        self._receivers[0] = receiver

    async def aclose(self) -> None:
        """Close the stream; whoever waits gets `SandboxGone`. Repeating it does nothing."""
        self._end("the connection to the sandbox was closed", None)
        if self._sender is not None and not self._sender.done:
            self._sender.cancel()
        await self._stream.aclose()
