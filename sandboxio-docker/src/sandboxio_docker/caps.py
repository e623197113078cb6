"""The concrete caps of one sandbox: every default resolved, nothing unlimited, nothing beyond the host."""

from collections.abc import Mapping
from dataclasses import dataclass

from sandboxio.errors import ConfigurationError
from sandboxio.policy import Resources

DEFAULTS = {"cpu": 1.0, "memory_mb": 512, "disk_mb": 1024, "pids": 256}
"""Cores, MiB, MiB, processes and threads; lowered to what a smaller host has."""
MINIMA = {"cpu": 0.01, "memory_mb": 32, "disk_mb": 1, "pids": 16}
"""cpu: the engine's own. memory_mb, pids: chosen, so that something is left for the program. What sandboxio itself needs was
measured (2026-11, Docker 20.10, Python 3.11): the agent, a command and a pipeline beside it fit in 12 MiB and 8 processes,
not in 8 MiB and 6."""
READ_ONLY_PART = 2
"""Of the memory, what may be written where that is memory (`DockerConfig.read_only`) is at most one part in this many: more,
and who writes is killed for want of memory instead of being told that the disk is full."""
SHM_MB = 64
OPEN_FILES = (1024, 4096)
"""Soft and hard limit of open files per process; unset it is inherited from the engine (20,000 was seen)."""
QUEUED_SIGNALS = 1024
MESSAGE_QUEUES = 409_600
"""Signals, and bytes of POSIX message queues. The kernel counts both by user id, for root in a sandbox together with root of the
host, and compares with the limit of whoever asks: with limits below the host's own (96,362 and 819,200 were seen) something
is left for it. Without them a sandbox kept the host's root from making a timer or a queue (measured, Docker 20.10, 2026-11)."""


@dataclass(frozen=True, slots=True)
class Caps:
    """What will be set."""

    cpu: float
    memory_mb: int
    disk_mb: int
    pids: int

    @property
    def nano_cpus(self) -> int:
        """Billionths of a core, which is what the engine counts."""
        return round(self.cpu * 1_000_000_000)

    @property
    def shm_mb(self) -> int:
        """MiB of ``/dev/shm``; its pages count as memory, so more than the memory would be no bound."""
        return min(SHM_MB, self.memory_mb)


def resolve(resources: Resources, maxima: Mapping[str, float], *, disk_is_memory: bool = False) -> Caps:
    """Fill in the defaults and refuse what the host does not have.

    :param disk_is_memory: whether what is written is held in memory.
    :raises ConfigurationError: a value outside what the engine takes, naming the bound.
    """
    cpu = _value(resources, "cpu", maxima)
    if round(cpu * 1e9) / 1e9 != cpu:
        raise ConfigurationError(
            f"Resources(cpu={cpu!r}): Docker counts billionths of a core",
            hint=f"pass cpu={round(cpu * 1e9) / 1e9!r}",
        )
    memory_mb, disk_mb, pids = (int(_value(resources, name, maxima)) for name in ("memory_mb", "disk_mb", "pids"))
    most = memory_mb // READ_ONLY_PART
    if disk_is_memory and disk_mb > most:
        if resources.disk_mb is not None:
            raise ConfigurationError(
                f"Resources(disk_mb={disk_mb}) is over half the memory, which holds what is written under read_only=True",
                hint=f"ask for at most disk_mb={most}, or for memory_mb={disk_mb * READ_ONLY_PART}",
            )
        disk_mb = most
    return Caps(cpu, memory_mb, disk_mb, pids)


def _value(resources: Resources, name: str, maxima: Mapping[str, float]) -> float:
    asked: float | None = getattr(resources, name)
    most = maxima.get(name)
    if asked is None:
        return DEFAULTS[name] if most is None else min(DEFAULTS[name], most)
    if most is not None and asked > most:
        raise ConfigurationError(
            f"Resources({name}={asked!r}) is over the maximum of this Docker engine: {most:g}",
            hint=f"ask for at most {most:g}, or use a larger host",
        )
    if asked < MINIMA[name]:
        raise ConfigurationError(
            f"Resources({name}={asked!r}) is under the minimum: {MINIMA[name]:g}",
            hint=f"ask for {MINIMA[name]:g} or more",
        )
    return asked
