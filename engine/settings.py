"""Where the private engine lives."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DEFAULT_HOST = "unix:///var/run/docker.sock"


@dataclass(frozen=True)
class Settings:
    """The folders of one private engine; all of them lie outside the checkout, so that clones share one engine."""

    host: str
    state: Path
    runtime: Path
    cache: Path

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> "Settings":
        """Read `DOCKER_HOST` and `SANDBOXIO_ENGINE_STATE`, `…_RUNTIME`, `…_CACHE`."""
        return cls(
            host=environ.get("DOCKER_HOST") or DEFAULT_HOST,
            state=Path(environ.get("SANDBOXIO_ENGINE_STATE", "/var/lib/sandboxio-engine")),
            runtime=Path(environ.get("SANDBOXIO_ENGINE_RUNTIME", "/run/sandboxio-engine")),
            cache=Path(environ.get("SANDBOXIO_ENGINE_CACHE", "/var/cache/sandboxio-engine")),
        )

    @property
    def data_root(self) -> Path:
        """Images, containers and volumes."""
        return self.state / "data"

    @property
    def tools(self) -> Path:
        """Programs that tests need beside the engine."""
        return self.cache / "bin"

    @property
    def exec_root(self) -> Path:
        """Sockets and state of running containers."""
        return self.runtime / "exec"

    @property
    def pid_file(self) -> Path:
        """Written by dockerd."""
        return self.runtime / "dockerd.pid"

    @property
    def log_file(self) -> Path:
        """Everything dockerd and its containerd say, since their start."""
        return self.state / "dockerd.log"

    @property
    def lock_file(self) -> Path:
        """Held while a start or stop is under way."""
        return self.state / "lock"
