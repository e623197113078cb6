"""The ``docker`` command line."""

import subprocess
from pathlib import Path
from time import perf_counter

from benchmarks.contenders import threads
from benchmarks.contenders.base import Box, Crowd
from benchmarks.figure import CLI
from benchmarks.measure import NotBuilt
from benchmarks.settings import CPU, DISK_MB, IMAGE, LABEL, LIFETIME, MEMORY_MB, OPEN_FILES, PIDS, SHM_MB

CHUNK = 2**18


def docker(*arguments: str) -> str:
    """Run the command and return what it printed."""
    done = subprocess.run(["docker", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"docker {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def _timed(*arguments: str) -> float:
    began = perf_counter()
    docker(*arguments)
    return perf_counter() - began


class CliBox:
    """A container."""

    def __init__(self, container_id: str) -> None:
        self.container_id = container_id

    async def true(self) -> float:
        """Run ``docker exec``."""
        return _timed("exec", self.container_id, "true")

    async def stream(self, size: int) -> float:
        """Read the pipe of ``docker exec``."""
        began, seen = perf_counter(), 0
        command = ["docker", "exec", self.container_id, "head", "-c", str(size), "/dev/zero"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0) as process:
            assert process.stdout is not None
            while chunk := process.stdout.read(CHUNK):
                seen += len(chunk)
        assert seen == size
        return perf_counter() - began

    async def put(self, local: Path, remote: str) -> float:
        """Run ``docker cp``."""
        return _timed("cp", str(local), f"{self.container_id}:{remote}")

    async def get(self, remote: str, local: Path) -> float:
        """Run ``docker cp``."""
        return _timed("cp", f"{self.container_id}:{remote}", str(local))

    async def many(self, count: int) -> float:
        """Refuse: one process of 20 MiB per command measures the machine, not the engine."""
        raise NotBuilt(f"not measured: {count} docker commands at once")

    async def remove(self) -> float:
        """Run ``docker rm -f``."""
        return _timed("rm", "--force", "--volumes", self.container_id)

    async def discard(self) -> None:
        """Run ``docker rm -f``."""
        await self.remove()


class Cli:
    """Makes containers with ``docker run``."""

    name = CLI

    def __init__(self, tag: str) -> None:
        self._tag = tag

    def make(
        self, *, memory_mb: int = MEMORY_MB, pids: int = PIDS, disk_mb: int = DISK_MB, egress: bool = False
    ) -> CliBox:
        """Run a container that sleeps."""
        flags = {
            "network": "bridge" if egress else "none",
            "cap-drop": "ALL",
            "security-opt": "no-new-privileges:true",
            "cpus": str(CPU),
            "memory": f"{memory_mb}m",
            "memory-swap": f"{memory_mb}m",
            "pids-limit": str(pids),
            "shm-size": f"{SHM_MB}m",
            "ulimit": "nofile={}:{}".format(*OPEN_FILES),
            "log-driver": "none",
            "label": f"{LABEL}={self._tag}",
        }
        shown = [f"--{name}={value}" for name, value in flags.items()]
        shown.append(f"--ulimit=fsize={disk_mb * 2**20}")
        return CliBox(docker("run", "--detach", *shown, IMAGE, "sleep", str(LIFETIME)))

    async def open(self, *, memory_mb: int = MEMORY_MB, pids: int = PIDS, disk_mb: int = DISK_MB) -> tuple[float, Box]:
        """Run a container and ``true`` in it."""
        began = perf_counter()
        box = self.make(memory_mb=memory_mb, pids=pids, disk_mb=disk_mb)
        await box.true()
        return perf_counter() - began, box

    async def crowd(self, count: int, *, egress: bool = False) -> Crowd:
        """Run all, exec in all, remove all."""
        return threads.crowd(
            count,
            lambda: self.make(egress=egress),
            lambda box: docker("exec", box.container_id, "true"),
            lambda box: docker("rm", "--force", "--volumes", box.container_id),
        )

    async def aclose(self) -> None:
        """Leave it to `Plain.aclose`, which finds the containers by their label."""
