"""From a spec and facts to what bwrap is told; pure."""

from collections.abc import Mapping
from ipaddress import ip_network
from typing import Any

from sandboxio.errors import BackendUnavailable, CapabilityNotSupported, ConfigurationError
from sandboxio.planning import Plan
from sandboxio.port import Facts
from sandboxio.spec import SandboxSpec

from sandboxio_bubblewrap import syscalls
from sandboxio_bubblewrap.caps import MESSAGE_QUEUES, OPEN_FILES, QUEUED_SIGNALS, resolve
from sandboxio_bubblewrap.cgroups import Homeless, groups_of
from sandboxio_bubblewrap.config import BubblewrapConfig
from sandboxio_bubblewrap.facts import Machine, machine_of
from sandboxio_bubblewrap.info import INFO
from sandboxio_bubblewrap.receipts import receipts
from sandboxio_bubblewrap.rootfs import WORK

MAX_META = 256 * 1024
"""Bytes of all metadata together: each look at the sandboxes of a user reads all of them."""


def make_plan(spec: SandboxSpec, facts: Facts) -> Plan:
    """Translate ``spec``; see `sandboxio.port.Backend.plan`."""
    machine = machine_of(facts)
    _refuse_machine(machine)
    _refuse_policies(spec)
    _refuse_link(spec, machine)
    _check_metadata(spec.metadata)
    _refuse_lifetime(spec, facts)
    caps = resolve(spec.resources, facts.maxima)
    parameters: dict[str, object] = {
        "shares_network": _shares(spec),
        "linked": (spec.network.egress == "allow" and not _shares(spec)) or bool(spec.network.allow),
        "allow": list(spec.network.allow) if spec.network.allow else None,
        "disk_mb": caps.disk_mb,
        "shm_mb": caps.shm_mb,
        "caps": {"memory": caps.memory_mb * 2**20, "pids": caps.pids, "quota_us": caps.quota_us},
        "limits": _limits(),
    }
    if machine is not None and not isinstance(machine.home, Homeless):
        parameters["machine"] = machine
        parameters["groups"] = groups_of(machine.home, spec.create_id)
    return Plan(spec, parameters, receipts(spec, caps, machine), INFO.tier, facts.assumed, WORK)


def _limits() -> Mapping[str, Any]:
    return {
        "RLIMIT_CORE": (0, 0),
        "RLIMIT_NOFILE": OPEN_FILES,
        "RLIMIT_SIGPENDING": (QUEUED_SIGNALS, QUEUED_SIGNALS),
        "RLIMIT_MSGQUEUE": (MESSAGE_QUEUES, MESSAGE_QUEUES),
    }


def _refuse_machine(machine: Machine | None) -> None:
    if syscalls.filter_program(syscalls.machine()) is None:
        raise CapabilityNotSupported(
            f"there is no system call filter for the processor {syscalls.machine()}",
            hint="use Docker there, or a machine with an x86_64 or aarch64 processor",
            why="not_yet",
        )
    if machine is None:
        return
    if machine.blocked is not None:
        raise BackendUnavailable(machine.blocked[0], hint=machine.blocked[1])
    if isinstance(machine.home, Homeless):
        raise BackendUnavailable(
            f"no cap on memory, processes or CPU could be set, so no sandbox is made: {machine.home.reason}",
            hint=machine.home.fix,
        )


def _refuse_policies(spec: SandboxSpec) -> None:
    network = spec.network
    if network.egress == "learn":
        raise CapabilityNotSupported(
            'egress="learn" is not offered yet', hint='use egress="deny" or egress="allow"', why="not_yet"
        )
    names = tuple(entry for entry in network.allow if not _is_network(entry))
    if names:
        raise CapabilityNotSupported(
            f"only addresses are filtered here, so a host name in allow={names!r} can't be enforced",
            hint="list addresses or CIDRs; allowlists of names come with the adapters for E2B, Modal and Vercel",
        )
    if any(":" in entry for entry in network.allow):
        raise CapabilityNotSupported(
            "the network of a sandbox has IPv4 alone so far", hint="list IPv4 addresses and CIDRs", why="not_yet"
        )
    if network.ingress_ports:
        raise CapabilityNotSupported(
            "ingress_ports is not offered here yet", hint="leave ingress_ports empty", why="not_yet"
        )
    if spec.resources.gpu is not None:
        raise CapabilityNotSupported("GPUs are not offered here", hint="leave gpu unset", why="not_yet")


def _shares(spec: SandboxSpec) -> bool:
    return spec.network.egress == "allow" and isinstance(spec.config, BubblewrapConfig) and spec.config.share_network


def _is_network(entry: str) -> bool:
    try:
        ip_network(entry)
    except ValueError:
        return False
    return True


def _refuse_link(spec: SandboxSpec, machine: Machine | None) -> None:
    if machine is None or machine.unlinked is None or _shares(spec):
        return
    reason, fix = machine.unlinked
    other = ", or accept this machine's own network: bubblewrap://?share_network=1" if not spec.network.allow else ""
    raise CapabilityNotSupported(
        f"no network of the sandbox's own that reaches the outside can be had: {reason}", hint=f"{fix}{other}"
    )


def _check_metadata(metadata: Mapping[str, str]) -> None:
    total = 0
    for key, value in metadata.items():
        try:
            total += len(key.encode()) + len(value.encode())
        except UnicodeEncodeError:
            raise ConfigurationError(
                f"metadata[{key!r}] is no Unicode text, which is all that a record carries",
                hint="encode it (base64) before you pass it",
            ) from None
        if total > MAX_META:
            raise ConfigurationError(
                f"metadata[{key!r}] makes it over {MAX_META} bytes",
                hint="keep metadata to what finds the sandbox again",
            )


def _refuse_lifetime(spec: SandboxSpec, facts: Facts) -> None:
    most = facts.maxima.get("lifetime")
    if most is not None and spec.timeout > most:
        raise ConfigurationError(
            f"timeout={spec.timeout:g} is over the maximum of {most:g} s", hint=f"pass at most {most:g}"
        )
