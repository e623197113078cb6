"""The port: what an adapter writes, and the plain data that crosses it.

Core decides, adapters translate: every rule a caller relies on stands in core, an adapter answers the questions
below for one provider. Units everywhere: seconds, bytes, and MiB where a name ends in ``_mb``; instants are seconds
since the epoch.

What an adapter may have beside it is in `sandboxio.port_options`, and importable from here.

The protocols are version `PORT`. Core accepts an adapter of this version or the one before.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from sandboxio.capabilities import Capability
from sandboxio.isolation import IsolationTier
from sandboxio.port_options import CountsDenials as CountsDenials
from sandboxio.port_options import Detaches as Detaches
from sandboxio.port_options import FileInfo as FileInfo
from sandboxio.port_options import HasContents as HasContents
from sandboxio.port_options import HasFiles as HasFiles
from sandboxio.port_options import HasTrees as HasTrees
from sandboxio.port_options import HoldsSecrets as HoldsSecrets
from sandboxio.port_options import PreparesTemplate as PreparesTemplate

if TYPE_CHECKING:
    from sandboxio.errors import SandboxError
    from sandboxio.planning import Plan, Receipt
    from sandboxio.spec import SandboxSpec
    from sandboxio.target import BackendConfig

PORT = 1
"""The version of this port."""

StreamName = Literal["stdout", "stderr"]
Killed = Literal["tree", "leader", "sandbox"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What an engine or account can do.

    :param values: the adapter's own facts by name; plain data.
    :param maxima: the largest value a field of `Resources` (or ``"lifetime"``) may have there.
    :param assumed: true for an adapter's baseline, false for what a probe found.
    """

    values: Mapping[str, object] = field(default_factory=dict[str, object])
    maxima: Mapping[str, float] = field(default_factory=dict[str, float])
    assumed: bool = False


@dataclass(frozen=True, slots=True)
class BackendInfo:
    """What a backend declares about itself before anything is asked of it.

    :param name: the DSN scheme.
    :param distribution: the distribution that ships the adapter.
    :param config: the typed configuration; its fields are the DSN's parameters.
    :param features: what its sandboxes can do at best; an opened session may have less.
    :param tier: the isolation that holds by default; `tier_evidence` says where that is documented and when it was read.
    :param baseline: facts to plan with while nothing was asked; at most as able as any probed facts.
    :param observable: the policy items that `Backend.observe` always returns; core destroys what misses one.
    :param credentials: the environment variables that hold the provider's credentials; core shows their values nowhere.
    :param resource_caps_supported: false if caps belong to the template (then non-default `Resources` are refused).
    :param simulated: true only for a fake.
    """

    name: str
    distribution: str
    port: int
    config: "type[BackendConfig]"
    features: Capability
    tier: IsolationTier
    tier_evidence: str
    baseline: Facts
    observable: frozenset[str]
    credentials: tuple[str, ...] = ()
    resource_caps_supported: bool = True
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class Observation:
    """What the provider says of one sandbox, without any side effect.

    :param name: the client-chosen create id.
    :param state: ``created``, ``running``, ``paused`` or the provider's own word.
    :param labels: the caller's metadata, as read back.
    :param expires_at: when the provider ends it, seconds since the epoch.
    :param applied: policy item → the value in force, in the units of `Enforcement.requested`.
    :param receipts: policy item → how that value is enforced, where the answer alone tells; for `connect`, which has no
        plan. An item in ``applied`` that is not named here is given as read back.
    """

    sandbox_id: str
    name: str
    state: str
    labels: Mapping[str, str]
    created_at: float
    expires_at: float | None
    applied: Mapping[str, object]
    receipts: "Mapping[str, Receipt]" = field(default_factory=dict[str, "Receipt"])


@dataclass(frozen=True, slots=True)
class Command:
    """One command to start, fully resolved by core.

    :param argv: program and arguments; they go through no shell.
    :param env: the whole environment that core adds (sandbox, call and secrets merged), hidden from the repr.
    :param cwd: absolute working directory.
    :param stdin: true if stdin stays open for `ProcessDriver.send`; false: it is at its end from the start.
    :param user: a user name or id, ``None`` for the sandbox's own.
    :param code: bytes that the interpreter ``argv`` reads as its program, over a path that replaces `CODE_PATH` in argv.
    :param timeout: seconds after which the provider's side must end the tree by itself: a backstop, later than core's
        own exact clock.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str | None = None
    stdin: bool = False
    user: str | None = None
    code: bytes | None = field(default=None, repr=False)
    timeout: float | None = None


CODE_PATH = "{code}"
"""The argument of `Command.argv` that a session replaces by a readable path of `Command.code`."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of output; never empty."""

    stream: StreamName
    data: bytes


@dataclass(frozen=True, slots=True)
class Exit:
    """How a command ended.

    :param code: the exit status; 128 + n after signal n; 127 / 126 for a program that is missing / can't be executed.
    :param signal: the signal that ended it.
    :param limit: the field of `Resources` whose cap ended *this* command.
    :param limits_hit: caps that were hit in the sandbox while it ran, by whomever.
    :param started: false if the program could not be executed at all (126 / 127).
    """

    code: int
    signal: int | None = None
    limit: str | None = None
    limits_hit: tuple[str, ...] = ()
    started: bool = True


class TransportUnfit(Exception):
    """Raised by `Backend.open`: the sandbox can't be served this way, but could with other facts.

    Core destroys the sandbox and goes once more through plan, provision and observe with ``facts``.
    """

    def __init__(self, message: str, facts: Facts) -> None:
        super().__init__(message)
        self.facts = facts


class ProcessDriver(Protocol):
    """One started command."""

    async def receive(self) -> Chunk | None:
        """Return the next piece of output, ``None`` at the end; cancelling loses nothing.

        The end is when both streams ended, or the command ended and all that it itself had written was returned: a
        background child may hold a pipe open for as long as it likes.
        """
        ...

    async def send(self, data: bytes) -> None:
        """Write to stdin; waits while the command does not read. Data for an ended or closed stdin is dropped."""
        ...

    async def close_stdin(self) -> None:
        """End stdin; repeating it does nothing."""
        ...

    async def wait(self) -> Exit:
        """Wait for the command itself to end, draining and dropping its output."""
        ...

    async def kill(self) -> Killed:
        """End the command and return what really ended; core acts on it."""
        ...


class Session(Protocol):
    """One connection to one sandbox.

    It has a feature by having the protocol of it (`sandboxio.port_options`); `RUN_COMMAND` and `STREAMING` come with `start`.
    When the connection is lost its methods raise `SandboxGone` or `ConnectError`.
    """

    native: object

    async def start(self, command: Command) -> ProcessDriver:
        """Start a command.

        A missing or non-executable program is no error but an exit of 127 / 126 with the text in stderr.

        :raises ConfigurationError: the working directory is missing, the user unknown.
        :raises ResourceLimitExceeded: no process may be started any more.
        """
        ...

    async def aclose(self) -> None:
        """Close the connection; whether the sandbox lives on is the backend's ownership rule."""
        ...

    def info(self) -> Mapping[str, object]:
        """What is known about this connection: ``transport``, ``kill`` (what a kill ends), what was seen at start."""
        ...


class Backend(Protocol):
    """One configured engine or account; holds no task and is bound to no loop."""

    @property
    def info(self) -> BackendInfo:
        """What the backend declares."""
        ...

    async def probe(self, spec: "SandboxSpec") -> Facts:
        """Find out, by reads only, what this engine or account can do for ``spec``."""
        ...

    def plan(self, spec: "SandboxSpec", facts: Facts) -> "Plan":
        """Translate ``spec`` into provider parameters and one `Enforcement` or `Absent` per policy item; pure.

        :raises CapabilityNotSupported: a policy that this backend can't enforce.
        :raises ConfigurationError: a value that it can't carry.
        """
        ...

    async def provision(self, plan: "Plan") -> str:
        """Make the sandbox, nothing of the caller's running in it yet, and return its id.

        It carries ``plan.create_id`` as its name or label. Core never cancels it; if it must give up it cancels at
        the end of the teardown grace, and then the adapter makes sure that a late result is destroyed.
        """
        ...

    async def find(self, create_id: str) -> str | None:
        """Return the id of the sandbox that carries ``create_id``."""
        ...

    async def observe(self, sandbox_id: str) -> Observation | None:
        """Return what the provider says; ``None`` if it is gone, or ended and being removed."""
        ...

    async def open(self, sandbox_id: str, plan: "Plan | None" = None) -> Session:
        """Open a session; ``plan`` is given at the first opening, by which the sandbox starts to run.

        Without one it is a further session to a sandbox that runs and that core has observed: nothing about the sandbox
        changes by it, and its end is not the sandbox's end.
        """
        ...

    def list(self, labels: Mapping[str, str]) -> AsyncIterator[Observation]:
        """Iterate over the sandboxes that are ours and carry all of ``labels``."""
        ...

    async def destroy(self, sandbox_id: str) -> None:
        """Ask for the end of a sandbox; one that is gone is success. Core polls `observe` until ``None``."""
        ...

    def map_error(self, error: BaseException) -> "SandboxError | None":
        """Translate a native exception; ``None`` if it is none of the provider's. The cause is set by core."""
        ...

    async def aclose(self) -> None:
        """Give up connections and threads; sandboxes live on.

        Core calls it once for each time that `sandboxio_make_backend` returned the backend: when the sandbox that it was
        for is gone or given up, or the one call that it was for is over.
        """
        ...


Progress = Callable[[str], None]
"""Is called with a line of text while something long goes on."""
