"""What `create` and `connect` return: a sandbox that is still to be had, by awaiting or by entering."""

from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from sandboxio.errors import ConfigurationError
from sandboxio.sandbox import Sandbox

if TYPE_CHECKING:
    from types import TracebackType


class Pending(ABC):
    """Await it, or enter it. Nothing happens before; it can be used once."""

    function: str
    """The function that returned it, for messages."""

    def __init__(self) -> None:
        self._used = False
        self._sandbox: Sandbox | None = None

    def __await__(self) -> Generator[Any, None, Sandbox]:
        """Return the sandbox; the caller ends it."""
        return self._once().__await__()

    async def __aenter__(self) -> Sandbox:
        """Return the sandbox for the block."""
        self._sandbox = await self._once()
        return self._sandbox

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        """Kill the sandbox, whatever left the block."""
        if self._sandbox is not None:
            await self._sandbox.__aexit__(kind, error, trace)

    async def _once(self) -> Sandbox:
        if self._used:
            raise ConfigurationError(
                f"this {self.function}() was used already", hint=f"call {self.function}() again for another one"
            )
        self._used = True
        return await self._open()

    @abstractmethod
    async def _open(self) -> Sandbox:
        """Do what was asked for."""
