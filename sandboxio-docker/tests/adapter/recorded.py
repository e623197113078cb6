"""What engines answered that are not run by the tests, cut to the fields that are looked at or tell who answered.

Each says where it comes from: *recorded* = taken down from a running engine; *after the reference* = written by the engine's
own documentation or source, no such engine was run.
"""

from typing import Any

# Recorded: Podman 4.3.1 of Debian 12, `podman system service` as root, cgroup v1, 2026-11-30.
PODMAN_VERSION: dict[str, Any] = {
    "Components": [
        {"Name": "Podman Engine", "Version": "4.3.1", "Details": {"APIVersion": "4.3.1", "MinAPIVersion": "4.0.0"}},
        {"Name": "Conmon", "Version": "conmon version 2.1.6, commit: unknown"},
    ],
    "Version": "4.3.1",
    "ApiVersion": "1.41",
    "MinAPIVersion": "1.24",
    "Os": "linux",
}
PODMAN_INFO: dict[str, Any] = {
    "BuildahVersion": "1.28.0",
    "CgroupDriver": "cgroupfs",
    "CgroupVersion": "1",
    "CpuCfsQuota": True,
    "DefaultRuntime": "runc",
    "Driver": "overlay",
    "DriverStatus": [["Backing Filesystem", "extfs"], ["Supports d_type", "true"], ["Native Overlay Diff", "true"]],
    "MemTotal": 8 * 2**30,
    "MemoryLimit": True,
    "NCPU": 2,
    "OSType": "linux",
    "PidsLimit": True,
    "Rootless": False,
    "Runtimes": {"crun": {"path": "/usr/bin/crun"}, "runc": {"path": "/usr/bin/runc"}},
    "SecurityOptions": ["name=seccomp,profile=default"],
    "ServerVersion": "4.3.1",
    "SwapLimit": True,
    "Warnings": [],
}
# Recorded: the same as an ordinary user. It claims every cap; on cgroup v1 it can apply none, and does not say so.
PODMAN_ROOTLESS_INFO_V1: dict[str, Any] = {**PODMAN_INFO, "Driver": "vfs", "Rootless": True}
# After the reference (podman `pkg/api/handlers/compat/info.go`): cgroup v2, only memory and pids delegated, systemd's default.
PODMAN_ROOTLESS_INFO_V2: dict[str, Any] = {
    **PODMAN_INFO,
    "CgroupDriver": "systemd",
    "CgroupVersion": "2",
    "CpuCfsQuota": False,
    "DefaultRuntime": "crun",
    "Rootless": True,
    "SecurityOptions": ["name=seccomp,profile=default", "name=rootless", "name=selinux"],
    "ServerVersion": "5.2.0",
}
# After the reference (moby `daemon/info_unix.go`, docs.docker.com/engine/security/rootless): no systemd, so no cgroups at all.
DOCKER_ROOTLESS_INFO: dict[str, Any] = {
    "CgroupDriver": "none",
    "CgroupVersion": "2",
    "CpuCfsQuota": False,
    "DefaultRuntime": "runc",
    "Driver": "overlay2",
    "DriverStatus": [["Backing Filesystem", "extfs"]],
    "MemTotal": 8 * 2**30,
    "MemoryLimit": False,
    "NCPU": 2,
    "OSType": "linux",
    "PidsLimit": False,
    "Runtimes": {"io.containerd.runc.v2": {"path": "runc"}, "runc": {"path": "runc"}},
    "SecurityOptions": ["name=seccomp,profile=builtin", "name=rootless", "name=cgroupns"],
    "ServerVersion": "27.3.1",
    "SwapLimit": False,
    "Warnings": [
        "WARNING: Running in rootless-mode without cgroups. Systemd is required to enable cgroups in rootless-mode."
    ],
}
# After the reference (moby `api/docs`, v1.52 and its history): fields that older versions always had are left out.
DOCKER_NEW_VERSION: dict[str, Any] = {
    "Platform": {"Name": "Docker Engine - Community"},
    "Version": "29.0.0",
    "ApiVersion": "1.52",
    "MinAPIVersion": "1.44",
    "Os": "linux",
}
DOCKER_NEW_INFO: dict[str, Any] = {
    "CgroupDriver": "systemd",
    "CgroupVersion": "2",
    "CpuCfsQuota": True,
    "DefaultRuntime": "runc",
    "Driver": "overlayfs",
    "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]],
    "FirewallBackend": {"Driver": "iptables"},
    "MemTotal": 8 * 2**30,
    "MemoryLimit": True,
    "NCPU": 2,
    "OSType": "linux",
    "PidsLimit": True,
    "Runtimes": {"io.containerd.runc.v2": {"path": "runc"}, "runc": {"path": "runc", "status": {}}},
    "SecurityOptions": ["name=seccomp,profile=builtin", "name=cgroupns"],
    "ServerVersion": "29.0.0",
    "SwapLimit": True,
    "Warnings": None,
}
DOCKER_NEW_IMAGE: dict[str, Any] = {"Id": "sha256:2", "Architecture": "amd64", "Os": "linux", "Config": {}}
