"""Guards: what an organisation may block before it happens, whoever asks for it.

A guard is a plugin (`sandboxio.extensions`) with ``sandboxio_review_create(spec)`` or ``sandboxio_review_exec(request)``.
It runs in a worker thread, sees the names of secrets and never their values, and can't change what it sees: it allows,
blocks, or asks for an approval. An exception, a wrong answer and no answer in time block.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import anyio
from pydantic import SecretStr

from sandboxio import extensions
from sandboxio.bounds import seconds_from
from sandboxio.errors import BlockedByGuard
from sandboxio.extensions import Extension
from sandboxio.hookspecs import hookimpl
from sandboxio.isolation import IsolationTier
from sandboxio.port import Command
from sandboxio.redaction import MASK, Redactor, raise_from, safe_str
from sandboxio.spec import SandboxSpec
from sandboxio.teardown import is_cancellation
from sandboxio.threads import in_thread

DEFAULT_BOUND = 5.0
MAX_BOUND = 60.0
CREATE, EXEC = "sandboxio_review_create", "sandboxio_review_exec"
_questions = threading.Semaphore(40)
"""How many are asked at once, on all loops."""


@dataclass(frozen=True, slots=True)
class Allow:
    """Nothing is to be said against it."""


@dataclass(frozen=True, slots=True)
class Block:
    """It must not happen."""

    reason: str


@dataclass(frozen=True, slots=True)
class NeedsApproval:
    """It may happen if ``ask``, awaited under the call's own deadline, returns true; no guard may block it then."""

    reason: str
    ask: Callable[[], Awaitable[bool]] = field(repr=False)


Verdict = Allow | Block | NeedsApproval


@dataclass(frozen=True, slots=True)
class ExecRequest:
    """A command that is about to start.

    :param argv: program and arguments; a string command is the third of ``sh -c``.
    :param code: the code of ``run_code``.
    :param env: the names of the variables that the call adds, secrets included; never their values.
    :param spec: the sandbox's; its secrets are masked.
    """

    sandbox_id: str
    argv: tuple[str, ...]
    code: bytes | None
    cwd: str | None
    user: str | None
    env: tuple[str, ...]
    spec: SandboxSpec


def guard_bound() -> float:
    """Seconds that one guard gets: ``$SBX_GUARD_TIMEOUT``, 5 by default.

    :raises ConfigurationError: it is no such number.
    """
    return seconds_from("SBX_GUARD_TIMEOUT", DEFAULT_BOUND, MAX_BOUND)


async def review_create(spec: SandboxSpec, redactor: Redactor) -> None:
    """Ask the guards whether a sandbox may be made. :raises BlockedByGuard: one says no."""
    await _review(CREATE, redactor, spec=masked(spec))


async def review_exec(sandbox_id: str, command: Command, spec: SandboxSpec, redactor: Redactor) -> None:
    """Ask the guards whether a command may be started. :raises BlockedByGuard: one says no."""
    names = tuple(sorted(command.env))
    request = ExecRequest(sandbox_id, command.argv, command.code, command.cwd, command.user, names, masked(spec))
    await _review(EXEC, redactor, request=request)


def masked(spec: SandboxSpec) -> SandboxSpec:
    """Return a spec that holds the names of its secrets only."""
    return replace(spec, secrets={name: SecretStr(MASK) for name in spec.secrets})


async def _review(hook: str, redactor: Redactor, **arguments: object) -> None:
    if extensions.is_empty():
        return
    bound = guard_bound()
    guards = await in_thread(extensions.loaded, hook)
    verdicts = [(guard, await _ask(guard, hook, arguments, bound)) for guard in guards]
    for guard, verdict in verdicts:
        if isinstance(verdict, Block):
            raise _blocked(guard, redactor, verdict.reason)
    for guard, verdict in verdicts:
        if isinstance(verdict, NeedsApproval):
            await _await_approval(guard, verdict, redactor)


async def _ask(guard: Extension, hook: str, arguments: dict[str, object], bound: float) -> Verdict:
    with anyio.move_on_after(bound):
        return await in_thread(_answer, guard, hook, arguments, bound)
    return Block(f"it gave no answer within {bound:g} s")


def _answer(guard: Extension, hook: str, arguments: dict[str, object], bound: float) -> Verdict:
    # Nobody can end a thread: guards that hang keep so many, and not one more with every question.
    questions = _questions
    if not questions.acquire(timeout=bound):
        return Block("too many earlier questions were not answered")
    try:
        verdict = guard.call(hook, **arguments)
    except BaseException as error:  # noqa: BLE001 - whatever a guard raises, it did not allow it; it may call sys.exit()
        return Block(f"it failed: {type(error).__name__}: {safe_str(error)}")
    finally:
        questions.release()
    if not isinstance(verdict, (Allow, Block, NeedsApproval)):
        return Block(f"it answered {type(verdict).__name__}, which is no Allow, Block or NeedsApproval")
    return verdict


async def _await_approval(guard: Extension, verdict: NeedsApproval, redactor: Redactor) -> None:
    try:
        approved: object = await verdict.ask()
    except (Exception, asyncio.CancelledError, anyio.get_cancelled_exc_class()) as error:
        if is_cancellation(error):
            raise
        blocked = _blocked(guard, redactor, f"{safe_str(verdict.reason)}: asking failed: {safe_str(error)}")
        raise_from(blocked, redactor.cause(error))
    if approved is not True:
        raise _blocked(guard, redactor, f"{safe_str(verdict.reason)}: it was not approved")


def _blocked(guard: Extension, redactor: Redactor, reason: str) -> BlockedByGuard:
    return BlockedByGuard(
        redactor.text(f"the guard {guard.name!r} blocked it: {safe_str(reason)}"),
        hint="ask whoever set the guard up, or change what it objects to",
    )


class _IsolationFloor:
    def __init__(self, tier: IsolationTier) -> None:
        self._tier = tier

    @hookimpl
    def sandboxio_review_create(self, spec: SandboxSpec) -> Verdict:
        required = spec.require_isolation
        if required is not None and required.satisfies(self._tier):
            return Allow()
        return Block(f"every sandbox here needs require_isolation={self._tier.name} or above")


class _NoEgress:
    @hookimpl
    def sandboxio_review_create(self, spec: SandboxSpec) -> Verdict:
        if spec.network.egress == "deny" and not spec.network.allow:
            return Allow()
        return Block("no sandbox here may reach a network")


def isolation_floor(tier: IsolationTier) -> object:
    """Return a guard that lets only sandboxes be made whose caller requires ``tier`` or above.

    What is required is enforced by core before anything is asked of a provider. Add it with `extensions.register`.
    """
    return _IsolationFloor(tier)


def no_egress() -> object:
    """Return a guard that blocks every sandbox that could reach anything. Add it with `extensions.register`."""
    return _NoEgress()
