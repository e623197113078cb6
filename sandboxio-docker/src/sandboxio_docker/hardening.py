"""How a container differs from the usual one: what is sent, carried as a label, and compared with the engine's answer."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sandboxio.isolation import IsolationTier

from sandboxio_docker.config import CAPABILITIES, ROOT_USERS, DockerConfig

LABEL = "io.sandboxio.hardening"
"""What was asked for: whoever connects later compares with it, too."""
RUNTIMES = ("runc", "crun", "io.containerd.runc.v2")
"""Runtimes that apply the engine's caps themselves; others were measured to drop them (runsc with --ignore-cgroups)."""
WORK, TEMPORARY = "/work", "/tmp"  # noqa: S108 - in the sandbox
_TMPFS = "rw,nosuid,nodev,exec,mode=1777,size="


@dataclass(frozen=True, slots=True)
class Hardening:
    """The part of a `DockerConfig` that shapes the container."""

    capabilities: tuple[str, ...] = ()
    user: str = ""
    read_only: bool = False
    runtime: str = ""

    @classmethod
    def of(cls, config: object) -> "Hardening":
        """Return what a configuration asks for."""
        if not isinstance(config, DockerConfig):
            return cls()
        return cls(config.capabilities, config.user or "", config.read_only, config.runtime or "")

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> "Hardening | None":
        """Return what a container was made with; ``None`` if its label can't be read."""
        try:
            known: dict[str, Any] = json.loads(labels.get(LABEL, "{}"))
            known["capabilities"] = tuple(known.get("capabilities", ()))
            return cls(**known)
        except (ValueError, TypeError, AttributeError):
            return None

    def label(self) -> dict[str, str]:
        """Return the label; none for the usual container."""
        chosen = {name: value for name, value in asdict(self).items() if value}
        return {LABEL: json.dumps(chosen)} if chosen else {}

    @property
    def mask(self) -> int:
        """The capabilities that root has."""
        return sum(1 << CAPABILITIES[name] for name in self.capabilities)

    @property
    def is_foreign(self) -> bool:
        """Whether the runtime has to prove what it is and that caps hold."""
        return self.runtime not in ("", *RUNTIMES)

    @property
    def tier(self) -> IsolationTier:
        """The isolation that the runtime gives, or has to prove."""
        return IsolationTier.GVISOR if self.is_foreign else IsolationTier.CONTAINER

    def is_root(self, image_user: str) -> bool:
        """Whether the first process is root, as far as the name tells."""
        return (self.user or image_user) in ROOT_USERS

    def container(self) -> Mapping[str, object]:
        """Return what it adds to the body of the create request."""
        return {"User": self.user} if self.user else {}

    def workdir(self, image_workdir: str) -> str:
        """Return the working directory to use, "" for none in particular."""
        return WORK if self.read_only else image_workdir

    def host_config(self, disk_mb: int) -> dict[str, object]:
        """Return what it adds to the host configuration; read-only, what may be written is split in halves."""
        added: dict[str, object] = {"CapAdd": list(self.capabilities)} if self.capabilities else {}
        if self.read_only:
            half = f"{_TMPFS}{disk_mb * 1024 // 2}k"
            added |= {"ReadonlyRootfs": True, "Tmpfs": {TEMPORARY: half, WORK: half}}
        return added

    def deviations(self, answer: Mapping[str, Any]) -> list[str]:
        """Return in which fields the engine's description differs from it."""
        host: Mapping[str, Any] = answer["HostConfig"]
        places = {TEMPORARY, WORK} if self.read_only else set[str]()
        runtimes = (self.runtime,) if self.runtime else RUNTIMES
        holds = {
            "CapAdd": {str(name).removeprefix("CAP_") for name in host.get("CapAdd") or ()} == set(self.capabilities),
            "User": not self.user or answer["Config"].get("User") == self.user,
            "ReadonlyRootfs": bool(host.get("ReadonlyRootfs")) == self.read_only,
            "Tmpfs": set(host.get("Tmpfs") or ()) == places,
            "Runtime": host.get("Runtime") in runtimes,
        }
        return [name for name, good in holds.items() if not good]


def tmpfs_mebibytes(places: Mapping[str, str]) -> float | int | None:
    """Return what memory file systems hold together; ``None`` if one has no bound."""
    total = 0
    for options in places.values():
        sizes = [option.removeprefix("size=") for option in options.split(",") if option.startswith("size=")]
        if len(sizes) != 1 or not sizes[0].removesuffix("k").isdigit() or sizes[0] in ("0", "0k"):
            return None
        total += int(sizes[0].removesuffix("k")) * (1024 if sizes[0].endswith("k") else 1)
    return total // 2**20 if total % 2**20 == 0 else total / 2**20
