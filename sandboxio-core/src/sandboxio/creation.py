"""From a plan to an opened session, leaving nothing behind on any other way out."""

import time
import warnings
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import anyio

from sandboxio.attestation import check_observation
from sandboxio.calls import LOOK_BOUND, PortCalls
from sandboxio.coverage import check_plan, warn_about
from sandboxio.errors import CreationError, OrphanedSandboxWarning, SandboxError
from sandboxio.planning import Plan
from sandboxio.port import Backend, Facts, Observation, PreparesTemplate, Progress, Session, TransportUnfit
from sandboxio.spec import SandboxSpec
from sandboxio.teardown import OwnTask, finish, teardown_grace

FACTS_LIFE = 60.0
"""Seconds for which the answers of a probe hold."""
POLL = 0.1
"""Seconds between two looks at a sandbox that is being removed."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A sandbox that was attested and opened."""

    plan: Plan
    seen: Observation
    session: Session


class FactsCache:
    """What a backend answered about itself, for `FACTS_LIFE` seconds, by template."""

    def __init__(self) -> None:
        self._facts: dict[tuple[int, str | None], tuple[float, Backend, Facts]] = {}

    def get(self, backend: Backend, spec: SandboxSpec) -> Facts | None:
        """Return facts that are still fresh."""
        entry = self._facts.get((id(backend), spec.template))
        return entry[2] if entry and entry[1] is backend and time.monotonic() - entry[0] < FACTS_LIFE else None

    def put(self, backend: Backend, spec: SandboxSpec, facts: Facts) -> None:
        """Remember facts and forget stale ones."""
        now = time.monotonic()
        self._facts = {key: entry for key, entry in self._facts.items() if now - entry[0] < FACTS_LIFE}
        self._facts[id(backend), spec.template] = (now, backend, facts)


_facts = FactsCache()


def plan_offline(backend: Backend, spec: SandboxSpec) -> Plan:
    """Plan from declared facts: what this refuses is refused without any traffic."""
    plan = backend.plan(spec, backend.info.baseline)
    check_plan(plan)
    return plan


async def plan_probed(calls: PortCalls, spec: SandboxSpec) -> Plan:
    """Ask the engine or account what it can do, and plan with that."""
    backend = calls.backend
    facts = _facts.get(backend, spec)
    if facts is None:
        facts = await calls.bounded(LOOK_BOUND, lambda: backend.probe(spec))
        _facts.put(backend, spec, facts)
    with calls.mapped():
        plan = backend.plan(spec, facts)
    check_plan(plan)
    return plan


async def create(calls: PortCalls, spec: SandboxSpec, progress: Progress) -> Opened:
    """Make, attest and open one sandbox; the caller bounds it in time."""
    with calls.mapped():
        plan_offline(calls.backend, spec)
    plan = await plan_probed(calls, spec)
    warn_about(plan)
    try:
        return await _make(calls, plan, progress)
    except TransportUnfit as unfit:
        return await _make_again(calls, spec, unfit, progress)


async def _make_again(calls: PortCalls, spec: SandboxSpec, unfit: TransportUnfit, progress: Progress) -> Opened:
    progress(f"{unfit}; trying the other transport")
    _facts.put(calls.backend, spec, unfit.facts)
    with calls.mapped():
        plan = calls.backend.plan(spec, unfit.facts)
    check_plan(plan)
    try:
        return await _make(calls, plan, progress)
    except TransportUnfit as again:
        raise CreationError(f"{calls.backend.info.name}: no transport fits: {again}") from again


async def _make(calls: PortCalls, plan: Plan, progress: Progress) -> Opened:
    backend = calls.backend
    if isinstance(backend, PreparesTemplate):
        with calls.mapped(CreationError):
            await backend.prepare(plan, progress)
    sandbox_id = await _provision(calls, plan)
    try:
        seen = check_observation(plan, backend.info, await _attest(calls, sandbox_id))
        with calls.mapped(CreationError):
            session = await backend.open(sandbox_id, plan)
    except BaseException:
        await destroy_for_sure(calls, sandbox_id, plan.spec.metadata)
        raise
    return Opened(plan, seen, session)


async def _attest(calls: PortCalls, sandbox_id: str) -> Observation | None:
    return await calls.bounded(LOOK_BOUND, lambda: calls.backend.observe(sandbox_id), CreationError)


async def _provision(calls: PortCalls, plan: Plan) -> str:
    """Provision in a task of its own: a cancelled request may still commit, so it is never cancelled."""
    task = OwnTask(lambda: _provision_mapped(calls, plan))
    try:
        return await task.wait()
    except SandboxError:
        # The request may have committed although its answer was an error (504 after commit).
        await _reclaim(calls, plan, task)
        raise
    except BaseException:
        await _reclaim(calls, plan, task)
        raise


async def _provision_mapped(calls: PortCalls, plan: Plan) -> str:
    with calls.mapped(CreationError):
        return await calls.backend.provision(plan)


async def _reclaim(calls: PortCalls, plan: Plan, task: OwnTask[str]) -> None:
    """Destroy whatever a provision that nobody waits for any more has made or will make."""
    grace = teardown_grace()

    async def reclaim() -> None:
        try:
            made = await _await_made(calls, plan, task, grace)
            if made is not None:
                await _destroy(calls, made)
        except SandboxError as error:
            warn_orphan(calls, plan.create_id, plan.spec.metadata, f"looking for it failed: {error.message}")
        if not task.done:
            # The adapter hears of it by this cancellation and sees to a late result.
            _give_up(calls, plan, task)

    await finish(reclaim, grace, lambda: _give_up(calls, plan, task))


async def _await_made(calls: PortCalls, plan: Plan, task: OwnTask[str], grace: float) -> str | None:
    """Wait for the provision's end; late in the grace ask by name, since its answer may never come."""
    started = time.monotonic()
    while not task.done and (waited := time.monotonic() - started) < grace * 0.8:
        if waited > grace * 0.4 and (found := await _find(calls, plan)) is not None:
            return found
        await anyio.sleep(min(POLL, grace / 20))
    if task.done:
        try:
            return task.result()
        except SandboxError:
            pass  # its answer was an error; whether it committed all the same is asked next
    return await _find(calls, plan)


async def _find(calls: PortCalls, plan: Plan) -> str | None:
    with calls.mapped():
        return await calls.backend.find(plan.create_id)


def _give_up(calls: PortCalls, plan: Plan, task: OwnTask[str]) -> None:
    task.cancel()
    warn_orphan(calls, plan.create_id, plan.spec.metadata, "its creation did not end within the grace")


async def destroy_for_sure(
    calls: PortCalls,
    sandbox_id: str,
    labels: Mapping[str, str],
    then: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Destroy a sandbox, immune to cancellation, within the teardown grace.

    Emits `OrphanedSandboxWarning` if its end could not be seen; raises no error of its own, so that none is replaced.

    :param then: called once it was seen to be gone, still within the grace.
    """

    async def destroy() -> None:
        try:
            await _destroy(calls, sandbox_id)
        except SandboxError as error:
            warn_orphan(calls, sandbox_id, labels, f"destroying it failed: {error.message}")
        else:
            if then is not None:
                await then()

    await finish(
        destroy, teardown_grace(), lambda: warn_orphan(calls, sandbox_id, labels, "it was not gone within the grace")
    )


async def _destroy(calls: PortCalls, sandbox_id: str) -> None:
    """Ask for the end of a sandbox and look until it is gone; the caller bounds it in time."""
    failures = 0
    while True:
        try:
            with calls.mapped():
                await calls.backend.destroy(sandbox_id)
                if await calls.backend.observe(sandbox_id) is None:
                    return
        except SandboxError:
            failures += 1
            if failures >= 3:
                raise
        await anyio.sleep(POLL * (1 + failures))


def warn_orphan(calls: PortCalls, sandbox_id: str, labels: Mapping[str, str], why: str) -> None:
    """Name a sandbox that may still be there, so that an operator can reap it."""
    text = f"sandbox {sandbox_id} of {calls.backend.info.name} (labels {dict(labels)}) may be left over: {why}"
    warnings.warn(calls.redactor.text(text), OrphanedSandboxWarning, stacklevel=3)
