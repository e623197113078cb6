"""Specs and facts as tests need them."""

from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr
from sandboxio.policy import NetworkPolicy, Resources
from sandboxio.port import Facts
from sandboxio.spec import SandboxSpec, new_create_id
from sandboxio_bubblewrap.cgroups import Home, Homeless
from sandboxio_bubblewrap.config import BubblewrapConfig
from sandboxio_bubblewrap.facts import Machine
from sandboxio_bubblewrap.program import Program
from sandboxio_bubblewrap.rootfs import Roots

MAXIMA = {"cpu": 4.0, "memory_mb": 8192, "disk_mb": 4096, "pids": 32768, "lifetime": 86400.0}


def found(
    home: Home | Homeless = Home(1, ("/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids", "/sys/fs/cgroup/cpu")),  # noqa: B008
    *,
    blocked: tuple[str, str] | None = None,
    unlinked: tuple[str, str] | None = None,
) -> Facts:
    machine = Machine(
        Program("/usr/bin", "/usr/bin/bwrap", (0, 11, 0)),
        home,
        Roots((("/usr", "/usr"),), (), "/usr/bin"),
        True,
        blocked,
        unlinked,
    )
    return Facts({"machine": machine}, MAXIMA)


def spec_of(
    template: str | None = None,
    *,
    network: NetworkPolicy | None = None,
    resources: Resources | None = None,
    secrets: Mapping[str, str] | None = None,
    metadata: Mapping[str, str] | None = None,
    timeout: float = 60.0,
    **config: Any,
) -> SandboxSpec:
    return SandboxSpec(
        backend="bubblewrap",
        config=BubblewrapConfig(template=template, **config),
        template=template,
        resources=resources or Resources(),
        network=network or NetworkPolicy(),
        env={},
        secrets={name: SecretStr(value) for name, value in (secrets or {}).items()},
        timeout=timeout,
        metadata=metadata or {},
        require_isolation=None,
        create_id=new_create_id(),
    )
