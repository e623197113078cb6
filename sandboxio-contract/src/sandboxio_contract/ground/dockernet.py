"""Canaries and references for containers of an engine on this machine."""

import contextlib
import secrets
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sandboxio_contract.network.checks import Checks
from sandboxio_contract.network.engine import LABEL
from sandboxio_contract.network.outcome import Outcome
from sandboxio_contract.network.plan import Neighbour
from sandboxio_contract.network.reference import DockerReference, neighbour_command
from sandboxio_contract.network.witness import Witness
from sandboxio_contract.network.world import HostCanary
from sandboxio_contract.verdict import Inconclusive

if TYPE_CHECKING:
    from docker.client import DockerClient

PORT = 28_455
SECONDS = 60.0


class DockerNetwork:
    """A `NetworkGround`. A context manager; what it holds is made when it is entered."""

    def __init__(self, image: str, base_url: str | None, client: "Callable[[], DockerClient]") -> None:
        self._image, self._base_url, self._client = image, base_url, client
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

    def listen_beside(self, sandbox_id: str, address: str) -> Neighbour:
        """Return a listener in a container that joins the sandbox's network namespace; it needs no tool of its image."""
        key = secrets.token_bytes(32)
        argv, source = neighbour_command(key, PORT, SECONDS)
        at = argv.index("-")
        started: Any = self._client().containers.run(
            self._image,
            [*argv[:at], "-c", source.decode(), *argv[at + 1 :]],
            entrypoint=[],
            network_mode=f"container:{sandbox_id}",
            labels={LABEL: self._canary.run_id},
            detach=True,
            auto_remove=True,  # it ends by itself after a minute, should this process be killed
        )
        self._stack.callback(_remove, started)
        end = time.monotonic() + SECONDS
        while b"listening" not in started.logs():
            if time.monotonic() > end:
                raise Inconclusive("the suite's listener beside the sandbox does not listen")
            time.sleep(0.05)
        return Neighbour(address, PORT, key)


def _remove(container: Any) -> None:
    from docker.errors import APIError

    # Gone, or on its way: then the engine answers 404 or 409.
    with contextlib.suppress(APIError):
        container.remove(force=True, v=True)
