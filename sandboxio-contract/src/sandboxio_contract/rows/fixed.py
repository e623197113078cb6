"""Rows about what a policy lets through, and that it stays what it was."""

import inspect
from contextlib import ExitStack

import sandboxio
from sandboxio import CapabilityNotSupported, NetworkPolicy, Sandbox

from sandboxio_contract.ground import NetworkGround, Spied
from sandboxio_contract.network.checks import Checks
from sandboxio_contract.network.tokens import HELLO
from sandboxio_contract.network.verdict import judge
from sandboxio_contract.rows import row
from sandboxio_contract.rows.inside import has_python, need_shell
from sandboxio_contract.rows.network import probed
from sandboxio_contract.rows.refusing import recorded
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, Inconclusive, Part, proven, require, summed

LISTED = ("tcp4-80", "tcp4-443")
UNLISTED = ("metadata", "dns4-public", "gateway", "tcp6-80", "udp6")
NAMES = ("allowed.example", "*.wild.example")
HOSTS, OTHER_HOSTS = (
    ("allowed.example", "a.wild.example"),
    ("other.example", "wild.example", "allowed.example.other.example"),
)
_ASK = """
import socket, sys
address, hello, name = sys.argv[1:]
try:
    one = socket.create_connection((address, 80), 3)
    one.settimeout(3)
    one.sendall(f"GET / HTTP/1.1\\r\\nHost: {name}\\r\\nX-Hello: {hello}\\n\\r\\n".encode())
    print(one.recv(200).decode("ascii", "replace").removeprefix("SBXN "))
except OSError as error:
    print(error)
"""
_FORMS = {"a host name": "allowed.test", "a wildcard": "*.allowed.test", "a CIDR": "198.51.100.0/24"}


@row("NET-04", within=120, world=True)
async def an_allowlist_lets_nothing_else_through(target: Target) -> Finding:
    """Each form of entry is refused; where an address is accepted, it alone is reached, and the rest answers a control."""
    try:
        await sandboxio.plan(target.dsn, network=NetworkPolicy(allow=("198.51.100.7",)), probe=True)
    except CapabilityNotSupported:
        pass
    else:
        parts = await _only_the_listed(target)
        try:
            parts += await _only_the_named(target)
        except Inconclusive as reason:
            parts.append(Part("host names", "not-provable", str(reason)))
        return summed(parts)
    async with recorded(target) as asking:
        forms = {"an address": "198.51.100.7", **_FORMS}
        return summed(
            [
                await asking.refuses(name, CapabilityNotSupported, offered=True, network=NetworkPolicy(allow=(entry,)))
                for name, entry in forms.items()
            ]
        )


@row("NET-09", within=120, world=True)
async def the_policy_is_the_same_from_beginning_to_end(target: Target) -> Finding:
    """Neither caller nor adapter changes what a sandbox may reach: not before its first command, not after its last."""
    takes = [name for name, member in inspect.getmembers(Sandbox, callable) if _takes_policy(name, member)]
    require(not takes, f"a sandbox's network policy can be changed by {', '.join(takes)}")
    with ExitStack() as stack:
        spied = stack.enter_context(target.ground.spied())
        async with target.create(dsn=spied.dsn) as sb:
            first = await target.look(target.ground.networking, sb.id)
            receipts = sb.policy
            await need_shell(sb)
            await sb.files.write("x", b"x")
            await sb.run("echo installed", timeout=30)
            last = await target.look(target.ground.networking, sb.id)
            require(sb.policy == receipts, "the receipts changed while the sandbox lived")
        _nothing_altered(spied)
    require(first == last, f"the provider's description of its network changed from {first} to {last}")
    return proven("no call changed what the sandbox may reach, and the provider describes its network as at first")


def _nothing_altered(spied: Spied) -> None:
    calls = spied.wire.calls
    require(any(spied.creates(call) for call in calls), "the recorder did not even see the creation")
    altering = [str(call) for call in calls if spied.alters(call)]
    require(not altering, f"what the sandbox may reach was changed by {', '.join(altering[:4])}")


def _takes_policy(name: str, member: object) -> bool:
    if name.startswith("_") or not callable(member):
        return False
    return any("NetworkPolicy" in str(one.annotation) for one in inspect.signature(member).parameters.values())


async def _only_the_listed(target: Target) -> list[Part]:
    network = await target.look(target.ground.network)
    known = await target.look(network.checks)
    address = next(one.addresses[0] for one in known if one.name == LISTED[0])
    async with target.sandbox(network=NetworkPolicy(allow=(address,))) as sb:
        parts = await _listed(target, network, sb)
        parts += await _unlisted(target, network, sb)
    return parts


async def _only_the_named(target: Target) -> list[Part]:
    """Ask one server under several host names: whoever filters by name goes by what the connection says."""
    try:
        await sandboxio.plan(target.dsn, network=NetworkPolicy(allow=NAMES), probe=True)
    except CapabilityNotSupported as error:
        return [Part("host names", "refused", error.message)]
    network = await target.look(target.ground.network)
    checks = await target.look(network.checks, only=(LISTED[0],))
    check = next(iter(checks))
    async with target.sandbox(network=NetworkPolicy(allow=NAMES)) as sb:
        if not await has_python(sb):
            return [Part("host names", "not-provable", "the image has no Python to name a host with")]
        answers = {name: await _answer(sb, check.addresses[0], checks.token, name) for name in (*HOSTS, *OTHER_HOSTS)}
    true = checks.expected(check)
    parts = [Part(f"named {one}", "proven" if answers[one] == true else "violated", answers[one]) for one in HOSTS]
    return parts + [
        Part(f"not named {one}", "violated" if true in answers[one] else "proven", answers[one] or "nothing came back")
        for one in OTHER_HOSTS
    ]


async def _answer(sb: Sandbox, address: str, token: str, name: str) -> str:
    asked = await sb.run(["python3", "-c", _ASK, address, f"{HELLO.decode()}{token}.{LISTED[0]}", name], timeout=20)
    return asked.stdout.strip()


async def _listed(target: Target, network: NetworkGround, sb: Sandbox) -> list[Part]:
    checks = await target.look(network.checks, only=LISTED)
    outcome = await probed(target, network, sb, checks)
    reached = {one.name: outcome.status(one.name) for one in checks}
    return [
        Part(f"listed {name}", "proven" if status == "reached" else "violated", status)
        for name, status in reached.items()
    ]


async def _unlisted(target: Target, network: NetworkGround, sb: Sandbox) -> list[Part]:
    checks: Checks = await target.look(network.checks, only=UNLISTED)
    outcome = await probed(target, network, sb, checks)
    control = await target.look(network.control, checks)
    if not checks.items:
        raise Inconclusive("there is no second address that an allowlist could be proven with")
    verdicts = judge(checks, outcome, control, await target.look(network.witness))
    return [Part(f"unlisted {name}", one.status, one.evidence) for name, one in verdicts.items()]
