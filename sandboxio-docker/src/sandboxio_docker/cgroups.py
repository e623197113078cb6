"""Which caps an engine can't apply, by its own description, and what to do about it."""

from collections.abc import Mapping
from typing import Any

CAP_FLAGS = {
    "MemoryLimit": "memory",
    "SwapLimit": "memory.swap",
    "CpuCfsQuota": "cpu",
    "PidsLimit": "pids",
}
"""Fields of ``/info`` that say whether the engine can apply a cap."""
ROOTFUL = "or use an engine that runs as root (DOCKER_HOST, DOCKER_CONTEXT)"
DELEGATE = (
    "delegate the controllers to the engine's user: `systemctl edit user@.service` with [Service] and"
    " Delegate=cpu cpuset io memory pids, then log in again (https://docs.docker.com/engine/security/rootless/, read 2026-11)"
)


def missing_caps(info: Mapping[str, Any]) -> str:
    """Return the policies of the caps that this engine can't apply, in words; empty if it can apply each."""
    # Rootless Podman on cgroup v1 claims all of them and applies none (4.3.1; its own documentation says so of v1).
    blind = is_rootless(info) and str(info.get("CgroupVersion", "1")) != "2"
    return ", ".join(policy for flag, policy in CAP_FLAGS.items() if blind or not info.get(flag))


def caps_fix(info: Mapping[str, Any]) -> str:
    """Return what to do where caps are missing."""
    if is_rootless(info) and str(info.get("CgroupVersion", "1")) != "2":
        return f"boot with cgroup v2 (systemd.unified_cgroup_hierarchy=1) and {DELEGATE}, {ROOTFUL}"
    if is_rootless(info):
        return f"{DELEGATE}, {ROOTFUL}"
    if not info.get("SwapLimit") and info.get("MemoryLimit"):
        return "boot the engine's host with swapaccount=1 on the kernel's command line"
    return "use an engine whose kernel has these cgroup controllers, and whose cgroup driver is not none"


def engine_name(info: Mapping[str, Any]) -> str:
    """Return what the engine is, for messages."""
    name = "Podman" if "BuildahVersion" in info else "Docker"
    return f"rootless {name}" if is_rootless(info) else name


def is_rootless(info: Mapping[str, Any]) -> bool:
    """Whether the engine runs without root; Docker says it among its security options, Podman in a field of its own."""
    return info.get("Rootless") is True or any("name=rootless" in str(one) for one in info.get("SecurityOptions") or ())
