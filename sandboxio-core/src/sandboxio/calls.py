"""Every call over the port: with a deadline, its errors mapped, its secrets masked."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import anyio

from sandboxio.errors import BackendUnavailable, SandboxError
from sandboxio.port import Backend, TransportUnfit
from sandboxio.redaction import Redactor, raise_from, safe_str

T = TypeVar("T")

LOOK_BOUND = 60.0
"""Seconds that a look at existing sandboxes (find, observe, list, connect) may take."""


@dataclass(frozen=True, slots=True)
class PortCalls:
    """The calls to one backend."""

    backend: Backend
    redactor: Redactor

    @contextmanager
    def mapped(self, otherwise: type[SandboxError] = BackendUnavailable) -> Generator[None]:
        """Translate what the adapter raises; cancellation passes untouched.

        :param otherwise: the class for an exception that the adapter does not know.
        """
        try:
            yield
        except SandboxError as error:
            raise_from(self.redactor.error(error), error.__cause__)
        except TransportUnfit:
            raise
        except Exception as error:  # noqa: BLE001 - whatever an SDK raises becomes one of ours, its cause kept
            raise_from(self._translate(error, otherwise), self.redactor.cause(error))

    async def bounded(
        self, seconds: float, call: Callable[[], Awaitable[T]], otherwise: type[SandboxError] = BackendUnavailable
    ) -> T:
        """Make one call and wait for it at most ``seconds``.

        :raises BackendUnavailable: no answer in time.
        """
        with self.mapped(otherwise):
            with anyio.move_on_after(seconds):
                return await call()
            raise BackendUnavailable(
                f"{self.backend.info.name} did not answer within {seconds:g} s",
                hint=f"check that {self.backend.info.name} is up and not overloaded",
            )

    async def iterate(self, seconds: float, ask: Callable[[], AsyncIterator[T]]) -> list[T]:
        """Collect what a paged call yields."""

        async def collect() -> list[T]:
            items = ask()
            try:
                return [item async for item in items]
            finally:
                if isinstance(items, AsyncGenerator):
                    await items.aclose()

        return await self.bounded(seconds, collect)

    def _translate(self, error: Exception, otherwise: type[SandboxError]) -> SandboxError:
        name = self.backend.info.name
        try:
            mapped = self.backend.map_error(error)
        except Exception:  # noqa: BLE001 - the table has a hole: what is reported is the error that fell into it
            mapped = None
        if not isinstance(mapped, SandboxError):
            hint = f"this is a defect of the {name} adapter or its SDK; report it to {self.backend.info.distribution}"
            text = f"{name}: unexpected {type(error).__name__}: {safe_str(error)}"
            mapped = otherwise(text, hint=hint)
        return self.redactor.error(mapped)
