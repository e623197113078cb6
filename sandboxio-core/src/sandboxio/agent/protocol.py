"""The frames of the agent's protocol, as the host writes and reads them; `inside` has the description.

The host reads what a sandbox sends as hostile: every length and number is checked before it is used, what is kept is
bounded, and anything unexpected is a `ProtocolViolation`.
"""

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

CHUNK = 65536
"""The most bytes that a frame carries."""
WINDOW = 262144
"""Bytes of a command's stdin, and at first of its output, that may be on their way before more is granted."""
FILE_WINDOW = 1048576
"""The same for the content of a file."""
MOST_WINDOW = 1048576
"""What the window of output grows to while its consumer keeps up: a busy machine takes long to answer a grant."""
LEAST_COST = 256
"""Bytes of its window that a piece of output uses up at least, so that a million tiny ones can't be waiting."""

_HEADER = Struct(">IIB")


class ProtocolViolation(Exception):
    """The other side sent what the protocol does not allow."""


class Request(IntEnum):
    """What the host sends."""

    START = 1
    DATA = 2
    EOF = 3
    CREDIT = 4
    KILL = 5
    READ = 6
    WRITE = 7
    LIST = 8
    STAT = 9
    MKDIR = 10
    READLINK = 11
    LINK = 12
    SET = 13
    REMOVE = 14
    ABORT = 15
    DETACH = 16


class Answer(IntEnum):
    """What the agent sends."""

    BOOT = 32
    STARTED = 33
    FAILED = 34
    OUT = 35
    ERR = 36
    END = 37
    EXIT = 38
    KILLED = 39
    GRANT = 40
    GONE = 41
    DONE = 42
    DETACHED = 43


# The payload's exact size, where it has one.
_SIZES = {
    Answer.STARTED: 4,
    Answer.FAILED: 5,
    Answer.END: 1,
    Answer.EXIT: 5,
    Answer.KILLED: 1,
    Answer.GRANT: 4,
    Answer.GONE: 0,
    Answer.DETACHED: 0,
}
_ANSWERS = {int(answer): answer for answer in Answer}


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame from the agent."""

    kind: Answer
    channel: int
    payload: bytes


def encode(kind: Request, channel: int, payload: bytes = b"") -> bytes:
    """Return one frame for the agent."""
    if len(payload) > CHUNK:
        message = f"a frame of {len(payload)} bytes"
        raise ValueError(message)
    return _HEADER.pack(len(payload), channel, kind) + payload


def cost(size: int) -> int:
    """Return how many bytes of its window a piece of output of ``size`` bytes uses up."""
    return max(size, LEAST_COST)


class Decoder:
    """Cuts a byte stream into frames; holds at most one unfinished frame."""

    def __init__(self) -> None:
        self._head = b""
        self._frame: tuple[Answer, int] | None = None
        self._parts: list[memoryview] = []
        self._size = self._left = 0

    @property
    def held(self) -> int:
        """How many bytes of an unfinished frame it holds."""
        return len(self._head) + self._size - self._left

    def feed(self, data: bytes) -> list[Frame]:
        """Take in ``data`` and return the frames that are complete now.

        :raises ProtocolViolation: an unknown kind, or a length that no frame of its kind has.
        """
        frames: list[Frame] = []
        start = 0
        view = memoryview(data)
        while start < len(data) or (self._frame and not self._left):
            if self._frame is None:
                head = data[start : start + _HEADER.size - len(self._head)]
                start += len(head)
                self._begin(self._head + head)
                continue
            part = view[start : start + self._left]
            start += len(part)
            self._left -= len(part)
            self._parts.append(part)
            if not self._left:
                frames.append(Frame(*self._frame, b"".join(self._parts)))
                self._frame = None
                self._parts.clear()
                self._size = 0
        return frames

    def _begin(self, head: bytes) -> None:
        if len(head) < _HEADER.size:
            self._head = head
            return
        size, channel, number = _HEADER.unpack(head)
        self._head = b""
        self._frame = _checked(size, number), channel
        self._size = self._left = size


def _checked(size: int, number: int) -> Answer:
    kind = _ANSWERS.get(number)
    if kind is None:
        message = f"a frame of unknown kind {number}"
        raise ProtocolViolation(message)
    exact = _SIZES.get(kind)
    if size > CHUNK or (exact is not None and size != exact):
        message = f"a frame {kind.name} of {size} bytes"
        raise ProtocolViolation(message)
    return kind
