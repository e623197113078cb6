"""What a command prints, with the secrets masked, for callers who ask for it."""

from collections import deque

from sandboxio.port import Chunk, Exit, Killed, ProcessDriver, StreamName
from sandboxio.redaction import MASK, Redactor
from sandboxio.secret_cuts import CUT
from sandboxio.secret_forms import bytes_of
from sandboxio.secret_places import unfinished, whole


class RedactedStream:
    """Masks secrets in bytes that come in pieces, wherever the pieces end.

    What may still become a secret is held back: less than the longest form of one, so the memory is bounded.
    """

    def __init__(self, redactor: Redactor) -> None:
        # Latin-1 is one character for each byte: what is printed may be no UTF-8, or be cut inside of a character.
        self._forms = [bytes_of(form).decode("latin-1") for form in redactor.forms]
        self._held = ""
        self._masked = 0  # characters of what is held that belong to a mask that was put out already

    def feed(self, data: bytes) -> bytes:
        """Take a piece, and return what can be shown by now."""
        text = self._held + data.decode("latin-1")
        return self._shown(text, unfinished(self._forms, text))

    def finish(self) -> bytes:
        """Return the rest at the end; a secret that was begun there, and is long enough to tell, is masked."""
        text = self._held
        begun = unfinished(self._forms, text)
        if len(text) - begun < CUT:
            return self._shown(text, len(text))
        return self._shown(text, begun) + (b"" if self._masked else MASK.encode())

    def _shown(self, text: str, end: int) -> bytes:
        """Return ``text`` up to ``end`` with its secrets masked, and hold back what is left.

        A secret that begins before ``end`` can't get longer any more, one behind it can, or be part of a longer one.
        """
        parts: list[str] = []
        done = self._masked
        for start, stop in whole(self._forms, text):
            if start >= end:
                break
            if start >= done:
                parts += [text[done:start], MASK]
            done = max(done, stop)
        parts.append(text[done:end])
        self._held, self._masked = text[end:], max(0, done - end)
        return "".join(parts).encode("latin-1")


class RedactedDriver:
    """A `ProcessDriver` whose output is masked."""

    def __init__(self, driver: ProcessDriver, redactor: Redactor) -> None:
        self._driver = driver
        self._streams: dict[StreamName, RedactedStream] = {
            "stdout": RedactedStream(redactor),
            "stderr": RedactedStream(redactor),
        }
        self._rest: deque[Chunk] | None = None

    async def receive(self) -> Chunk | None:
        """Return the next piece that can be shown."""
        while self._rest is None:
            chunk = await self._driver.receive()
            if chunk is None:
                ends = [Chunk(name, stream.finish()) for name, stream in self._streams.items()]
                self._rest = deque(end for end in ends if end.data)
            elif shown := self._streams[chunk.stream].feed(chunk.data):
                return Chunk(chunk.stream, shown)
        return self._rest.popleft() if self._rest else None

    async def send(self, data: bytes) -> None:
        """Write to stdin."""
        await self._driver.send(data)

    async def close_stdin(self) -> None:
        """End stdin."""
        await self._driver.close_stdin()

    async def wait(self) -> Exit:
        """Wait for the command itself to end."""
        return await self._driver.wait()

    async def kill(self) -> Killed:
        """End the command."""
        return await self._driver.kill()
