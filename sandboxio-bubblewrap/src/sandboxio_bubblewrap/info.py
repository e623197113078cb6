"""What the bubblewrap adapter declares before anything is asked of this machine."""

from importlib.metadata import version

from sandboxio.capabilities import Capability
from sandboxio.isolation import IsolationTier
from sandboxio.policy import MAX_PIDS
from sandboxio.port import BackendInfo, Facts
from sandboxio.spec import MAX_TIMEOUT

from sandboxio_bubblewrap.config import BubblewrapConfig

DISTRIBUTION = "sandboxio-bubblewrap"
PORT = 1
"""The version of the port that this adapter was written for."""

BASELINE = Facts(maxima={"pids": MAX_PIDS, "lifetime": MAX_TIMEOUT}, assumed=True)
"""What every machine can do; its size and its control groups are unknown until they are looked at."""

INFO = BackendInfo(
    name="bubblewrap",
    distribution=DISTRIBUTION,
    port=PORT,
    config=BubblewrapConfig,
    features=Capability.RUN_COMMAND
    | Capability.RUN_CODE
    | Capability.STREAMING
    | Capability.FILESYSTEM
    | Capability.UPLOAD_DOWNLOAD
    | Capability.NETWORK_POLICY,
    tier=IsolationTier.CONTAINER,
    tier_evidence="https://github.com/containers/bubblewrap#sandboxing (namespaces on the host's kernel; read 2026-11)",
    baseline=BASELINE,
    observable=frozenset(
        {"network.egress", "cpu", "memory", "memory.swap", "pids", "disk", "labels", "isolation"},
    ),
)


def distribution_version() -> str:
    """Return this adapter's version, for the record of what it makes."""
    return version(DISTRIBUTION)
