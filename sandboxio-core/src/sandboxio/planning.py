"""The plan: what will be sent to the provider, and the receipt of each policy."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sandboxio.isolation import IsolationTier
from sandboxio.policy import Strength
from sandboxio.spec import SandboxSpec

EnforcedBy = Literal["provider", "runtime", "template", "sandboxio"]
Evidence = Literal["attested", "documented", "unverified"]

ITEMS = (
    "network.egress",
    "network.allow",
    "network.ingress",
    "cpu",
    "memory",
    "memory.swap",
    "pids",
    "disk",
    "gpu",
    "lifetime",
    "labels",
    "secrets",
    "isolation",
)
"""Every policy item; a plan answers each exactly once."""

CAP_ITEMS = {"cpu": "cpu", "memory_mb": "memory", "disk_mb": "disk", "pids": "pids", "gpu": "gpu"}
"""Field of `Resources` → policy item."""


@dataclass(frozen=True, slots=True)
class Enforcement:
    """The receipt of one policy item.

    :param policy: one of `ITEMS`.
    :param requested: the concrete value that will hold, every default resolved: cores (``cpu``), MiB (``memory``,
        ``memory.swap`` [beyond the memory], ``disk``), a count (``pids``), seconds (``lifetime``), names (``secrets``),
        a mapping (``labels``), a tier's name (``isolation``), ``"deny"`` or ``"allow"`` (``network.egress``).
    :param mechanism: the provider's real control, in its own words.
    :param enforced_by: who makes it hold.
    :param evidence: how it is known to hold: read back, documented, or neither.
    :param strength: for network items, the layer at which it holds.
    :param residuals: what stays possible, in words.
    :param source: where the claim comes from, with a date.
    """

    policy: str
    requested: object
    mechanism: str
    enforced_by: EnforcedBy
    evidence: Evidence
    strength: Strength | None = None
    residuals: tuple[str, ...] = ()
    source: str = ""

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data, but for its source."""
        told = ("policy", "requested", "mechanism", "enforced_by", "evidence", "strength")
        return {**{name: getattr(self, name) for name in told}, "residuals": list(self.residuals)}


@dataclass(frozen=True, slots=True)
class Absent:
    """A policy item that does not apply, and why."""

    policy: str
    reason: str

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"policy": self.policy, "absent": self.reason}


Receipt = Enforcement | Absent


@dataclass(frozen=True, slots=True)
class Plan:
    """A sandbox on paper.

    :param parameters: what the adapter will send; plain data without a secret's value.
    :param items: one receipt per policy item.
    :param tier: the isolation that will hold.
    :param assumed: whether it was made from declared facts; false if the engine or account was asked.
    :param cwd: the default working directory of commands, where it is known before the sandbox runs.
    """

    spec: SandboxSpec
    parameters: Mapping[str, object] = field(repr=False)
    items: tuple[Receipt, ...]
    tier: IsolationTier
    assumed: bool
    cwd: str | None = None

    @property
    def create_id(self) -> str:
        """The client-chosen name of the sandbox."""
        return self.spec.create_id

    def __getitem__(self, policy: str) -> Receipt:
        """Return the receipt of one policy item."""
        for item in self.items:
            if item.policy == policy:
                return item
        raise KeyError(policy)

    def cap(self, field: str) -> float | None:
        """Return the value of a cap by its field of `Resources`."""
        item = self[CAP_ITEMS[field]] if field in CAP_ITEMS else None
        value = item.requested if isinstance(item, Enforcement) else None
        return value if isinstance(value, (int, float)) else None

    def receipts(self) -> tuple[dict[str, Any], ...]:
        """Return the items as plain data, as audit records have them."""
        return tuple(item.as_data() for item in self.items)

    def enforcements(self) -> Iterator[Enforcement]:
        """Iterate over the items that are enforced."""
        return (item for item in self.items if isinstance(item, Enforcement))
