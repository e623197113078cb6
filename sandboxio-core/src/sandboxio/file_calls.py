"""What every file operation shares: one deadline, and errors that say what is really the matter."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import anyio

from sandboxio.errors import CapabilityNotSupported, ConnectError, FileSystemError, SandboxGone
from sandboxio.execution import Budget
from sandboxio.port import HasFiles, HasTrees
from sandboxio.result import Collected

if TYPE_CHECKING:
    from sandboxio.lease import Lease

T = TypeVar("T")

_DISK_FULL = frozenset({27, 28, 122})
"""EFBIG (the cap bounds each file too), ENOSPC and EDQUOT, as Linux numbers them; the host may be another system."""


class FileCalls:
    """The calls of one file operation, within what is left of the sandbox's own timeout at its beginning."""

    def __init__(self, lease: "Lease") -> None:
        lease.check_alive()
        self.lease = lease
        self._budget = Budget.of(lease, None)

    async def run(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Make one call.

        :raises ExecutionTimeout: the sandbox's timeout passed. :raises SandboxGone: its lifetime did, or it is gone.
        """
        self.lease.check_alive()
        with anyio.move_on_after(self._budget.left()):
            try:
                with self.lease.mapped():
                    return await operation()
            except (SandboxGone, ConnectError) as error:
                raise await self.lease.refine_gone(error) from error.__cause__
        raise self._budget.expired(self.lease, Collected(1))


@contextmanager
def disk_cap(lease: "Lease") -> Generator[None]:
    """Around what writes in the sandbox. :raises ResourceLimitExceeded: its disk is full."""
    try:
        yield
    except FileSystemError as error:
        if error.errno not in _DISK_FULL:
            raise
        raise lease.limit_exceeded("disk_mb") from error


async def as_generator(items: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Iterate over what may be a generator, and close that with this one."""
    try:
        async for item in items:
            yield item
    finally:
        if isinstance(items, AsyncGenerator):
            await items.aclose()


def with_trees(service: HasFiles, path: str) -> HasTrees:
    """Return the service as one for trees. :raises CapabilityNotSupported: it is none."""
    if not isinstance(service, HasTrees):
        raise CapabilityNotSupported(
            f"{path!r} is a directory, and this backend transfers only files", hint="pass a file", why="not_yet"
        )
    return service
