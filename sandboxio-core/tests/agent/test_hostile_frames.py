"""What a hostile sandbox can say: nothing crashes, hangs or exhausts the host."""

import math
from collections import deque
from collections.abc import Awaitable, Callable
from struct import pack, unpack

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream
from hypothesis import given, settings
from hypothesis import strategies as st
from sandboxio.agent.connection import AgentConnection
from sandboxio.agent.incoming import Incoming
from sandboxio.agent.process import AgentProcess, StartFailure
from sandboxio.agent.protocol import (
    CHUNK,
    LEAST_COST,
    MOST_WINDOW,
    WINDOW,
    Answer,
    Decoder,
    Frame,
    ProtocolViolation,
    Request,
    encode,
)
from sandboxio.agent.report import decode_report
from sandboxio.agent.session import AgentSession
from sandboxio.agent.transfers import Transfer, decode_entries
from sandboxio.errors import SandboxError, SandboxGone
from sandboxio.port import Chunk, Command, Exit

from .harness import PATIENCE, local_agent

pytestmark = pytest.mark.anyio


def frame(kind: int, channel: int, payload: bytes = b"") -> bytes:
    return pack(">IIB", len(payload), channel, kind) + payload


class Script(ByteStream):
    """An agent that says what it was told to say, and whatever the host does."""

    def __init__(self, *said: bytes) -> None:
        self.said = deque(said)
        self.heard: bytes = b""
        self.closed = False
        self.more = anyio.Event()

    def say(self, data: bytes) -> None:
        self.said.append(data)
        self.more.set()
        self.more = anyio.Event()

    async def receive(self, max_bytes: int = 65536) -> bytes:
        await anyio.lowlevel.checkpoint()
        while not self.said:
            if self.closed:
                raise anyio.ClosedResourceError
            await self.more.wait()
        data = self.said.popleft()
        if len(data) > max_bytes:
            self.said.appendleft(data[max_bytes:])
        if not data:
            raise anyio.EndOfStream
        return data[:max_bytes]

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        self.heard += item

    async def send_eof(self) -> None:
        raise NotImplementedError

    async def aclose(self) -> None:
        self.closed = True
        self.more.set()


frames = st.builds(
    frame,
    st.one_of(st.sampled_from([int(kind) for kind in Answer]), st.integers(0, 255)),
    st.integers(0, 3),
    st.one_of(st.binary(max_size=40), st.sampled_from([pack(">I", 7), pack(">IB", 0, 0), b"\0", b"t", bytes(CHUNK)])),
)


@given(st.lists(st.one_of(frames, st.binary(max_size=60))), st.integers(1, 50))
def test_the_decoder_gives_frames_or_a_violation_and_keeps_at_most_one_frame(pieces: list[bytes], size: int) -> None:
    decoder = Decoder()
    data = b"".join(pieces)
    try:
        for start in range(0, len(data), size):
            for found in decoder.feed(data[start : start + size]):
                assert len(found.payload) <= CHUNK
            assert decoder.held < CHUNK + 9
    except ProtocolViolation:
        pass


@given(
    st.lists(st.tuples(st.sampled_from([Answer.OUT, Answer.ERR, Answer.DONE]), st.integers(0, 2**32 - 1), st.binary()))
)
def test_the_decoder_gives_back_what_was_encoded(expected: list[tuple[Answer, int, bytes]]) -> None:
    data = b"".join(frame(*parts) for parts in expected)
    assert Decoder().feed(data) == [Frame(*parts) for parts in expected]


def test_a_frame_that_is_too_long_is_never_sent() -> None:
    with pytest.raises(ValueError, match="65537"):
        encode(Request.DATA, 1, bytes(CHUNK + 1))


@given(st.one_of(st.binary(), st.text().map(str.encode)))
def test_a_boot_report_is_read_or_a_violation(payload: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        decode_report(payload)


@given(st.binary(max_size=200), st.sampled_from([None, "/folder"]))
def test_entries_are_read_or_a_violation(data: bytes, folder: str | None) -> None:
    try:
        entries = decode_entries(data, folder)
    except ProtocolViolation:
        return
    for entry in entries:
        assert folder is None or entry.path.startswith("/folder/")
        assert entry.size >= 0
        assert math.isfinite(entry.modified)


@pytest.mark.parametrize("name", [b"..", b".", b"a/b", b"/etc/passwd", b"", b"a\0b"])
def test_a_name_that_would_leave_its_directory_is_a_violation(name: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        decode_entries(pack(">BIQdH", 0, 0, 0, 0.0, len(name)) + name, "/folder")


OUT_OF_TURN = {
    "output before the start": frame(35, 1, b"x"),
    "an exit before the start": frame(38, 1, pack(">IB", 0, 0)),
    "an end before the start": frame(37, 1, b"\0"),
    "two starts": frame(33, 1, bytes(4)) * 2,
    "a start after a failure": frame(34, 1, bytes(5)) + frame(33, 1, bytes(4)),
    "two exits": frame(33, 1, bytes(4)) + frame(38, 1, bytes(5)) * 2,
    "an impossible exit": frame(33, 1, bytes(4)) + frame(38, 1, pack(">IB", 0x7F, 0)),
    "a stream that ends twice": frame(33, 1, bytes(4)) + frame(37, 1, b"\0") * 2,
    "output after the end": frame(33, 1, bytes(4)) + frame(37, 1, b"\0") + frame(35, 1, b"x"),
    "a third stream": frame(33, 1, bytes(4)) + frame(37, 1, b"\2"),
    "empty output": frame(33, 1, bytes(4)) + frame(35, 1),
    "a grant of what was not sent": frame(33, 1, bytes(4)) + frame(40, 1, pack(">I", 1_000_000)),
    "a kill that nobody asked for": frame(33, 1, bytes(4)) + frame(39, 1, b"t"),
    "a confirmation that nobody asked for": frame(43, 1),
    "the answer to a file operation": frame(42, 1, bytes(4)),
    "a channel that nobody opened": frame(35, 99, b"x"),
    "a second boot": frame(32, 0, b"x"),
    "an unknown kind": frame(99, 1),
    "a length that no frame has": pack(">IIB", 2**31, 1, 35),
    "a start of the wrong size": frame(33, 1, b"x"),
}


@pytest.mark.parametrize("said", OUT_OF_TURN.values(), ids=OUT_OF_TURN.keys())
async def test_what_may_not_come_now_ends_the_connection_for_all(said: bytes) -> None:
    stream = Script()
    connection = AgentConnection(stream)
    process = AgentProcess(connection, stdin=True)
    other = AgentProcess(connection, stdin=False)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:

            async def expect_gone(call: Callable[[], Awaitable[object]]) -> None:
                with pytest.raises(SandboxGone) as caught:
                    await call()
                assert isinstance(caught.value.__cause__, ProtocolViolation)

            group.start_soon(expect_gone, process.wait)
            group.start_soon(expect_gone, other.receive)
            await anyio.wait_all_tasks_blocked()
            stream.say(said)
    assert stream.closed
    assert connection.ended
    with pytest.raises(SandboxGone):
        await process.kill()
    await connection.aclose()


@settings(deadline=None, max_examples=200)
@given(said=st.lists(frames, max_size=12))
async def test_no_sequence_of_frames_crashes_or_hangs_a_command_or_an_operation(said: list[bytes]) -> None:
    connection = AgentConnection(Script(*said, b""))
    process = AgentProcess(connection, stdin=True)
    transfer = Transfer(connection, "/x")
    transfer.ask_for_output(Request.LIST, b"/x")
    with anyio.fail_after(PATIENCE):
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: process.start(Command(("x",)), "/"),
            process.receive,
            process.wait,
            transfer.receive,
        ]
        for call in calls:
            try:
                result = await call()
            except (SandboxError, StartFailure):
                continue
            else:
                assert result is None or isinstance(result, Chunk | Exit | bytes)
    assert process._incoming.size <= WINDOW
    await connection.aclose()


async def test_a_flood_of_small_frames_is_limited_by_the_credit() -> None:
    stream = Script(frame(33, 1, bytes(4)), *[frame(35, 1, b"x") * 5000] * 60)
    connection = AgentConnection(stream)
    process = AgentProcess(connection, stdin=False)
    other = AgentProcess(connection, stdin=False)
    with anyio.fail_after(PATIENCE), pytest.raises(SandboxGone):
        await other.wait()
    assert 0 < process._incoming.count <= WINDOW // LEAST_COST
    await connection.aclose()


class Granting(AgentConnection):
    """A connection that only notes how much it would grant."""

    granted = 0

    def post(self, kind: Request, channel: int, payload: bytes = b"") -> None:
        assert (kind, channel) == (Request.CREDIT, 1)
        self.granted += unpack(">I", payload)[0]


def test_the_window_grows_for_a_consumer_that_keeps_up() -> None:
    connection = Granting(Script())
    incoming = Incoming(connection, 1, WINDOW)
    for number in range(1, 4):
        for _ in range(WINDOW // CHUNK):
            incoming.add(bytes(CHUNK))
        with pytest.raises(ProtocolViolation):
            incoming.add(b"x")
        incoming.take()
        assert connection.granted == number * WINDOW  # it slept: no more than what it took
    connection.granted, size = 0, 100 * CHUNK
    for _ in range(size // CHUNK):
        incoming.add(bytes(CHUNK))
        incoming.take()
    assert size - MOST_WINDOW // 2 < connection.granted - (MOST_WINDOW - WINDOW) <= size


async def test_an_endless_listing_is_refused() -> None:
    name = b"x" * 200
    page = (pack(">BIQdH", 0, 0, 0, 0.0, len(name)) + name) * 280

    class Endless(Script):
        async def receive(self, max_bytes: int = 65536) -> bytes:
            await anyio.lowlevel.checkpoint()
            return frame(35, 1, page)

    connection = AgentConnection(Endless())
    session = AgentSession(connection, None)  # type: ignore[arg-type]
    with anyio.fail_after(4 * PATIENCE), pytest.raises(SandboxError):
        await session.list("/")
    await connection.aclose()


async def test_half_a_frame_survives_a_cancelled_reader() -> None:
    whole = frame(33, 1, bytes(4)) + frame(35, 1, b"hello")
    stream = Script(whole[:7])
    connection = AgentConnection(stream)
    process = AgentProcess(connection, stdin=False)
    for start in (7, 12, 20):
        with anyio.move_on_after(0.01):
            await process.receive()
        stream.say(whole[start : {7: 12, 12: 20, 20: 99}[start]])
    with anyio.fail_after(PATIENCE):
        assert await process.receive() == Chunk("stdout", b"hello")
    await connection.aclose()


class Slow(Script):
    async def send(self, item: bytes) -> None:
        for start in range(0, len(item), 10_000):  # a part is out, the rest takes time
            await anyio.sleep(0.001)
            self.heard += item[start : start + 10_000]


async def test_a_sender_that_is_cancelled_leaves_whole_frames() -> None:
    stream = Slow(frame(33, 1, bytes(4)))
    connection = AgentConnection(stream)
    process = AgentProcess(connection, stdin=True)
    with anyio.fail_after(PATIENCE):
        await process.start(Command(("x",), stdin=True), "/")
        for _ in range(3):
            with anyio.move_on_after(0.0015):
                await process.send(bytes(60_000))
        await process.close_stdin()
        while not stream.heard.endswith(frame(Request.EOF, 1)):
            await anyio.sleep(0.001)
    rest = stream.heard
    kinds: list[int] = []
    while rest:
        size, kind = int.from_bytes(rest[:4], "big"), rest[8]
        kinds.append(kind)
        rest = rest[9 + size :]
    assert kinds == [Request.START, *[Request.DATA] * (len(kinds) - 2), Request.EOF]
    await connection.aclose()


@settings(deadline=None, max_examples=25)
@given(said=st.lists(st.one_of(st.binary(max_size=40), frames), max_size=8))
async def test_nonsense_sent_to_an_agent_ends_it(said: list[bytes]) -> None:
    """The other side of the protocol: an agent ends rather than guess."""
    async with local_agent() as agent:
        connection = agent.session._connection
        for data in said:
            connection.post_raw(data)
        connection.post_raw(frame(250, 0))
        status = await agent.ended()
        assert status == 65
