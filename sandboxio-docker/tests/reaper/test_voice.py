"""What an agent says, taken out of the engine's stream however that is cut."""

import socket
from collections.abc import Iterator

import pytest
from sandboxio_docker.reaper.voice import Told, Voice


def framed(data: bytes) -> bytes:
    return b"\2\0\0\0" + len(data).to_bytes(4, "big") + data


SAID = [
    framed(b"sandboxio: busy 0\n"),
    framed(b"sandboxio: busy 30\nsandboxio: bu"),
    framed(b"sy full\n"),
    framed(b"sandboxio: idle\n"),
]
TOLD = [Told(True, 0), Told(True, 30 * 2**20), Told(True, None), Told(False, 0)]


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 1000])
def test_cut_at_any_place(ends: tuple[socket.socket, socket.socket], size: int) -> None:
    stream = b"".join(SAID)
    voice = Voice(ends[0], stream[:size])
    heard, lasts = voice.hear()
    assert lasts
    for at in range(size, len(stream), size):
        ends[1].sendall(stream[at : at + size])
        told, lasts = voice.hear()
        assert lasts
        heard += told
    assert heard == TOLD


def test_the_end_comes_after_all_that_was_said(ends: tuple[socket.socket, socket.socket]) -> None:
    ends[1].sendall(b"".join(SAID))
    ends[1].close()
    assert Voice(ends[0], b"").hear() == (TOLD, False)


@pytest.mark.parametrize(
    "line",
    [
        b"Traceback (most recent call last):",
        b"busy 3",
        b"sandboxio: busy",
        b"sandboxio: busy -3",
        b"sandboxio: idle 1",
        b"sandboxio: busy 1e3",
        b"sandboxio: busy " + b"9" * 5000,
        b"\xff\x00",
    ],
)
def test_anything_else_says_nothing(ends: tuple[socket.socket, socket.socket], line: bytes) -> None:
    ends[1].sendall(framed(line + b"\n") + SAID[0])
    assert Voice(ends[0], b"").hear() == (TOLD[:1], True)


@pytest.mark.parametrize("junk", [b"HTTP/1.1 400 Bad Request\r\n", framed(b"x" * 60_000) * 10 + b"\2\0\0\0\xff\0\0\0"])
def test_what_is_no_such_stream_is_given_up_and_nothing_grows(
    ends: tuple[socket.socket, socket.socket], junk: bytes
) -> None:
    voice = Voice(ends[0], junk)
    assert voice.hear() == ([], False)
    assert len(voice._line) <= 65_536
