"""The concrete caps of one sandbox: every default resolved, nothing unlimited, nothing beyond the host."""

from collections.abc import Mapping
from dataclasses import dataclass

from sandboxio.caps import CapRules, disk_in_memory
from sandboxio.policy import Resources

RULES = CapRules(
    defaults={"cpu": 1.0, "memory_mb": 512, "disk_mb": 1024, "pids": 256},
    minima={"cpu": 0.01, "memory_mb": 32, "disk_mb": 1, "pids": 16},
    cpu_parts=1_000_000_000,
    divided="Docker counts billionths of a core",
    most="the maximum of this Docker engine",
    larger="a larger host",
)
"""Minima: of cpu, the engine's own; of memory_mb and pids, chosen, so that something is left for the program. What sandboxio
itself needs was measured (2026-11, Docker 20.10, Python 3.11): the agent, a command and a pipeline beside it fit in 12 MiB
and 8 processes, not in 8 MiB and 6."""
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
    cpu = RULES.cpu(resources, maxima)
    memory_mb = RULES.whole(resources, "memory_mb", maxima)
    disk_mb = RULES.whole(resources, "disk_mb", maxima)
    if disk_is_memory:
        over = "over half the memory, which holds what is written under read_only=True"
        disk_mb = disk_in_memory(resources, disk_mb, memory_mb, over)
    return Caps(cpu, memory_mb, disk_mb, RULES.whole(resources, "pids", maxima))
