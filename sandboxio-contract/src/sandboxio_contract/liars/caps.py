"""Liars on the real Docker adapter about caps and hardening: they stand in the receipt, and not where they would hold."""

from dataclasses import replace
from typing import Any

from sandboxio.planning import Plan
from sandboxio.port import Command, Exit, ProcessDriver, Session

from sandboxio_contract.liars.dockers import Adapter, Lying, as_planned, sending

SEVEN = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")


class _Soft(Lying):
    """Hardens less than it was asked to, and looks away."""

    async def open(self, sandbox_id: str, plan: Plan | None = None) -> Session:
        if plan is not None:
            config: Any = plan.spec.config
            seen = {"user": None, "read_only": False, "capabilities": SEVEN if config.capabilities else ()}
            plan = replace(plan, spec=replace(plan.spec, config=config.replace(**seen)))
        return await super().open(sandbox_id, plan)


class _Unlooked(Lying):
    """Has nobody look for files that were deleted and are still open."""

    async def open(self, sandbox_id: str, plan: Plan | None = None) -> Session:
        return await super().open(sandbox_id, plan and _unwatched(plan))


class _Shrugs(Lying):
    """Does not say that a cap ended a command."""

    async def open(self, sandbox_id: str, plan: Plan | None = None) -> Session:
        session: Any = await super().open(sandbox_id, plan)
        start = session.start

        async def started(command: Command) -> ProcessDriver:
            return _Silent(await start(command))

        session.start = started
        return session  # type: ignore[no-any-return]


class _Silent:
    def __init__(self, inner: ProcessDriver) -> None:
        self.receive, self.send, self.close_stdin, self.kill = inner.receive, inner.send, inner.close_stdin, inner.kill
        self._inner = inner

    async def wait(self) -> Exit:
        return replace(await self._inner.wait(), limit=None)


def _swaps(plan: Plan) -> Plan:
    return sending(plan, {"MemorySwap": -1})


def _forgetful(plan: Plan) -> Plan:
    return sending(plan, {"Memory": 0, "MemorySwap": 0})


def _forks(plan: Plan) -> Plan:
    return sending(plan, {"PidsLimit": 0})


def _uncapped(plan: Plan) -> Plan:
    return sending(plan, {"NanoCpus": 0})


def _unwatched(plan: Plan) -> Plan:
    return replace(plan, parameters={**plan.parameters, "watch_disk_bytes": None})


def _unbounded(plan: Plan) -> Plan:
    return sending(_unwatched(plan), {"Ulimits": [], "StorageOpt": {}})


def _generous(plan: Plan) -> Plan:
    container: Any = plan.parameters["container"]
    return sending(plan, {"CapAdd": list(SEVEN)}) if "CapAdd" in container["HostConfig"] else plan


def _writable(plan: Plan) -> Plan:
    return sending(plan, {"ReadonlyRootfs": False, "Tmpfs": {}})


def _rooted(plan: Plan) -> Plan:
    return sending(plan, {}, User="")


def _unconfined(plan: Plan) -> Plan:
    return sending(plan, {"SecurityOpt": ["no-new-privileges:true", "seccomp=unconfined"]})


liar_unconfined = Adapter("liar-unconfined", _unconfined)
liar_shrugs = Adapter("liar-shrugs", as_planned, _Shrugs)
liar_uncapped = Adapter("liar-uncapped", _uncapped)
liar_unmeasured = Adapter("liar-unmeasured", _unwatched)
liar_unbounded = Adapter("liar-unbounded", _unbounded)
liar_unlooked = Adapter("liar-unlooked", as_planned, _Unlooked)
liar_swaps = Adapter("liar-swaps", _swaps)
liar_forgetful = Adapter("liar-forgetful", _forgetful)
liar_forks = Adapter("liar-forks", _forks)
liar_generous = Adapter("liar-generous", _generous, _Soft)
liar_writable = Adapter("liar-writable", _writable, _Soft)
liar_rooted = Adapter("liar-rooted", _rooted, _Soft)
