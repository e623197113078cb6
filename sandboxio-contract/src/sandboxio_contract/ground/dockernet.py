"""Canaries and references for containers of an engine on this machine."""

import contextlib
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from sandboxio_contract.network.checks import Checks
from sandboxio_contract.network.outcome import Outcome
from sandboxio_contract.network.plan import Neighbour
from sandboxio_contract.network.reference import DockerReference
from sandboxio_contract.network.witness import Witness
from sandboxio_contract.network.world import HostCanary


class DockerNetwork:
    """A `NetworkGround`. A context manager; what it holds is made when it is entered."""

    def __init__(self, image: str, base_url: str | None) -> None:
        self._image, self._base_url = image, base_url
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Set up canary and reference. :raises NotProvable: they can't be."""
        with contextlib.ExitStack() as stack:
            self._canary = stack.enter_context(HostCanary.start())
            self._reference = stack.enter_context(DockerReference(self._canary, self._image, self._base_url))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Tear down."""
        self._stack.close()

    def checks(self, *, neighbour: Neighbour | None = None, late: bool = False, only: Sequence[str] = ()) -> Checks:
        """Return checks under a fresh token."""
        return self._canary.checks(neighbour=neighbour, late=late, only=only)

    def witness(self) -> Witness:
        """Return what the canaries saw."""
        return self._canary.witness()

    def control(self, checks: Checks) -> Outcome:
        """Run the same checks from containers that deny nothing."""
        return self._reference.probe(checks)

    def beside(self, sandbox_id: str, checks: Checks) -> Outcome:
        """Run the checks from a container in the sandbox's network namespace."""
        return self._reference.probe_beside(sandbox_id, checks)

    def neighbour(self) -> Neighbour:
        """Return a listener in a container of its own."""
        return self._reference.neighbour
