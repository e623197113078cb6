"""Rows about what reaches what: a probe inside, canaries outside, and a control for each denial."""

import secrets
from dataclasses import replace

import sandboxio
from sandboxio import CapabilityNotSupported, Enforcement, NetworkPolicy, Sandbox, SandboxError

from sandboxio_contract.ground import NetworkGround
from sandboxio_contract.network.checks import Checks, probe_command
from sandboxio_contract.network.outcome import Outcome, Result, parse_probe
from sandboxio_contract.network.verdict import Verdict, judge
from sandboxio_contract.rows import row
from sandboxio_contract.rows.inside import left_over
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, Part, Status, Violated, summed

LATER = ("tcp4-80", "tcp6-80", "udp4", "dns4-udp", "gateway")
"""The checks that are tried once more two seconds later and from another command."""
OUTSIDE = ("tcp4-80", "tcp4-443", "udp4", "dns4-udp", "dns-lookup")
"""What a sandbox with egress="allow" must reach; not every backend that allows has IPv6."""
_TOPICS = ("vsock", "dns", "gateway", "metadata", "unix", "icmp", "host", "neighbour")


@row("NET-02", within=120, world=True)
async def deny_denies(target: Target) -> Finding:
    """Nothing of the canaries, the host or a neighbour is reached from a sandbox that was made by default (NET-01, NET-02, NET-06)."""
    network = await target.look(target.ground.network)
    neighbour = await target.look(network.neighbour)
    async with target.sandbox() as sb:
        residuals = _residuals(sb)
        now = await target.look(network.checks, neighbour=neighbour)
        verdicts = await _judged(target, network, sb, now)
        later = await target.look(network.checks, late=True, only=LATER)
        for name, verdict in (await _judged(target, network, sb, later)).items():
            verdicts[f"{name} later"] = verdict
    return summed(_part(name, verdict, residuals) for name, verdict in verdicts.items())


@row("NET-03", within=120, world=True)
async def each_denial_has_its_control(target: Target) -> Finding:
    """The reference reaches every target of the probe, and so does a sandbox that may where the backend offers one."""
    network = await target.look(target.ground.network)
    neighbour = await target.look(network.neighbour)
    checks = await target.look(network.checks, neighbour=neighbour)
    reached = await target.look(network.control, checks)
    parts = [_control(f"reference {one.name}", one.kind, reached, one.name) for one in checks]
    parts += [Part(f"reference {name}", "not-provable", reason) for name, reason in checks.missing.items()]
    try:
        await sandboxio.plan(target.dsn, network=NetworkPolicy(egress="allow"), probe=True)
    except CapabilityNotSupported:
        return summed(parts)
    async with target.sandbox(network=NetworkPolicy(egress="allow")) as sb:
        checks = await target.look(network.checks, only=OUTSIDE)
        outcome = await probed(target, network, sb, checks)
    parts += [_control(f"allowed {one.name}", one.kind, outcome, one.name) for one in checks]
    return summed(parts)


@row("NET-13", within=120, world=True)
async def allow_opens_no_neighbour(target: Target) -> Finding:
    """Two sandboxes that may reach the outside don't reach each other, and leave no network behind."""
    allow = NetworkPolicy(egress="allow")
    try:
        await sandboxio.plan(target.dsn, network=allow, probe=True)
    except CapabilityNotSupported as error:
        return Finding("refused", f'egress="allow" is refused: {error.message}')
    network = await target.look(target.ground.network)
    mark = {"row": f"neighbours-{secrets.token_hex(4)}"}
    async with target.sandbox(network=allow, metadata=mark) as one, target.sandbox(network=allow, metadata=mark) as two:
        parts = await _neighbours(target, network, one, two)
    left = await left_over(target, mark, within=10)
    kept = "; ".join(str(item) for item in left)
    parts.append(Part("nothing left", "violated" if left else "proven", kept or "networks went with their sandboxes"))
    return summed(parts)


async def _neighbours(target: Target, network: NetworkGround, one: Sandbox, two: Sandbox) -> list[Part]:
    address = await target.look(target.ground.address, two.id)
    listener = await target.look(network.listen_beside, two.id, address)
    checks = await target.look(network.checks, neighbour=listener, only=("neighbour",))
    # The control is the listener's own sandbox: it shows that listener and address are alive at this moment.
    control = await probed(target, network, two, checks.renewed())
    outcome = await probed(target, network, one, checks)
    verdict = judge(checks, outcome, control, await target.look(network.witness))["neighbour"]
    outside = await target.look(network.checks, only=("tcp4-80",))
    works = await probed(target, network, one, outside)
    return [
        Part("neighbour", verdict.status, verdict.evidence),
        _control("the same probe reaches the outside", "tcp", works, "tcp4-80"),
    ]


async def _judged(target: Target, network: NetworkGround, sb: Sandbox, checks: Checks) -> dict[str, Verdict]:
    outcome = await _inside(sb, checks)
    witness = await target.look(network.witness)
    control = await target.look(network.control, checks)
    verdicts = judge(checks, outcome, control, witness)
    if not outcome.complete:
        beside = await target.look(network.beside, sb.id, checks)
        beside = await _with_paths(sb, checks, beside)
        verdicts = judge(checks, beside, control, await target.look(network.witness))
    if outcome.engine_sockets:
        verdicts["engine sockets"] = Verdict("violated", f"open inside: {', '.join(outcome.engine_sockets)}")
    return verdicts


async def probed(target: Target, network: NetworkGround, sb: Sandbox, checks: Checks) -> Outcome:
    """Run the checks inside, or beside the sandbox where the image has no tool for them."""
    outcome = await _inside(sb, checks)
    return outcome if outcome.complete else await target.look(network.beside, sb.id, checks)


async def _with_paths(sb: Sandbox, checks: Checks, beside: Outcome) -> Outcome:
    """Add what a probe beside the sandbox can't see: whether a host's socket by path exists for its commands."""
    paths = {one.name: one.addresses[0] for one in checks if one.kind == "unix" and one.addresses[0].startswith("/")}
    try:
        absent = {
            name: Result("unreachable", "no such path inside")
            for name, path in paths.items()
            if not await sb.files.exists(path)
        }
    except SandboxError:
        return beside
    return replace(beside, results={**beside.results, **absent})


async def _inside(sb: Sandbox, checks: Checks) -> Outcome:
    argv, source = probe_command(checks)
    result = await sb.run(list(argv), stdin=source, timeout=checks.seconds() + 5)
    return parse_probe(checks, result.exit_code, result.stdout_bytes)


def _residuals(sb: Sandbox) -> tuple[str, ...]:
    for item in sb.policy:
        if item.policy == "network.egress":
            if not isinstance(item, Enforcement) or item.requested != "deny":
                raise Violated(f"the default sandbox's receipt is {item!r}")
            return item.residuals
    raise Violated("the sandbox has no receipt for network.egress")


def _part(name: str, verdict: Verdict, residuals: tuple[str, ...]) -> Part:
    topic = next((one for one in _TOPICS if one in name), name)
    named = next((text for text in residuals if topic in text.lower()), None)
    status: Status = verdict.status
    # Also where it could not be told: what the backend itself says is open needs no proof.
    if named and status != "proven":
        return Part(name, "proven with residual", f"the receipt says: {named}")
    return Part(name, status, verdict.evidence)


def _control(name: str, kind: str, outcome: Outcome, check: str) -> Part:
    status = outcome.status(check)
    wanted = "answered" if kind == "vsock" else "reached"
    if status == wanted:
        return Part(name, "proven", status)
    return Part(
        name, "not-provable", f"{status}: {outcome.results[check].detail}" if check in outcome.results else status
    )
