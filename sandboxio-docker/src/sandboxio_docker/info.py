"""What the Docker adapter declares before anything is asked of an engine."""

from importlib.metadata import version

from sandboxio.capabilities import Capability
from sandboxio.isolation import IsolationTier
from sandboxio.policy import MAX_DISK_MB, MAX_PIDS
from sandboxio.port import BackendInfo, Facts
from sandboxio.spec import MAX_TIMEOUT

from sandboxio_docker.config import DockerConfig

DISTRIBUTION = "sandboxio-docker"
DEFAULT_TEMPLATE = "python:3.12-slim"
"""The image that is used if none is named."""
PORT = 1
"""The version of the port that this adapter was written for."""

BASELINE = Facts(maxima={"disk_mb": MAX_DISK_MB, "pids": MAX_PIDS, "lifetime": MAX_TIMEOUT}, assumed=True)
"""What every engine can do; its size and its image are unknown until it is asked."""

INFO = BackendInfo(
    name="docker",
    distribution=DISTRIBUTION,
    port=PORT,
    config=DockerConfig,
    features=Capability.RUN_COMMAND
    | Capability.RUN_CODE
    | Capability.STREAMING
    | Capability.FILESYSTEM
    | Capability.UPLOAD_DOWNLOAD
    | Capability.NETWORK_POLICY,
    tier=IsolationTier.CONTAINER,
    tier_evidence="https://docs.docker.com/engine/security/ (namespaces and control groups on the host's kernel; read 2026-11)",
    baseline=BASELINE,
    observable=frozenset(
        {"network.egress", "cpu", "memory", "memory.swap", "pids", "disk", "labels", "isolation"},
    ),
)


def distribution_version() -> str:
    """Return this adapter's version, for the label of what it makes."""
    return version(DISTRIBUTION)
