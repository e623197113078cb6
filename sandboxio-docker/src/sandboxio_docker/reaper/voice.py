"""What a sandbox's agent says on its stderr: whether anybody lives there who may write, and what deleted files hold."""

import socket
from dataclasses import dataclass

from .engine_http import read_now

_HEAD = 8  # bytes before each piece (moby's stdcopy, read 2026-11): the stream, three of padding, the length
_MOST = 65_536  # bytes of a piece or a line; the engine copies 32 KiB at once, and an agent says a few words
_MARK = b"sandboxio: "


@dataclass(frozen=True, slots=True)
class Told:
    """One line of the agent.

    :param alive: whether a process lives in the sandbox that is none of the agent's own, or a file is being written.
    :param held: bytes of the disk that the layer's size does not show; ``None`` = too much to be looked at.
    """

    alive: bool
    held: int | None


class Voice:
    """An attached stderr, read as far as it came."""

    def __init__(self, connection: socket.socket, received: bytes) -> None:
        self._connection = connection
        self._raw = received
        self._line = b""

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._connection.fileno()

    def close(self) -> None:
        """Listen no more."""
        self._connection.close()

    def hear(self) -> tuple[list[Told], bool]:
        """Return what came, and whether more may come; never waits."""
        lasts = self._take_frames()
        while lasts and (piece := read_now(self._connection)) is not None:
            self._raw += piece
            lasts = self._take_frames() and bool(piece)
        *lines, rest = self._line.split(b"\n")
        self._line = rest[-_MOST:]
        return [told for line in lines if (told := _read(line)) is not None], lasts

    def _take_frames(self) -> bool:
        while len(self._raw) >= _HEAD:
            size = int.from_bytes(self._raw[4:_HEAD], "big")
            if size > _MOST:
                return False  # no stream of pieces
            if len(self._raw) < _HEAD + size:
                break
            self._line += self._raw[_HEAD : _HEAD + size]
            self._raw = self._raw[_HEAD + size :]
        return True


def _read(line: bytes) -> Told | None:
    _, mark, words = line.rpartition(_MARK)
    if not mark:
        return None
    if words == b"idle":
        return Told(alive=False, held=0)
    if words == b"busy full":
        return Told(alive=True, held=None)
    verb, _, number = words.partition(b" ")
    if verb == b"busy" and number.isdigit() and len(number) < 16:
        return Told(alive=True, held=int(number) * 2**20)
    return None
