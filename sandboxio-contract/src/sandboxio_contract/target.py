"""The target of a run: a backend behind a DSN, and the suite's own way to look at its world."""

import secrets
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import anyio.to_thread
import sandboxio

from sandboxio_contract.ground import Ground, ground_for
from sandboxio_contract.verdict import Inconclusive, NotRun

if TYPE_CHECKING:
    from sandboxio.port import BackendInfo
    from sandboxio.target import BackendConfig

P = ParamSpec("P")
T = TypeVar("T")

LIFETIME = 120.0
"""Seconds that a sandbox of the suite lives at most, unless a row says otherwise."""
MARK = "sandboxio-contract"
"""The metadata key that every sandbox of the suite carries; its value is the run's token."""

_REFUSALS = (sandboxio.CapabilityNotSupported, sandboxio.ConfigurationError, sandboxio.PolicyNotEnforced)
_TROUBLES = (
    sandboxio.BackendNotFound,
    sandboxio.BackendNotInstalled,
    sandboxio.BackendUnavailable,
    sandboxio.AuthError,
    sandboxio.RateLimitError,
    sandboxio.CreationError,
)
"""What a plain sandbox raises where there is no engine, account or image to make it from."""


class Target:
    """What is judged.

    :param dsn: as `sandboxio.create` takes it.
    :param ground: how the suite looks at the backend's world; chosen by the backend's name if not given.
    :param register: backends that have no entry point, name → ``"package.module:object"``; they are made known here, and
        in the processes that rows start.
    :param path: where those processes find them.
    """

    def __init__(
        self,
        dsn: str,
        ground: Ground | None = None,
        *,
        register: Mapping[str, str] | None = None,
        path: Sequence[str] = (),
        name: str | None = None,
    ) -> None:
        self.dsn = dsn
        self.name = name or dsn
        """What reports call it."""
        self.register: Mapping[str, str] = register or {}
        self.path = tuple(path)
        for name, adapter in self.register.items():
            sandboxio.register(name, adapter)
        self.token = secrets.token_hex(6)
        self.ground = ground if ground is not None else ground_for(dsn)
        self.isolated: bool | None = None
        """Whether commands were seen to run apart from this machine's processes; ``None`` before anybody looked."""
        self._usable = self._reached = False
        self._trouble: str | None = None
        self.made: set[str] = set()
        """The ids of the sandboxes that rows made through `sandbox`."""

    @property
    def kind(self) -> str:
        """The backend whose world the ground shows, such as ``docker``."""
        return self.ground.kind

    @property
    def mark(self) -> Mapping[str, str]:
        """The metadata by which everything of this run is found."""
        return {MARK: self.token}

    async def info(self) -> "BackendInfo":
        """Return what the backend declares."""
        return await sandboxio.backend_info(self.dsn)

    async def tier(self) -> sandboxio.IsolationTier:
        """Return the isolation that a sandbox of this target is to have: at most what its backend declares."""
        declared = (await self.info()).tier
        try:
            planned = (await sandboxio.plan(self.dsn)).tier
        except _REFUSALS:
            return declared
        return min(declared, planned, key=lambda tier: tier.rank)

    def create(
        self, *, dsn: "str | BackendConfig | None" = None, metadata: Mapping[str, str] | None = None, **options: Any
    ) -> sandboxio.Creation:
        """Call `sandboxio.create` with the run's mark; errors are the row's to judge.

        :param dsn: another way to the same backend, such as one that is spied on, or a typed configuration.
        :param options: of `sandboxio.create`.
        """
        options.setdefault("timeout", LIFETIME)
        return sandboxio.create(dsn or self.dsn, metadata={**(metadata or {}), **self.mark}, **options)

    @asynccontextmanager
    async def sandbox(self, **options: Any) -> AsyncGenerator[sandboxio.Sandbox]:
        """Make a sandbox that a row needs in order to look at something else.

        :raises Inconclusive: the backend refuses such a sandbox, so that there is nothing to look at.
        :raises NotRun: the backend does not answer.
        """
        try:
            made = await self.create(**options)
        except sandboxio.BackendUnavailable as error:
            raise NotRun(first_line(error)) from error
        except _REFUSALS as error:
            raise Inconclusive(f"no sandbox to look at: {first_line(error)}") from error
        self.made.add(made.id)
        async with made:
            yield made

    async def trouble(self, *, plain_sandbox: bool = False) -> str | None:
        """Return why the target can't be had at all; once that was so, it stays so for the run.

        :param plain_sandbox: try a sandbox of the default kind, too; else, once, only whether the backend answers.
        """
        if self._trouble is None and (plain_sandbox or not self._reached):
            try:
                await sandboxio.plan(self.dsn, probe=True)
                self._reached = True
                if plain_sandbox:
                    await (await self.create()).kill()
            except _TROUBLES as error:
                self._trouble = first_line(error)
            except _REFUSALS:
                self._reached = True
        return self._trouble

    async def need_sandbox(self) -> None:
        """Make sure that the backend makes plain sandboxes at all, for rows that go about `create` by themselves.

        :raises Inconclusive: it refuses them.
        """
        if not self._usable:
            async with self.sandbox():
                self._usable = True

    async def look(self, question: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Ask the ground, which blocks, in a worker thread."""
        return await anyio.to_thread.run_sync(lambda: question(*args, **kwargs))

    def close(self) -> None:
        """Give up what the ground holds."""
        self.ground.close()


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, with its class."""
    text = str(error).splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"
