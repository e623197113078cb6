"""What the E2B adapter declares before anything is asked of an account."""

from sandboxio.capabilities import Capability
from sandboxio.isolation import IsolationTier
from sandboxio.port import BackendInfo, Facts
from sandboxio.spec import MAX_TIMEOUT

from sandboxio_e2b.config import KEY, E2BConfig

DISTRIBUTION = "sandboxio-e2b"
PORT = 1
"""The version of the port that this adapter was written for."""

TEMPLATE = {"id": None, "cpu": 2.0, "memory_mb": 512, "disk_mb": 10_240}
"""The caps of E2B's base template by its documentation (https://e2b.dev/docs, read 2026-11); an account's own are asked for."""

INFO = BackendInfo(
    name="e2b",
    distribution=DISTRIBUTION,
    port=PORT,
    config=E2BConfig,
    features=Capability.RUN_COMMAND
    | Capability.RUN_CODE
    | Capability.STREAMING
    | Capability.FILESYSTEM
    | Capability.UPLOAD_DOWNLOAD
    | Capability.NETWORK_POLICY,
    tier=IsolationTier.MICROVM,
    tier_evidence="https://github.com/e2b-dev/infra docs/ARCHITECTURE.md at 54693ff, 2026-08: one Firecracker process for each"
    " sandbox; for E2B's own domains only",
    baseline=Facts({"template": TEMPLATE}, maxima={"lifetime": MAX_TIMEOUT}, assumed=True),
    observable=frozenset({"network.egress", "network.allow", "network.ingress", "cpu", "memory", "disk", "labels"}),
    credentials=(KEY,),
    resource_caps_supported=False,
)
