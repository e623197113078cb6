"""The receipt of each policy item: what holds it, how that is known, and what stays possible."""

from collections.abc import Mapping
from ipaddress import ip_network
from typing import Any

from sandboxio.isolation import IsolationTier
from sandboxio.planning import Absent, Enforcement, Receipt
from sandboxio.policy import NetworkPolicy
from sandboxio.spec import SandboxSpec

from sandboxio_e2b.config import DEFAULT_TEMPLATE

NETWORK = "https://e2b.dev/docs/sandbox/internet-access (read 2026-11); server source https://github.com/e2b-dev/infra at 54693ff, 2026-08"
API = "https://e2b.dev/docs/sandbox (read 2026-11), SDK 2.63"
VSOCK = "vsock sockets, which lead to the virtual machine's monitor and past every network filter, are not documented to be closed"
METADATA = (
    "whether the virtual machine's monitor itself answers at the metadata address 169.254.169.254 is not documented"
)
PLAIN = (
    "host names are matched by Host header on port 80 and by TLS server name on port 443: what another server answers to that name is reached, too",
)
RESOLVER = "a host name opens the DNS resolver 8.8.8.8 to everything, so that data can leave in questions"


def receipts(spec: SandboxSpec, template: Mapping[str, Any], lifetime: int, tier: IsolationTier) -> tuple[Receipt, ...]:
    """Answer every policy item."""
    return (
        egress(spec.network),
        allow(spec.network),
        Absent("network.ingress", "public traffic is turned off (allow_public_traffic=False)"),
        _of_template(spec, "cpu", template["cpu"]),
        _of_template(spec, "memory", template["memory_mb"]),
        Enforcement(
            "memory.swap",
            0,
            "the virtual machine has the template's memory; no swap beside it is documented",
            "template",
            "unverified",
            source=API,
        ),
        Absent("pids", "E2B has no ceiling on processes: the virtual machine bounds what they take"),
        _of_template(spec, "disk", template["disk_mb"]),
        Absent("gpu", "no GPU was asked for, and there are none"),
        Enforcement(
            "lifetime",
            lifetime,
            "timeout= of the creation, on_timeout=kill: the provider ends it, whatever its owner does",
            "provider",
            "attested",
            source=API,
        ),
        Enforcement("labels", dict(spec.metadata), "metadata of the sandbox", "provider", "attested", source=API),
        _secrets(spec),
        _isolation(tier),
    )


def egress(network: NetworkPolicy) -> Enforcement:
    """Say how the network is held."""
    if network.egress == "allow":
        mechanism = "allow_internet_access=True; private and link-local ranges stay denied"
        return _network("network.egress", "allow", mechanism, (METADATA,))
    mechanism = "deny_out 0.0.0.0/0, filtered outside the virtual machine" + (
        "" if network.allow else ", and allow_internet_access=False"
    )
    return _network("network.egress", "deny", mechanism, (VSOCK, METADATA))


def allow(network: NetworkPolicy) -> Receipt:
    """Say how an allowlist is held."""
    if not network.allow:
        return Absent("network.allow", "no allowlist was asked for")
    named = [entry for entry in network.allow if not _is_network(entry)]
    receipt = _network("network.allow", network.allow, "allow_out beside deny_out 0.0.0.0/0", ())
    if not named:
        return receipt
    residuals = (*PLAIN, RESOLVER)
    return Enforcement(
        "network.allow", network.allow, receipt.mechanism, "provider", "attested", "sni", residuals, NETWORK
    )


def _network(policy: str, requested: object, mechanism: str, residuals: tuple[str, ...]) -> Enforcement:
    return Enforcement(policy, requested, mechanism, "provider", "attested", "address", residuals, NETWORK)


def _of_template(spec: SandboxSpec, policy: str, value: float) -> Enforcement:
    name = spec.template or DEFAULT_TEMPLATE
    return Enforcement(policy, value, f"the size of the template {name}", "template", "attested", source=API)


def _secrets(spec: SandboxSpec) -> Receipt:
    if not spec.secrets:
        return Absent("secrets", "none were given")
    mechanism = "environment of each command; whoever has the sandbox's own token can list it while the command runs"
    names = tuple(sorted(spec.secrets))
    return Enforcement("secrets", names, mechanism, "sandboxio", "documented", source=API)


def _isolation(tier: IsolationTier) -> Enforcement:
    if tier is IsolationTier.UNKNOWN:
        text = "another server that speaks E2B's protocol: nothing is known of its isolation"
        return Enforcement("isolation", tier.value, text, "provider", "unverified", source=API)
    source = "https://github.com/e2b-dev/infra docs/ARCHITECTURE.md at 54693ff, 2026-08"
    return Enforcement(
        "isolation", tier.value, "a Firecracker virtual machine", "provider", "documented", source=source
    )


def _is_network(entry: str) -> bool:
    try:
        ip_network(entry)
    except ValueError:
        return False
    return True
