"""How a container that runs is held, as far as the engine's description of it tells: receipts for `connect`."""

from collections.abc import Mapping
from typing import Any

from sandboxio.agent.bootstrap import agent_argv
from sandboxio.isolation import IsolationTier
from sandboxio.planning import Absent, Enforcement, Receipt

from sandboxio_docker import labels, receipts

ROUNDING = 2.0
"""Seconds by which `sleep` may end after the expiry: it counts whole seconds, from the start."""


def receipts_of(
    answer: Mapping[str, Any], carried: Mapping[str, str], applied: Mapping[str, object], life: float | None
) -> Mapping[str, Receipt]:
    """Return the receipt of each item of which the engine's answer tells more than a value.

    :param life: seconds from the creation to the expiry, if one is named.
    """
    transport, accepted = carried.get(labels.TRANSPORT, ""), labels.ACCEPTS_VSOCK in carried
    found: list[Receipt] = [Absent("network.allow", "Docker has no allowlists"), _disk(answer, applied, transport)]
    egress = str(applied["network.egress"])
    if egress in ("deny", "allow"):
        found.append(receipts.egress(egress, transport, accepts_vsock=accepted))
    if not answer["HostConfig"].get("PortBindings"):
        found.append(Absent("network.ingress", "no port of the sandbox is published"))
    if not answer["HostConfig"].get("DeviceRequests"):
        found.append(Absent("gpu", "none is passed through"))
    if life is not None:
        found.append(_lifetime(answer, transport, life, unfiltered=accepted or egress == "allow"))
    return {item.policy: item for item in found}


def _disk(answer: Mapping[str, Any], applied: Mapping[str, object], transport: str) -> Enforcement:
    host: Mapping[str, Any] = answer["HostConfig"]
    if host.get("ReadonlyRootfs"):
        return receipts.read_only_disk(applied["disk"], int(host.get("ShmSize") or 0) // 2**20)
    is_gvisor = applied["isolation"] == IsolationTier.GVISOR.value
    return receipts.disk(applied["disk"], transport, quota=bool(host.get("StorageOpt")), is_gvisor=is_gvisor)


def _lifetime(answer: Mapping[str, Any], transport: str, life: float, *, unfiltered: bool) -> Enforcement:
    config: Mapping[str, Any] = answer["Config"]
    program = [*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())]
    if _ends_itself(program, transport, life):
        return receipts.lifetime(life, transport, unfiltered=unfiltered, through_ssh=False)
    mechanism = (
        "its label names an end, but its first process is none that ends itself then; the host-side reaper destroys it"
    )
    return Enforcement("lifetime", life, mechanism, "sandboxio", "unverified")


def _ends_itself(program: list[str], transport: str, life: float) -> bool:
    if transport == "agent":
        # The settings came over its stdin. What begins like our agent may be another version of it.
        start = list(agent_argv())[:-1]
        return program[: len(start)] == start
    if len(program) != 2 or program[0] != "sleep" or not program[1].isdigit():
        return False
    return int(program[1]) <= life + ROUNDING
