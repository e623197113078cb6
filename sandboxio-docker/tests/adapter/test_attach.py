"""Frames are taken apart however they are split over reads."""

from collections.abc import Iterable

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sandboxio_docker.attach import AgentStream, Demultiplexer, Frames


def framed(kind: int, data: bytes) -> bytes:
    return bytes([kind, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


def joined(pieces: Iterable[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    for kind, piece in pieces:
        if found and found[-1][0] == kind:
            found[-1] = (kind, found[-1][1] + piece)
        else:
            found.append((kind, piece))
    return found


frames = st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=300)))


@given(frames, st.data())
def test_any_split_gives_the_same_streams(sent: list[tuple[int, bytes]], data: st.DataObject) -> None:
    wire = b"".join(framed(kind, payload) for kind, payload in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=20)))
    demultiplexer = Demultiplexer()
    got: list[tuple[int, bytes]] = []
    for begin, end in zip([0, *cuts], [*cuts, len(wire)], strict=True):
        got.extend(demultiplexer.split(wire[begin:end]))
    assert joined(got) == joined((kind, payload) for kind, payload in sent if payload)


@pytest.mark.parametrize("wire", [b"HTTP/1.1 ", b"\x01\x01\0\0\0\0\0\x01x", b"\x04\0\0\0\0\0\0\x01x"])
def test_what_is_no_frame_is_refused(wire: bytes) -> None:
    with pytest.raises(ValueError, match="stdcopy"):
        list(Demultiplexer().split(wire))


def test_what_follows_in_one_stream_comes_as_one_piece() -> None:
    wire = framed(1, b"a") + framed(1, b"b") + framed(2, b"c") + framed(1, b"d")
    assert list(Demultiplexer().split(wire)) == [(1, b"ab"), (2, b"c"), (1, b"d")]


def test_a_huge_frame_is_passed_on_in_pieces_and_never_collected() -> None:
    demultiplexer = Demultiplexer()
    head = bytes([1, 0, 0, 0]) + (2**32 - 1).to_bytes(4, "big")
    assert list(demultiplexer.split(head + b"abc")) == [(1, b"abc")]
    assert list(demultiplexer.split(b"d" * 10)) == [(1, b"d" * 10)]


class Scripted:
    """An upgraded connection that says what it is told to."""

    def __init__(self, *reads: bytes) -> None:
        self._reads = list(reads)

    async def receive(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        return self._reads.pop(0) if self._reads else b""


def stream_of(*reads: bytes) -> AgentStream:
    return AgentStream(Frames(Scripted(*reads)))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.anyio
async def test_the_agents_stream_is_its_stdout_and_its_stderr_is_kept_bounded() -> None:
    stream = stream_of(framed(2, b"trouble" * 10_000), framed(1, b"abcdef"), framed(2, b"late"))
    assert await stream.receive(4) == b"abcd"
    assert await stream.receive(4) == b"ef"
    with pytest.raises(anyio.EndOfStream):
        await stream.receive()
    assert stream.diagnosis.startswith("trouble")
    assert len(stream.diagnosis) <= 8192


@pytest.mark.anyio
async def test_an_error_of_the_engine_itself_is_no_output() -> None:
    with pytest.raises(anyio.BrokenResourceError, match="disk is full"):
        await stream_of(framed(3, b"disk is full")).receive()


@pytest.mark.anyio
async def test_a_cancelled_read_loses_nothing() -> None:
    stream = stream_of(framed(1, b"kept"))
    with anyio.CancelScope() as scope:
        scope.cancel()
        await stream.receive()
    assert await stream.receive() == b"kept"
