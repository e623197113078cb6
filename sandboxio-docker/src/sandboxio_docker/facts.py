"""What one engine and one image can do, found out by reads only."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docker.errors import ImageNotFound
from sandboxio.port import Facts

from sandboxio_docker.cgroups import caps_fix, engine_name, missing_caps
from sandboxio_docker.endpoint import Endpoint
from sandboxio_docker.engine import Register
from sandboxio_docker.hardening import RUNTIMES
from sandboxio_docker.info import BASELINE
from sandboxio_docker.sdk import Json, Sdk

INFO_LIFE = 60.0
"""Seconds for which an engine's description of itself holds; images are looked at each time."""


def read(client: Sdk, register: Register, endpoint: Endpoint, template: str) -> Facts:
    """Ask the engine; two reads, in a worker thread."""
    info = _info(client, register)
    values: dict[str, object] = {
        "api_version": client.api_version,
        "os": info.get("OSType", "linux"),
        "engine": engine_name(info),
        "through_ssh": endpoint.ssh_command is not None,
        "missing_caps": missing_caps(info),
        "caps_fix": caps_fix(info),
        "runtime": _runtime(info),
        "runtimes": _runtimes(info),
        "is_local": endpoint.is_local,
        "disk_quota": _has_quota(info, endpoint),
        "seccomp": any(
            "name=seccomp" in str(option) and "unconfined" not in str(option)
            for option in info.get("SecurityOptions") or ()
        ),
        "image": _image(client, template),
    }
    maxima = dict(BASELINE.maxima)
    if info.get("NCPU"):
        maxima["cpu"] = float(info["NCPU"])
    if info.get("MemTotal"):
        maxima["memory_mb"] = int(info["MemTotal"]) // 2**20
    return Facts(values, maxima)


def _info(client: Sdk, register: Register) -> Json:
    """Ask the engine what it is, once in `INFO_LIFE` seconds: that takes it ten times as long as to look at an image."""
    known, now = register.info, time.monotonic()
    if known is not None and now - known[0] < INFO_LIFE:
        return known[1]
    info: Json = client.info()
    register.info = now, info
    return info


def unfit(facts: Facts, reason: str) -> Facts:
    """Return the same facts for an image in which no agent can run."""
    return Facts({**facts.values, "agent_unfit": reason}, facts.maxima, facts.assumed)


def image_of(facts: Facts) -> Mapping[str, Any] | None:
    """Return what is known about the image: ``id``, ``workdir``, ``user``, ``volumes``; ``None`` while it is not there."""
    image: Any = facts.values.get("image")
    return image  # type: ignore[no-any-return]


def _runtime(info: Mapping[str, Any]) -> str | None:
    """Return the runtime to name in the request: "" = the engine's default, ``None`` = none that applies caps."""
    if info.get("DefaultRuntime", "runc") in RUNTIMES:
        return ""
    return next((name for name in RUNTIMES if name in (info.get("Runtimes") or {})), None)


def _runtimes(info: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the registered runtimes and the options each is started with."""
    registered: Mapping[str, Mapping[str, Any]] = info.get("Runtimes") or {}
    return {name: tuple(map(str, one.get("runtimeArgs") or ())) for name, one in registered.items()}


def _image(client: Sdk, template: str) -> Json | None:
    try:
        answer: Json = client.inspect_image(template)
    except ImageNotFound:
        return None
    config: Json = answer.get("Config") or {}
    return {
        "id": answer["Id"],
        "workdir": config.get("WorkingDir") or "",
        "user": config.get("User") or "",
        "volumes": tuple(config.get("Volumes") or ()),
    }


def _has_quota(info: Mapping[str, Any], endpoint: Endpoint) -> bool:
    """Whether the storage driver bounds a container's layer (``--storage-opt size``).

    btrfs and zfs always; overlay2 on xfs mounted with pquota (Docker's reference of ``docker create``, read 2026-11).
    The mount options are no part of the engine's answers: they are looked up where the engine is this machine's.
    """
    driver, status = info.get("Driver"), dict(pair for pair in info.get("DriverStatus") or () if len(pair) == 2)
    if driver in ("btrfs", "zfs"):
        return True
    if driver != "overlay2" or status.get("Backing Filesystem") != "xfs" or not endpoint.is_local:
        return False
    return _mounted_with_pquota(str(info.get("DockerRootDir", "")))


def _mounted_with_pquota(root: str) -> bool:
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    best, quota = "", False
    for fields in (line.split() for line in mounts):
        at, kind, options = fields[1], fields[2], fields[3].split(",")
        inside = root == at or root.startswith(at.rstrip("/") + "/")
        if inside and len(at) >= len(best):
            best, quota = at, kind == "xfs" and bool({"prjquota", "pquota"} & set(options))
    return quota
