"""The engine's plain way: the docker SDK, create + start + exec, the same caps, network none."""

import io
import socket
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any
from uuid import uuid4

import docker
from docker.models.containers import Container
from docker.models.networks import Network
from docker.types import LogConfig, Ulimit

from benchmarks.contenders import threads
from benchmarks.contenders.base import Box, Crowd
from benchmarks.figure import ENGINE
from benchmarks.settings import (
    CONCURRENCY,
    CPU,
    DISK_MB,
    IMAGE,
    LABEL,
    LIFETIME,
    MEMORY_MB,
    OPEN_FILES,
    PIDS,
    SHM_MB,
)


class PlainBox:
    """A container."""

    def __init__(self, container: Container, network: Network | None = None) -> None:
        self._container = container
        self._network = network
        # The stubs know of `Container.client` only that it may be missing.
        self._api: Any = getattr(container.client, "api", None)

    def exec_true(self) -> None:
        """Run ``true``, blocking."""
        assert self._container.exec_run(["true"]).exit_code == 0

    def force_remove(self) -> None:
        """Remove by force, blocking; its network too, if it has one of its own."""
        self._container.remove(v=True, force=True)
        if self._network is not None:
            self._network.remove()

    async def true(self) -> float:
        """Run ``true``."""
        began = perf_counter()
        self.exec_true()
        return perf_counter() - began

    async def stream(self, size: int) -> float:
        """Read the attached stream of an exec."""
        began, seen = perf_counter(), 0
        exec_id = self._api.exec_create(self._container.id, ["head", "-c", str(size), "/dev/zero"])["Id"]
        for chunk in self._api.exec_start(exec_id, stream=True):
            seen += len(chunk)
        assert seen == size
        return perf_counter() - began

    async def put(self, local: Path, remote: str) -> float:
        """Put an archive, whole in memory as the SDK's own examples do."""
        began = perf_counter()
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            tar.add(local, arcname=Path(remote).name)
        archive.seek(0)
        assert self._api.put_archive(self._container.id, str(Path(remote).parent), archive)
        return perf_counter() - began

    async def get(self, remote: str, local: Path) -> float:
        """Get an archive and write its one file."""
        began = perf_counter()
        chunks, _ = self._container.get_archive(remote)
        archive = io.BytesIO(b"".join(chunks))
        with tarfile.open(fileobj=archive) as tar:
            member = tar.extractfile(tar.getmembers()[0])
            assert member is not None
            local.write_bytes(member.read())
        return perf_counter() - began

    async def many(self, count: int) -> float:
        """Attach to as many execs of ``cat``, then end their stdin."""
        began = perf_counter()
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            attached = [future.result() for future in [pool.submit(self._attach_cat) for _ in range(count)]]
            list(pool.map(_end_cat, attached))
        return perf_counter() - began

    def _attach_cat(self) -> Any:
        exec_id = self._api.exec_create(self._container.id, ["cat"], stdin=True)["Id"]
        return self._api.exec_start(exec_id, socket=True)

    async def remove(self) -> float:
        """Remove by force."""
        began = perf_counter()
        self.force_remove()
        return perf_counter() - began

    async def discard(self) -> None:
        """Remove by force."""
        self.force_remove()


def _end_cat(attached: Any) -> None:
    raw: socket.socket = attached._sock  # the SDK gives no other access
    raw.shutdown(socket.SHUT_WR)
    while attached.read(4096):
        pass
    attached.close()


class Plain:
    """Makes containers through the docker SDK."""

    name = ENGINE

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self._client = docker.from_env(max_pool_size=2 * CONCURRENCY, timeout=300)

    def make(
        self,
        *,
        memory_mb: int = MEMORY_MB,
        pids: int = PIDS,
        disk_mb: int = DISK_MB,
        egress: bool = False,
        network: Network | None = None,
    ) -> PlainBox:
        """Create and start a container, on the engine's shared network with ``egress``."""
        container = self._client.containers.create(
            IMAGE,
            ["sleep", str(LIFETIME)],
            network_mode=network.name if network else "bridge" if egress else "none",
            cap_drop=["ALL"],
            security_opt=["no-new-privileges:true"],
            nano_cpus=round(CPU * 1e9),
            mem_limit=f"{memory_mb}m",
            memswap_limit=f"{memory_mb}m",
            pids_limit=pids,
            shm_size=f"{SHM_MB}m",
            ulimits=[
                Ulimit(name="nofile", soft=OPEN_FILES[0], hard=OPEN_FILES[1]),
                Ulimit(name="fsize", soft=disk_mb * 2**20, hard=disk_mb * 2**20),
            ],
            log_config=LogConfig(type="none"),
            labels={LABEL: self._tag},
        )
        container.start()
        return PlainBox(container, network)

    async def open(self, *, memory_mb: int = MEMORY_MB, pids: int = PIDS, disk_mb: int = DISK_MB) -> tuple[float, Box]:
        """Create, start, and run ``true``."""
        began = perf_counter()
        box = self.make(memory_mb=memory_mb, pids=pids, disk_mb=disk_mb)
        box.exec_true()
        return perf_counter() - began, box

    async def crowd(self, count: int, *, egress: bool = False) -> Crowd:
        """Create all, run in all, remove all."""
        return threads.crowd(count, lambda: self.make(egress=egress), PlainBox.exec_true, PlainBox.force_remove)

    async def crowd_apart(self, count: int) -> Crowd:
        """Do the same with a network of its own for each, as sandboxio does: on a shared one they reach each other."""
        return threads.crowd(count, self._make_apart, PlainBox.exec_true, PlainBox.force_remove)

    def _make_apart(self) -> PlainBox:
        name = f"benchmark-{uuid4().hex[:12]}"
        network = self._client.networks.create(name, driver="bridge", labels={LABEL: self._tag})
        return self.make(network=network)

    def left(self) -> list[Container]:
        """Return the containers of this run that still exist; the `docker` command's and llm-sandbox's too."""
        return self._client.containers.list(all=True, filters={"label": f"{LABEL}={self._tag}"})

    async def aclose(self) -> None:
        """Remove what is left of every contender that labels its containers as this one does."""
        for container in self.left():
            container.remove(v=True, force=True)
        networks: Any = self._client.networks  # untyped in part
        for network in networks.list(filters={"label": f"{LABEL}={self._tag}"}):
            network.remove()
        self._client.close()
