"""Rows about what is said before a sandbox exists: strengths and sources, plans, caps, features."""

import math
import re
import warnings
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import sandboxio
from sandboxio import (
    Absent,
    Capability,
    CapabilityNotSupported,
    ConfigurationError,
    Enforcement,
    NetworkPolicy,
    PolicyNotEnforced,
    Resources,
    Sandbox,
    SandboxError,
    WeakEnforcementWarning,
)
from sandboxio.planning import ITEMS, Plan
from sandboxio.policy import STRENGTHS

from sandboxio_contract.rows import row
from sandboxio_contract.rows.inside import need_files, need_shell, raises
from sandboxio_contract.rows.refusing import recorded
from sandboxio_contract.target import Target, first_line
from sandboxio_contract.verdict import Finding, Inconclusive, Part, proven, refused, require, summed, violated

CAPS = ("cpu", "memory", "disk")
_FIELDS = {"cpu": 0.5, "memory_mb": 256, "disk_mb": 64, "pids": 64}
_WANTED: Mapping[str, Mapping[str, Any]] = {
    "nothing": {},
    "a small cpu": {"resources": Resources(cpu=0.5)},
    "a small memory": {"resources": Resources(memory_mb=256)},
    "a huge memory": {"resources": Resources(memory_mb=2**31)},
    "a huge cpu": {"resources": Resources(cpu=100_000.0)},
    "a GPU": {"resources": Resources(gpu="A100")},
    "open egress": {"network": NetworkPolicy(egress="allow")},
    "learning": {"network": NetworkPolicy(egress="learn")},
    "an allowlist": {"network": NetworkPolicy(allow=("allowed.test", "198.51.100.0/24"))},
    "ingress": {"network": NetworkPolicy(ingress_ports=(8000,))},
    "the strongest": {"network": NetworkPolicy(min_strength="interface")},
    "labels": {"metadata": {"tenant_id": "a", "long": "x" * 70_000}},
    "many labels": {"metadata": {f"key{number}": "v" for number in range(60)}},
    "a secret": {"secrets": {"TOKEN": "not-a-real-one"}},
    "a day": {"timeout": 86_400.0},
    "a moment": {"timeout": 1.0},
}


def is_dated(source: str) -> bool:
    """Whether a source says where and when: an address, or what was measured on what, and a year with its month."""
    where = "http" in source or "measured" in source or "read" in source
    return where and re.search(r"20\d\d-\d\d", source) is not None


@row("NET-11")
async def strength_is_stated_and_dated(target: Target) -> Finding:
    """Network receipts name layer, residuals and a dated source; a stronger layer than that is refused."""
    plan = await _default_plan(target)
    item = plan["network.egress"]
    if not isinstance(item, Enforcement) or item.strength is None:
        violated(f"the receipt for network.egress states no strength: {item!r}")
    require(is_dated(item.source), f"the receipt for network.egress has no dated source: {item.source!r}")
    parts = [Part("receipt", "proven", f"{item.strength}, {len(item.residuals)} residuals; {item.source}")]
    async with recorded(target) as asking:
        for strength in STRENGTHS[: STRENGTHS.index(item.strength)]:
            policy = NetworkPolicy(min_strength=strength)
            parts.append(await asking.refuses(f"min_strength={strength}", CapabilityNotSupported, network=policy))
    for strength in STRENGTHS[STRENGTHS.index(item.strength) :]:
        await sandboxio.plan(target.dsn, network=NetworkPolicy(min_strength=strength))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        async with target.sandbox() as sb:
            held = next(one for one in sb.policy if one.policy == "network.egress")
    told = any(issubclass(one.category, WeakEnforcementWarning) for one in caught)
    named = isinstance(held, Enforcement) and bool(held.residuals)
    require(told == named, f"a deny {'with' if named else 'without'} a residual {'warns' if told else 'does not warn'}")
    parts.append(Part("warning", "proven", "given for the residual" if named else "none, as there is no residual"))
    return summed(parts)


@row("NET-11", world=True)
async def the_interface_layer_is_seen_inside(target: Target) -> Finding:
    """A deny that claims to hold at the interface leaves a sandbox with no interface but its loopback."""
    async with target.sandbox() as sb:
        item = next(one for one in sb.policy if one.policy == "network.egress")
        if not isinstance(item, Enforcement) or item.strength != "interface":
            return Finding(
                "not applicable", "the receipt claims another layer; NET-02's probe judges what it lets through"
            )
        try:
            table = (await sb.files.read("/proc/net/dev")).decode()
        except SandboxError as error:
            raise Inconclusive(f"the interfaces can't be read: {error.message}") from error
    names = [line.split(":")[0].strip() for line in table.splitlines() if ":" in line]
    require(names == ["lo"], f"the receipt claims the interface layer, and inside there are {', '.join(names)}")
    return proven("inside there is no interface but lo")


@row("CAP-06")
async def caps_of_a_template_are_refused_as_such(target: Target) -> Finding:
    """Where caps belong to the template, a caller's are refused, and the error names it."""
    info = await target.info()
    if info.resource_caps_supported:
        return Finding("not applicable", "caps are the sandbox's own here: CAP-02 judges them")
    parts: list[Part] = []
    async with recorded(target) as asking:
        for field, value in _FIELDS.items():
            given = Resources(**{field: value})  # type: ignore[arg-type]
            parts.append(await asking.refuses(field, ConfigurationError, no_call=True, resources=given))
    error = await raises(ConfigurationError, sandboxio.plan(target.dsn, resources=Resources(cpu=0.5)), "cpu=0.5")
    require("template" in str(error), f"the error does not name the template: {first_line(error)}")
    plan = await _default_plan(target)
    parts += [_capped(plan[policy], by=("template",)) for policy in CAPS]
    return summed(parts)


@row("CAP-07", world=True)
async def a_sandbox_without_caps_is_not_made(target: Target) -> Finding:
    """Every sandbox that is made has its caps, and the provider holds what the receipts say."""
    try:
        async with target.create() as sb:
            receipts = {one.policy: one for one in sb.policy}
            held = await target.look(target.ground.caps, sb.id)
    except (PolicyNotEnforced, CapabilityNotSupported) as error:
        return refused(f"a sandbox without caps is not made: {first_line(error)}")
    parts = [_capped(receipts[policy]) for policy in (*CAPS, "memory.swap")]
    for policy, value in held.items():
        item = receipts[policy]
        same = isinstance(item, Enforcement) and item.requested == value
        said = item.requested if isinstance(item, Enforcement) else "absent"
        parts.append(Part(f"{policy} held", "proven" if same else "violated", f"held {value:g}, receipt {said}"))
    return summed(parts)


@row("PLAN-01", within=120)
async def a_plan_is_complete_and_kept(target: Target) -> Finding:
    """Any specification gives a complete plan or a mapped error; asking refuses no less, and `create` keeps the plan."""
    refusals = 0
    async with recorded(target) as asking:
        for name, options in _WANTED.items():
            offline = await _planned(asking.dsn, name, False, options)
            made = asking.calls()
            require(not made, f"plan() of {name} without probe=True asked the provider: {', '.join(map(str, made))}")
            refusals += offline is None
        for name, options in _WANTED.items():
            offline = await _planned(asking.dsn, name, False, options)
            probed = await _planned(asking.dsn, name, True, options)
            require(offline is not None or probed is None, f"{name} is refused offline and accepted when asked")
        changed = [str(one) for one in asking.calls() if one.changes]
        require(not changed, f"planning changed something: {', '.join(changed[:4])}")
    for options in ({}, {"resources": Resources(memory_mb=256)}):
        await _kept(target, options)
    return proven(f"{len(_WANTED)} specifications: {refusals} refused offline, the rest planned whole; two were kept")


@row("CAPA-01", within=90)
async def features_are_declared_truly(target: Target) -> Finding:
    """Each declared feature works when it is used, and what is not declared is refused or not there to be called."""
    declared, feature = (await target.info()).features, Capability
    parts: list[Part] = []
    async with target.sandbox() as sb:
        uses: dict[Capability, Callable[[], Awaitable[object]]] = {
            feature.RUN_COMMAND: lambda: sb.run(["true"]),
            feature.RUN_CODE: lambda: _ran(sb),
            feature.STREAMING: lambda: _streamed(sb),
            feature.FILESYSTEM: lambda: _filed(sb),
            feature.UPLOAD_DOWNLOAD: lambda: _listed(sb),
            feature.STATEFUL_CODE: lambda: sb.run_code("1", context=object()),
        }
        for one, use in uses.items():
            name = str(one.name)
            if one in declared:
                parts.append(await _works(name, use))
            elif one is feature.STATEFUL_CODE:
                await raises(CapabilityNotSupported, use(), f"{name}, which is not declared,")
                parts.append(Part(name, "refused", "not declared"))
        for name in ("pause", "resume", "snapshot", "fork", "pty", "lsp", "git", "tunnel", "cost"):
            require(not hasattr(sb, name), f"a sandbox has {name}, which no row judges")
    async with recorded(target) as asking:
        wanted: dict[str, Any] = {}
        if feature.GPU not in declared:
            wanted["GPU"] = {"resources": Resources(gpu="A100")}
        if feature.TUNNELS not in declared:
            wanted["TUNNELS"] = {"network": NetworkPolicy(ingress_ports=(8000,))}
        for name, options in wanted.items():
            parts.append(await asking.refuses(name, CapabilityNotSupported, **options))
    return summed(parts)


async def _default_plan(target: Target) -> Plan:
    try:
        return await sandboxio.plan(target.dsn)
    except (CapabilityNotSupported, ConfigurationError) as error:
        raise Inconclusive(f"the default sandbox is refused: {first_line(error)}") from error


def _capped(item: object, by: tuple[str, ...] = ()) -> Part:
    assert isinstance(item, (Enforcement, Absent))
    if isinstance(item, Absent):
        return Part(item.policy, "violated", f"absent: {item.reason}")
    value = item.requested
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf
    concrete = number and (value != 0 or item.policy == "memory.swap") and bool(item.mechanism)
    right = concrete and (not by or item.enforced_by in by)
    return Part(item.policy, "proven" if right else "violated", f"{value!r} by {item.enforced_by}: {item.mechanism}")


async def _planned(dsn: str, name: str, probe: bool, options: Mapping[str, Any]) -> Plan | None:
    """Return a plan that was found whole, ``None`` for a refusal."""
    try:
        plan = await sandboxio.plan(dsn, probe=probe, **options)
    except SandboxError as error:
        _explained(name, error)
        return None
    policies = [item.policy for item in plan.items]
    require(sorted(policies) == sorted(ITEMS), f"the plan of {name} has the receipts {', '.join(policies)}")
    return plan


def _explained(name: str, error: SandboxError) -> None:
    good = re.fullmatch(r"SBX_E\d{4}", error.code) and error.message and error.hint
    require(good, f"{name} is refused without a code, a reason or a fix: {str(error)!r}")


async def _kept(target: Target, options: Mapping[str, Any]) -> None:
    try:
        plan = await sandboxio.plan(target.dsn, probe=True, **options)
    except (CapabilityNotSupported, ConfigurationError):
        return
    async with target.sandbox(**options) as sb:
        held = {item.policy: item for item in sb.policy}
        for item in plan.items:
            if item.policy in ("labels", "lifetime"):
                continue  # the run's mark and its lifetime are other arguments
            kept = held.get(item.policy)
            same = isinstance(item, Absent) or (isinstance(kept, Enforcement) and kept.requested == item.requested)
            require(same, f"{item.policy} was planned as {item!r}, and the sandbox has {kept!r}")


async def _works(name: str, use: Callable[[], Awaitable[object]]) -> Part:
    try:
        await use()
    except Inconclusive as reason:
        return Part(name, "not-provable", str(reason))
    return Part(name, "proven", "works")


async def _ran(sb: Sandbox) -> None:
    await need_shell(sb)
    result = await sb.run_code("echo works", language="shell")
    require(result.stdout == "works\n", f"declared RUN_CODE gave {result!r}")


async def _streamed(sb: Sandbox) -> None:
    async with sb.stream(["echo", "works"]) as proc:
        seen = b"".join([chunk.data async for chunk in proc])
    require(seen == b"works\n", f"declared STREAMING gave {seen!r}")


async def _listed(sb: Sandbox) -> None:
    await need_files(sb)
    await sb.files.ls(".")


async def _filed(sb: Sandbox) -> None:
    await need_files(sb)
    await sb.files.write("feature", b"works")
    require(await sb.files.read("feature") == b"works", "declared FILESYSTEM gives another content")
