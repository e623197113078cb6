"""From a plan to an opened session, leaving nothing behind on any other way out."""

import time
from contextlib import suppress
from dataclasses import dataclass, replace

from sandboxio.attestation import check_observation
from sandboxio.calls import LOOK_BOUND, PortCalls
from sandboxio.coverage import check_plan, refuse_secrets, refuse_shown, refuse_unbuilt, warn_about
from sandboxio.destruction import destroy_for_sure
from sandboxio.errors import CreationError, SandboxError
from sandboxio.planning import Enforcement, Plan
from sandboxio.port import (
    Backend,
    Facts,
    HoldsSecrets,
    Observation,
    PreparesTemplate,
    Progress,
    Session,
    TransportUnfit,
)
from sandboxio.provision import provision
from sandboxio.redaction import raise_from
from sandboxio.spec import SandboxSpec, new_create_id

FACTS_LIFE = 60.0
"""Seconds for which the answers of a probe hold."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A sandbox that was attested and opened.

    :param cwd: absolute path that commands start in by default.
    :param asked_at: when its provision was asked for, on the monotonic clock.
    """

    plan: Plan
    seen: Observation
    session: Session
    cwd: str
    asked_at: float

    @property
    def expires_at(self) -> float:
        """When the provider ends the sandbox, seconds since the epoch."""
        return self.seen.expires_at or self.seen.created_at + self.plan.spec.timeout

    def expires(self) -> float:
        """Return that end in this machine's monotonic time, which no clock jump shortens or stretches.

        The provider's clock may be another one; but the lifetime began after it was asked for, and before now.
        """
        now = time.monotonic()
        planned = self.plan["lifetime"]
        lifetime = planned.requested if isinstance(planned, Enforcement) else None
        seconds = lifetime if isinstance(lifetime, (int, float)) else self.plan.spec.timeout
        return min(max(now + (self.expires_at - time.time()), self.asked_at + seconds), now + seconds)


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
        fresh = {key: entry for key, entry in self._facts.items() if now - entry[0] < FACTS_LIFE}
        # Replaced, never changed: another thread's loop may be iterating over it.
        self._facts = {**fresh, (id(backend), spec.template): (now, backend, facts)}


_facts = FactsCache()


def plan_offline(calls: PortCalls, spec: SandboxSpec) -> Plan:
    """Plan from declared facts: what this refuses is refused without any traffic."""
    refuse_unbuilt(spec)
    refuse_shown(spec, calls.redactor)
    return _planned(calls, spec, calls.backend.info.baseline)


def _planned(calls: PortCalls, spec: SandboxSpec, facts: Facts) -> Plan:
    with calls.mapped():
        plan = calls.backend.plan(spec, facts)
        check_plan(plan, spec)
        refuse_secrets(plan, calls.redactor)
    return plan


async def plan_probed(calls: PortCalls, spec: SandboxSpec, *, fresh: bool = False) -> Plan:
    """Ask the engine or account what it can do, and plan with that; ``fresh`` trusts no earlier answer."""
    backend = calls.backend
    facts = None if fresh else _facts.get(backend, spec)
    if facts is None:
        facts = await calls.bounded(LOOK_BOUND, lambda: backend.probe(spec))
        _facts.put(backend, spec, facts)
    return _planned(calls, spec, facts)


async def create(calls: PortCalls, spec: SandboxSpec, progress: Progress) -> Opened:
    """Make, attest and open one sandbox; the caller bounds it in time."""
    plan_offline(calls, spec)
    plan = await plan_probed(calls, spec)
    warn_about(plan)
    try:
        return await _make(calls, plan, progress)
    except TransportUnfit as unfit:
        return await _make_again(calls, spec, unfit, progress)


async def _make_again(calls: PortCalls, spec: SandboxSpec, unfit: TransportUnfit, progress: Progress) -> Opened:
    progress(f"{unfit}; trying the other transport")
    # A name of its own: what the first attempt made under the old one may still be in the way of being removed.
    spec = replace(spec, create_id=new_create_id())
    _facts.put(calls.backend, spec, unfit.facts)
    plan = _planned(calls, spec, unfit.facts)
    try:
        return await _make(calls, plan, progress)
    except TransportUnfit as again:
        text = calls.redactor.text(f"{calls.backend.info.name}: no transport fits: {again}")
        hint = "use an image with python3, or with sleep and a shell"
        raise_from(CreationError(text, hint=hint), calls.redactor.cause(again))


async def _make(calls: PortCalls, plan: Plan, progress: Progress) -> Opened:
    backend = calls.backend
    plan = await _prepared(calls, plan, progress)
    asked_at = time.monotonic()
    sandbox_id = await provision(calls, plan)
    session: Session | None = None
    try:
        seen = await _attest(calls, plan, sandbox_id)
        with calls.mapped(CreationError):
            session = await backend.open(sandbox_id, plan)
            if isinstance(session, HoldsSecrets):
                calls.redactor.ask(session.secret_values)
            cwd = str(session.info().get("cwd") or plan.cwd or "/")
    except BaseException:
        with suppress(Warning):  # turned into an error by a filter; the error at hand is not replaced
            await destroy_for_sure(calls, sandbox_id, plan.spec.metadata, session)
        raise
    return Opened(plan, seen, session, cwd, asked_at)


async def _prepared(calls: PortCalls, plan: Plan, progress: Progress) -> Plan:
    """Make the template present; one that was just fetched may refuse what could only be assumed of it before."""
    backend = calls.backend
    if not isinstance(backend, PreparesTemplate):
        return plan
    with calls.mapped(CreationError):
        fetched = await backend.prepare(plan, progress)
    return await plan_probed(calls, plan.spec, fresh=True) if fetched else plan


async def _attest(calls: PortCalls, plan: Plan, sandbox_id: str) -> Observation:
    backend = calls.backend
    try:
        seen = await calls.bounded(LOOK_BOUND, lambda: backend.observe(sandbox_id), CreationError)
    except CreationError:
        raise
    except SandboxError as error:
        raise CreationError(
            f"{backend.info.name} did not say what it applied: {error.message}",
            hint=error.hint or f"check that {backend.info.name} is up and not overloaded",
        ) from error
    with calls.mapped(CreationError):
        return check_observation(plan, backend.info, sandbox_id, seen)
