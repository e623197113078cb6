"""What every contender can do. Each operation returns the seconds it took, measured as close to it as possible."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Crowd:
    """Many sandboxes that existed at once: created, one command in each, removed.

    :ivar failures: what went wrong, one text per sandbox.
    :ivar threads: of the owner's process while all existed; 0 = not looked at.
    """

    seconds: float
    threads: int = 0
    failures: list[str] = field(default_factory=list[str])


class Box(Protocol):
    """One sandbox."""

    async def true(self) -> float:
        """Run ``true`` and wait for its result."""
        ...

    async def stream(self, size: int) -> float:
        """Read ``size`` bytes that a command prints, dropping them."""
        ...

    async def put(self, local: Path, remote: str) -> float:
        """Copy a file in. :raises NotBuilt: there is no such operation."""
        ...

    async def get(self, remote: str, local: Path) -> float:
        """Copy a file out. :raises NotBuilt: there is no such operation."""
        ...

    async def many(self, count: int) -> float:
        """Have ``count`` commands alive at once, then end them. :raises NotBuilt: it can't be expressed."""
        ...

    async def remove(self) -> float:
        """End the sandbox by the contender's own way; it is gone then."""
        ...

    async def discard(self) -> None:
        """End the sandbox by the quickest way there is, unmeasured."""
        ...


class Contender(Protocol):
    """Somebody who makes sandboxes."""

    @property
    def name(self) -> str:
        """One of `benchmarks.figure.CONTENDERS`."""
        ...

    async def open(self, *, memory_mb: int = ..., pids: int = ..., disk_mb: int = ...) -> tuple[float, Box]:
        """Make a sandbox and return the seconds until its first command's result, and the sandbox."""
        ...

    async def crowd(self, count: int, *, egress: bool = False) -> Crowd:
        """Create ``count`` sandboxes, run a command in each once all exist, remove all."""
        ...

    async def aclose(self) -> None:
        """Remove whatever is left."""
        ...
