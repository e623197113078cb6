"""What this adapter declares before anything is asked of an engine."""

from sandboxio.capabilities import Capability
from sandboxio.exec_session import FEATURES
from sandboxio.isolation import IsolationTier
from sandboxio.policy import MAX_PIDS
from sandboxio.port import BackendInfo, Facts
from sandboxio.spec import MAX_TIMEOUT
from sandboxio.target import BackendConfig


class DockerCliConfig(BackendConfig):
    """Which engine and image; every plain field is a parameter of the DSN."""

    backend = "dockercli"
    template: str | None = "python:3.12-slim"
    host: str | None = None
    """The engine's address; ``None``: that of ``DOCKER_HOST``, else the usual socket. Contexts are not looked at."""
    accept_vsock: bool = False
    """Accept ``egress="deny"`` although vsock sockets, which no network namespace confines, are not checked."""


INFO = BackendInfo(
    name="dockercli",
    distribution="acme-sandboxio",
    port=1,
    config=DockerCliConfig,
    # What is not declared is refused when it is used.
    features=FEATURES | Capability.NETWORK_POLICY,
    tier=IsolationTier.CONTAINER,
    tier_evidence="https://docs.docker.com/engine/security/ (namespaces on the host's kernel; read 2026-11)",
    # Facts to plan with while no engine was asked: its size is unknown then.
    baseline=Facts(maxima={"pids": MAX_PIDS, "lifetime": MAX_TIMEOUT}, assumed=True),
    # What `observe` reads back of every container; core destroys a sandbox for which one is missing or differs.
    observable=frozenset({"network.egress", "cpu", "memory", "memory.swap", "pids", "disk", "labels", "isolation"}),
)
