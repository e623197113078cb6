"""What the agent sent on one channel and nobody took yet."""

from collections import deque
from struct import pack

from sandboxio.agent.connection import AgentConnection
from sandboxio.agent.protocol import MOST_WINDOW, ProtocolViolation, Request, cost

JOINED = 262144
"""Bytes from which on no more is added to a piece: its way to the consumer costs more than joining a few."""


class Incoming:
    """Pieces of output in their order, bounded by what the agent was allowed to send.

    :param window: bytes that the agent may send at first; more once its consumer took output before all of that had come.
    """

    def __init__(self, connection: AgentConnection, channel: int, window: int) -> None:
        self._connection = connection
        self._channel = channel
        self._pieces: deque[tuple[int, bytes]] = deque()
        self._window = self._allowed = window
        self._owed = 0
        self._wanted = True

    def __bool__(self) -> bool:
        """Whether something waits."""
        return bool(self._pieces)

    @property
    def size(self) -> int:
        """How many bytes wait."""
        return sum(len(data) for _, data in self._pieces)

    @property
    def count(self) -> int:
        """How many pieces wait."""
        return len(self._pieces)

    def add(self, data: bytes, stream: int = 0) -> None:
        """Take in one piece. :raises ProtocolViolation: empty, or more than was allowed."""
        if not 0 < len(data) <= self._allowed:
            message = f"{len(data)} bytes of output where {self._allowed} are allowed"
            raise ProtocolViolation(message)
        self._allowed -= cost(len(data))
        if self._wanted:
            self._pieces.append((stream, data))
        else:
            self._consumed(cost(len(data)))

    def take(self) -> tuple[int, bytes]:
        """Return the stream and the data of what came next, and allow as much more."""
        stream = self._pieces[0][0]
        taken: list[bytes] = []
        size = 0
        while size < JOINED and self._pieces and self._pieces[0][0] == stream:
            taken.append(self._pieces.popleft()[1])
            size += len(taken[-1])
        self._consumed(sum(cost(len(data)) for data in taken))
        return stream, b"".join(taken)

    def drop(self) -> None:
        """Drop what waits, and all that still comes."""
        self._wanted = False
        self._pieces.clear()

    def _consumed(self, size: int) -> None:
        self._owed += size
        if self._owed < self._window // 2:
            return
        if self._allowed > 0 and self._window < MOST_WINDOW:
            self._owed += self._window
            self._window *= 2
        self._connection.post(Request.CREDIT, self._channel, pack(">I", self._owed))
        self._allowed += self._owed
        self._owed = 0
