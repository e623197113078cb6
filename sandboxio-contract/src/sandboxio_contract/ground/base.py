"""What a ground can be asked; each answer that it doesn't have makes the rows that need it not-provable, with the reason."""

from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol

from sandboxio_contract.ground.wire import Call, Gate, Place
from sandboxio_contract.network.checks import Checks
from sandboxio_contract.network.outcome import Outcome
from sandboxio_contract.network.plan import Neighbour
from sandboxio_contract.network.witness import Witness
from sandboxio_contract.verdict import Inconclusive


@dataclass(frozen=True, slots=True)
class Object:
    """Something that the provider holds: a sandbox, or what belongs to one."""

    kind: str
    identity: str
    state: str

    def __str__(self) -> str:
        """Name it for a report."""
        return f"{self.kind} {self.identity[:12]} ({self.state})"


class Recorder(Protocol):
    """What records and holds an adapter's requests; `Wire` is one."""

    @property
    def calls(self) -> tuple[Call, ...]:
        """The requests so far."""
        ...

    def gate(self, matches: Callable[[Call], bool], place: Place) -> Gate:
        """Hold each matching request from now on."""
        ...


def _never(call: Call) -> bool:  # noqa: ARG001 - what it looks like to a caller
    return False


@dataclass(frozen=True, slots=True)
class Spied:
    """The same backend behind a recorder of its traffic."""

    dsn: str
    wire: Recorder
    creates: Callable[[Call], bool]
    """Whether a call makes a sandbox."""
    destroys: Callable[[Call], bool]
    """Whether a call ends one."""
    alters: Callable[[Call], bool] = _never
    """Whether a call changes what a sandbox that exists may reach."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A template that the provider does not hold and has to fetch from a registry of the suite's own.

    :param dsn: the target with that template.
    :param path: a file that only this template has, and ``content`` what is in it.
    :param downloads: how many of its pieces the registry was asked for so far.
    :param present: whether the provider holds the template.
    """

    dsn: str
    path: str
    content: str
    downloads: Callable[[], int]
    present: Callable[[], bool]


class NetworkGround(Protocol):
    """Canaries, and references that deny nothing."""

    def checks(self, *, neighbour: Neighbour | None = None, late: bool = False, only: Sequence[str] = ()) -> Checks:
        """Return checks under a fresh token."""
        ...

    def witness(self) -> Witness:
        """Return what the canaries saw."""
        ...

    def control(self, checks: Checks) -> Outcome:
        """Run the same checks from a reference that denies nothing."""
        ...

    def beside(self, sandbox_id: str, checks: Checks) -> Outcome:
        """Run the checks from a probe of the suite's own that shares the sandbox's network."""
        ...

    def neighbour(self) -> Neighbour:
        """Return a live listener that stands where a neighbour of the sandbox would."""
        ...

    def listen_beside(self, sandbox_id: str, address: str) -> Neighbour:
        """Return a listener of the suite's own that shares a sandbox's network; it lives for a minute."""
        ...


class Ground:
    """A ground that sees nothing; subclasses answer what they can.

    :cvar live: whether it can judge a provider's real account, which is asked for by ``--sandboxio-live``.
    :cvar fetches: whether the provider may have to fetch a template when a sandbox is made.
    :cvar emulator: whether it is an emulator of the provider that is judged.
    :cvar outlives_owner: whether a sandbox whose owner was killed lives on until its lifetime ends, as documented.
    """

    live = False
    emulator = False
    fetches = True
    outlives_owner = False

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def surroundings(self) -> AbstractContextManager[None]:
        """Have what has to be so in this process while a row is judged, such as an account's key."""
        return nullcontext()

    def objects(self, mark: Mapping[str, str]) -> list[Object]:
        """Return everything at the provider that carries these labels, whatever its state."""
        return self._cannot("list what is left at the provider")

    def exists(self, sandbox_id: str) -> bool:
        """Whether the provider still holds a sandbox."""
        return self._cannot("look whether a sandbox exists")

    def lose(self, sandbox_id: str) -> None:
        """Make the provider lose a sandbox, behind the adapter's back."""
        self._cannot("remove a sandbox behind the adapter's back")

    def inspect(self, sandbox_id: str) -> Mapping[str, object]:
        """Return the provider's own description of a sandbox, flat."""
        return self._cannot("read the provider's description of a sandbox")

    def processes(self, sandbox_id: str) -> int:
        """Return how many processes and threads of a sandbox the host counts."""
        return self._cannot("count a sandbox's processes from outside")

    def status(self, sandbox_id: str) -> str:
        """Return what the kernel says of a sandbox's first process, as in ``/proc/PID/status``."""
        return self._cannot("read the kernel's word on a sandbox's processes from outside")

    def memory_peak(self, sandbox_id: str) -> int:
        """Return the peak of a sandbox's memory and swap together, bytes."""
        return self._cannot("read a sandbox's peak of memory and swap from outside")

    def swapping_control(self, memory_mb: int, script: str) -> int:
        """Run a Python script where memory is capped and as much swap again is allowed; return the peak, bytes."""
        return self._cannot("run a control that may swap")

    def swap(self) -> AbstractContextManager[str]:
        """Have swap where sandboxes run, for the block; it is removed in any case. Yields what it is."""
        return self._cannot("have swap where sandboxes run")

    def address(self, sandbox_id: str) -> str:
        """Return the IPv4 address that a sandbox has on its network."""
        return self._cannot("tell a sandbox's address")

    def caps(self, sandbox_id: str) -> Mapping[str, float]:
        """Return the caps that the provider itself holds, by policy item and in the units of receipts."""
        return self._cannot("read the caps that the provider holds")

    def networking(self, sandbox_id: str) -> str:
        """Return the provider's own description of a sandbox's network, for comparison."""
        return self._cannot("read the provider's description of a sandbox's network")

    def description(self, sandbox_id: str) -> str:
        """Return everything that the provider tells about a sandbox and its template."""
        return self._cannot("read everything that the provider tells about a sandbox")

    def brokered(self, sandbox_id: str) -> Set[str] | None:
        """Return the names of the secrets that the provider's own broker gives to a sandbox; ``None``: it has no broker."""
        return self._cannot("tell whether the provider has a broker for secrets")

    def storage(self, sandbox_id: str) -> str | None:
        """Return the place in the provider's lasting storage that a sandbox reaches; ``None``: it reaches none."""
        return self._cannot("tell which lasting storage a sandbox reaches")

    def blocked_attempt(self, sandbox_id: str) -> int | None:
        """Have one attempt at egress blocked, and return how many the provider counts by now; ``None``: it counts none."""
        return self._cannot("tell whether the provider counts what it blocks")

    def absent_template(self) -> str:
        """Return the target with a template that can't be had; nothing outside this machine is asked for it."""
        return self._cannot("name a template that can't be had")

    def prepared(self, wheels: Path, package: str) -> AbstractContextManager[str]:
        """Install a package from wheels into the target's template, without any network, for the block.

        Yields the target with that template.
        """
        return self._cannot("prepare a template")

    def fetched(self) -> AbstractContextManager[Fetched]:
        """Have a template that the provider must fetch, for the block."""
        return self._cannot("offer a template that has to be fetched")

    def spied(self) -> AbstractContextManager[Spied]:
        """Put a recorder between the adapter and the provider."""
        return self._cannot("record the adapter's traffic with its provider")

    def network(self) -> NetworkGround:
        """Return the canaries and references; set up once, kept until `close`."""
        return self._cannot("set up canaries and a reference that this backend's sandboxes could reach")

    def release_network(self) -> None:
        """Take canaries and references down; they are set up anew when asked for."""

    def close(self) -> None:
        """Give up what is held; repeating it does nothing."""

    def _cannot(self, what: str) -> NoReturn:
        raise Inconclusive(f"the suite has no way to {what} for {self.kind}: it has no ground for it")
