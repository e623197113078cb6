"""From a spec and facts to what is sent to E2B; pure."""

import math
from collections.abc import Mapping
from ipaddress import ip_network
from typing import Any, cast

from sandboxio.errors import CapabilityNotSupported, ConfigurationError
from sandboxio.exec_session import check_names
from sandboxio.isolation import IsolationTier
from sandboxio.planning import Plan
from sandboxio.port import Facts
from sandboxio.spec import SandboxSpec

from sandboxio_e2b.config import DEFAULT_TEMPLATE, E2BConfig
from sandboxio_e2b.info import INFO
from sandboxio_e2b.receipts import receipts

ALL = "0.0.0.0/0"
OURS = "sandboxio_"
MANAGED, CREATE_ID = f"{OURS}managed", f"{OURS}create"
"""The metadata by which our sandboxes, and each of them, are found."""


def make_plan(spec: SandboxSpec, facts: Facts) -> Plan:
    """Translate ``spec``; see `sandboxio.port.Backend.plan`."""
    _refuse(spec, facts)
    template = cast("Mapping[str, Any]", facts.values["template"])
    lifetime = math.ceil(spec.timeout)
    tier = INFO.tier if cast("E2BConfig", spec.config).is_own_server else IsolationTier.UNKNOWN
    return Plan(
        spec, _parameters(spec, lifetime), receipts(spec, template, lifetime, tier), tier, facts.assumed, "/home/user"
    )


def _parameters(spec: SandboxSpec, lifetime: int) -> Mapping[str, object]:
    """Return what `AsyncSandbox.create` is given. Every default that is unsafe, or may become so, is said.

    Secrets and variables are not among it: they go with each command.
    """
    return {
        "template": spec.template or DEFAULT_TEMPLATE,
        "timeout": lifetime,
        "metadata": {**spec.metadata, MANAGED: "true", CREATE_ID: spec.create_id},
        "lifecycle": {"on_timeout": "kill", "auto_resume": False},
        # The SDK asks again where an answer is an error: then it is the same sandbox.
        "idempotency_key": spec.create_id,
        **egress(spec),
    }


def egress(spec: SandboxSpec) -> Mapping[str, object]:
    """Return the parameters of the network: nobody comes in, and out goes what the policy says."""
    network: dict[str, object] = {"allow_public_traffic": False}
    if spec.network.egress == "allow":
        return {"allow_internet_access": True, "network": network}
    network["deny_out"] = [ALL]
    if spec.network.allow:
        # Without the denial of all else an allowlist allows everything.
        return {"network": {**network, "allow_out": list(spec.network.allow)}}
    return {"allow_internet_access": False, "network": network}


def _refuse(spec: SandboxSpec, facts: Facts) -> None:
    template = spec.template or DEFAULT_TEMPLATE
    if spec.network.ingress_ports:
        raise CapabilityNotSupported("ingress_ports is not offered on E2B yet", hint="leave it empty", why="not_yet")
    for entry in spec.network.allow:
        _refuse_entry(entry)
    if spec.resources.gpu is not None:
        raise CapabilityNotSupported("E2B has no GPUs", hint="leave gpu unset")
    if not spec.resources.is_default:
        raise ConfigurationError(
            f"on E2B caps belong to the template: {template} has its own, and a sandbox can't have others",
            hint="leave resources= out, or build a template of the size that is needed and name it in template=",
        )
    most = facts.maxima.get("lifetime", math.inf)
    if spec.timeout > most:
        raise ConfigurationError(f"timeout={spec.timeout:g} is over {most:g} s", hint=f"pass at most {most:g}")
    for key, value in spec.metadata.items():
        if key.startswith(OURS) or not key:
            raise ConfigurationError(f"a metadata key may not be empty or begin with {OURS}", hint="choose another")
        if not (key + value).isprintable() and any(ord(one) < 32 for one in key + value):
            raise ConfigurationError(
                "E2B's API is not known to keep control characters in metadata", hint="leave them out"
            )
        if any("\ud800" <= one <= "\udfff" for one in key + value):
            raise ConfigurationError("metadata has to be text", hint="leave out what is no text")
    check_names([*spec.env, *spec.secrets])


def _refuse_entry(entry: str) -> None:
    try:
        network = ip_network(entry)
    except ValueError:
        return  # a name: matched by Host header and TLS server name
    if network.version != 4:
        raise CapabilityNotSupported(
            f"E2B filters IPv4 only, so {entry} can't be allowed", hint="name the host, or its IPv4 address"
        )
    if _never(entry):
        raise CapabilityNotSupported(
            f"E2B never lets a sandbox reach {entry}: private and link-local ranges are denied whatever is allowed",
            hint="expose the service at a public address",
        )


def _never(entry: str) -> bool:
    wanted = ip_network(entry)
    return any(wanted.overlaps(ip_network(one)) for one in NEVER)


NEVER = ("10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16")
"""What E2B denies in any case (server source of 2026-08)."""
