"""One sandbox of the emulated provider: what was asked for, what it runs, and when it ends."""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from sandboxio_contract.emulation import Guest

ENVD_VERSION = "0.6.13"
HOME = "/home/user"


@dataclass(frozen=True, slots=True)
class Template:
    """What a template owns."""

    template_id: str
    alias: str
    cpu_count: int = 2
    memory_mb: int = 512
    disk_size_mb: int = 2304
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])

    def told(self, *, default: bool) -> dict[str, Any]:
        """Return what the API says of it."""
        return {
            "templateID": self.template_id,
            "buildID": "3f0c6e0c-3d7c-4a59-9d2b-0a4b7c1f7a11",
            "cpuCount": self.cpu_count,
            "memoryMB": self.memory_mb,
            "diskSizeMB": self.disk_size_mb,
            "public": True,
            "aliases": [self.alias],
            "names": [self.alias],
            "createdAt": "2026-01-01T00:00:00Z",
            "updatedAt": "2026-01-01T00:00:00Z",
            "createdBy": None,
            "lastSpawnedAt": None,
            "spawnCount": 0,
            "buildCount": 0,
            "envdVersion": ENVD_VERSION,
            "buildStatus": "ready",
            **({"isDefault": True} if default else {"builds": []}),
        }


@dataclass(slots=True)
class Running:
    """A process that envd started. Output that comes while nobody listens is lost, as there."""

    pid: int
    config: Mapping[str, Any]
    user: str
    stdin: int | None
    listeners: list["asyncio.Queue[dict[str, Any]]"] = field(default_factory=list["asyncio.Queue[dict[str, Any]]"])
    end: dict[str, Any] | None = None
    room: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class Machine:
    """A sandbox."""

    sandbox_id: str
    template: Template
    metadata: Mapping[str, str]
    env: Mapping[str, str]
    allow_internet_access: bool | None
    network: Mapping[str, Any] | None
    lifecycle: Mapping[str, Any]
    started: float
    end: float
    guest: Guest
    address: str
    envd_token: str = field(default_factory=lambda: secrets.token_hex(32))
    traffic_token: str | None = None
    state: Literal["running", "paused"] = "running"
    processes: dict[int, Running] = field(default_factory=dict[int, Running])
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    timer: asyncio.TimerHandle | None = None
    contexts: dict[str, Any] = field(default_factory=dict[str, Any])
    history: deque[str] = field(default_factory=lambda: deque[str](maxlen=100))

    def listed(self) -> dict[str, Any]:
        """Return what a listing says of it."""
        return {
            "templateID": self.template.template_id,
            "alias": self.template.alias,
            "sandboxID": self.sandbox_id,
            "clientID": "emulated",
            "startedAt": stamp(self.started),
            "endAt": stamp(self.end),
            "cpuCount": self.template.cpu_count,
            "memoryMB": self.template.memory_mb,
            "diskSizeMB": self.template.disk_size_mb,
            "metadata": dict(self.metadata),
            "state": self.state,
            "envdVersion": ENVD_VERSION,
        }

    def detail(self) -> dict[str, Any]:
        """Return all that is told about it."""
        told = {
            **self.listed(),
            "envdAccessToken": self.envd_token,
            "domain": None,
            "allowInternetAccess": self.allow_internet_access,
            "lifecycle": self.lifecycle,
        }
        return told if self.network is None else {**told, "network": self.network}

    def created(self) -> dict[str, Any]:
        """Return what a creation is answered with."""
        return {
            "templateID": self.template.template_id,
            "alias": self.template.alias,
            "sandboxID": self.sandbox_id,
            "clientID": "emulated",
            "envdVersion": ENVD_VERSION,
            "envdAccessToken": self.envd_token,
            "trafficAccessToken": self.traffic_token,
            "domain": None,
        }

    def end_at(self, when: float, expire: Callable[[], None]) -> None:
        """Have it end then."""
        self.end = when
        if self.timer is not None:
            self.timer.cancel()
        self.timer = asyncio.get_running_loop().call_later(max(0.0, when - time.time()), expire)


def stamp(seconds: float) -> str:
    """Return an instant as the API writes it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
