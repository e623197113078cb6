"""Specs and facts as tests need them."""

from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr
from sandboxio.isolation import IsolationTier
from sandboxio.policy import NetworkPolicy, Resources
from sandboxio.port import Facts
from sandboxio.spec import SandboxSpec, new_create_id
from sandboxio_docker.config import DockerConfig

PROBED: dict[str, object] = {
    "api_version": "1.41",
    "os": "linux",
    "missing_caps": "",
    "runtime": "",
    "disk_quota": False,
    "seccomp": True,
    "image": {"id": "sha256:1", "workdir": "", "user": "", "volumes": ()},
}
MAXIMA = {"cpu": 4.0, "memory_mb": 8192, "disk_mb": 1024 * 1024, "pids": 32768, "lifetime": 86400.0}


def probed(**values: object) -> Facts:
    return Facts({**PROBED, **values}, MAXIMA)


def spec_of(
    template: str | None = "sandboxio-test/python",
    *,
    network: NetworkPolicy | None = None,
    resources: Resources | None = None,
    secrets: Mapping[str, str] | None = None,
    metadata: Mapping[str, str] | None = None,
    timeout: float = 60.0,
    **config: Any,
) -> SandboxSpec:
    return SandboxSpec(
        backend="docker",
        config=DockerConfig(template=template, **config),
        template=template,
        resources=resources or Resources(),
        network=network or NetworkPolicy(),
        env={},
        secrets={name: SecretStr(value) for name, value in (secrets or {}).items()},
        timeout=timeout,
        metadata=metadata or {},
        require_isolation=IsolationTier.CONTAINER,
        create_id=new_create_id(),
    )
