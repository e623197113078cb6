"""What the engine says of one container, in the units of the receipts; compared before anything runs."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sandboxio.port import Observation

from sandboxio_docker import labels
from sandboxio_docker.hardening import Hardening, tmpfs_mebibytes
from sandboxio_docker.readback import receipts_of

ENDED = frozenset({"removing", "dead", "exited"})
"""States of a container that is over; a full layer took 9 to 23 s to delete (measured), with AutoRemove it goes."""


def from_inspect(answer: Mapping[str, Any]) -> Observation | None:
    """Read an inspect answer; ``None`` if it is over or not ours."""
    carried: Mapping[str, str] = answer["Config"].get("Labels") or {}
    name = str(answer["Name"]).removeprefix("/")
    if answer["State"]["Status"] in ENDED or not labels.is_ours(carried, name):
        return None
    created_at, expires_at = datetime.fromisoformat(answer["Created"]).timestamp(), labels.expiry_of(carried)
    applied = _applied(answer, carried)
    return Observation(
        sandbox_id=answer["Id"],
        name=name,
        state=answer["State"]["Status"],
        labels=labels.metadata_of(carried),
        created_at=created_at,
        expires_at=expires_at,
        applied=applied,
        receipts=receipts_of(answer, carried, applied, None if expires_at is None else expires_at - created_at),
    )


def from_summary(summary: Mapping[str, Any]) -> Observation | None:
    """Read an entry of the engine's list, which has no caps."""
    carried: Mapping[str, str] = summary["Labels"] or {}
    name = str(summary["Names"][0]).removeprefix("/") if summary["Names"] else ""
    if summary["State"] in ENDED or not labels.is_ours(carried, name):
        return None
    return _seen(summary["Id"], name, summary["State"], carried, float(summary["Created"]))


def from_network(network: Mapping[str, Any]) -> Observation:
    """Read a network of ours whose container is gone; its id is what `destroy` takes."""
    created = datetime.fromisoformat(network["Created"]).timestamp()
    return _seen(network["Id"], network["Name"], "network only", network["Labels"], created)


def _seen(ident: str, name: str, state: str, carried: Mapping[str, str], created_at: float) -> Observation:
    return Observation(ident, name, state, labels.metadata_of(carried), created_at, labels.expiry_of(carried), {})


def _applied(answer: Mapping[str, Any], carried: Mapping[str, str]) -> dict[str, object]:
    host: Mapping[str, Any] = answer["HostConfig"]
    return {
        "network.egress": _egress(answer, carried),
        "cpu": host["NanoCpus"] / 1e9,
        "memory": _mebibytes(host["Memory"]),
        "memory.swap": _mebibytes(host["MemorySwap"] - host["Memory"]),
        "pids": host["PidsLimit"],
        "disk": _disk(host),
        "labels": labels.metadata_of(carried),
        "isolation": _isolation(answer, Hardening.from_labels(carried)),
    }


def _mebibytes(size: int) -> float | int:
    return size // 2**20 if size % 2**20 == 0 else size / 2**20


def _egress(answer: Mapping[str, Any], carried: Mapping[str, str]) -> str:
    """Return "deny", "allow", or what it is instead."""
    mode = str(answer["HostConfig"]["NetworkMode"])
    settings: Mapping[str, Any] = answer.get("NetworkSettings") or {}
    joined = sorted(str(name) for name in settings.get("Networks") or ())
    if mode == "none" and joined in ([], ["none"]):
        return "deny"
    if mode == carried.get(labels.CREATE_ID) and joined == [mode]:
        return "allow"
    return f"network mode {mode}, networks {', '.join(joined)}"


def _disk(host: Mapping[str, Any]) -> object:
    if host.get("ReadonlyRootfs"):
        return tmpfs_mebibytes(host.get("Tmpfs") or {})
    options: Mapping[str, str] = host.get("StorageOpt") or {}
    size = options.get("size", "")
    if size.endswith("M") and size[:-1].isdigit():
        return int(size[:-1])
    bound = _largest_file(host)
    return None if bound is None else _mebibytes(bound)


def disk_to_watch(answer: Mapping[str, Any]) -> int | None:
    """Return the bytes that a reaper must hold the layer to, ``None`` if something else bounds what is written."""
    host: Mapping[str, Any] = answer["HostConfig"]
    return None if host.get("StorageOpt") or host.get("ReadonlyRootfs") else _largest_file(host)


def _largest_file(host: Mapping[str, Any]) -> int | None:
    bounds = [int(limit["Hard"]) for limit in host.get("Ulimits") or () if limit["Name"] == "fsize"]
    return bounds[0] if bounds else None


def _isolation(answer: Mapping[str, Any], chosen: Hardening | None) -> str:
    """Return the tier, or in which way the container is weaker than what was asked for."""
    if chosen is None:
        return "weakened by what its label does not tell"
    host: Mapping[str, Any] = answer["HostConfig"]
    expected: dict[str, tuple[object, ...]] = {
        "Privileged": (False,),
        "CapDrop": (["ALL"],),
        "PidMode": ("",),
        "IpcMode": ("private",),
        "Binds": (None, []),
        "Devices": (None, []),
        "DeviceRequests": (None, []),
        "PortBindings": (None, {}),
        "UTSMode": ("",),
        "UsernsMode": (None, ""),
    }
    wrong = [name for name, values in expected.items() if host.get(name) not in values] + chosen.deviations(answer)
    options = [str(option) for option in host["SecurityOpt"] or ()]
    privileges_stay = any(option.startswith("no-new-privileges") and "false" not in option for option in options)
    if not privileges_stay or any(option.endswith(("unconfined", "disable")) for option in options):
        wrong.append("SecurityOpt")
    if answer.get("Mounts"):
        wrong.append("Mounts")
    return f"weakened by {', '.join(wrong)}" if wrong else chosen.tier.value
