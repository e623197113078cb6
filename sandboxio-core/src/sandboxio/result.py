"""What a command leaves behind: its exit code and what it printed."""

from dataclasses import dataclass, field

from sandboxio.errors import ConfigurationError, ExecutionError
from sandboxio.port import Chunk, StreamName
from sandboxio.redaction import shown_number

DEFAULT_MAX_OUTPUT = 8 * 1024 * 1024
"""Bytes kept of each stream of a `run`."""
MAX_MAX_OUTPUT = 1024 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RichOutput:
    """One rich result of a code cell."""

    mime_type: str
    data: str


@dataclass(frozen=True, slots=True, repr=False)
class ExecResult:
    """How a command ended and what it printed.

    :param exit_code: 0 … 255; 128 + n after signal n, 127 / 126 for a program that is missing / can't be executed.
    :param stdout_bytes: exactly what was printed, at most ``max_output`` bytes.
    :param duration: seconds.
    :param limits_hit: resource caps that were hit in the sandbox meanwhile, not by this command's death.
    :param shown: the end of stderr with known secrets masked, for messages; the output itself is never altered.
    """

    exit_code: int
    stdout_bytes: bytes = b""
    stderr_bytes: bytes = b""
    results: tuple[RichOutput, ...] | None = None
    streamed: bool = False
    duration: float = 0.0
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    limits_hit: tuple[str, ...] = ()
    shown: str = field(default="", compare=False)

    @property
    def ok(self) -> bool:
        """Whether the exit code is 0."""
        return self.exit_code == 0

    @property
    def stdout(self) -> str:
        """Standard output as UTF-8, invalid bytes replaced by U+FFFD."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """Standard error as UTF-8, invalid bytes replaced by U+FFFD."""
        return self.stderr_bytes.decode("utf-8", "replace")

    def raise_for_status(self) -> "ExecResult":
        """Return itself. :raises ExecutionError: the exit code is not 0."""
        if self.ok:
            return self
        said = self.shown.strip() or "nothing on stderr"
        raise ExecutionError(
            f"the command ended with exit code {self.exit_code}: {said}",
            hint="see stdout and stderr of the error's .result",
            result=self,
        )

    def __repr__(self) -> str:
        """Show sizes, never output: it is data, and may be secret."""
        return (
            f"<ExecResult {self.exit_code} stdout {len(self.stdout_bytes)} B stderr {len(self.stderr_bytes)} B"
            f" {self.duration:.3f} s>"
        )


class Collected:
    """The first ``limit`` bytes of each stream; what is beyond is counted and dropped."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # One buffer per stream: a list of single bytes would take fifty times the memory.
        self._kept: dict[StreamName, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._truncated: set[StreamName] = set()

    def add(self, chunk: Chunk) -> None:
        """Keep what fits of a chunk."""
        kept = self._kept[chunk.stream]
        room = self._limit - len(kept)
        kept += chunk.data if len(chunk.data) <= room else chunk.data[:room]
        if len(chunk.data) > room:
            self._truncated.add(chunk.stream)

    def kept(self, stream: StreamName) -> bytes:
        """Return the kept bytes of one stream."""
        return bytes(self._kept[stream])

    def truncated(self, stream: StreamName) -> bool:
        """Whether something was dropped."""
        return stream in self._truncated


def check_max_output(value: int, name: str = "max_output") -> int:
    """Return a number of bytes that may be kept. :raises ConfigurationError: it is out of range."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_MAX_OUTPUT:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"{name}={shown_number(value)} is out of range",
            hint=f"pass 1 to {MAX_MAX_OUTPUT} bytes; stream() is lossless",
        )
    return value
