"""The concrete caps of one sandbox: every default resolved, nothing unlimited, nothing beyond the host."""

from collections.abc import Mapping
from dataclasses import dataclass

from sandboxio.caps import CapRules, disk_in_memory
from sandboxio.policy import Resources

PERIOD_US = 100_000
"""Microseconds in which the CPU's quota is counted, so that a core is divided into as many parts."""
RULES = CapRules(
    defaults={"cpu": 1.0, "memory_mb": 512, "disk_mb": 256, "pids": 256},
    minima={"cpu": 0.01, "memory_mb": 32, "disk_mb": 1, "pids": 16},
    cpu_parts=PERIOD_US,
    divided=f"a core is divided into {PERIOD_US} parts",
    most="what this machine has",
    larger="a larger machine",
)
"""Minima: of cpu, the kernel's own for that period; of memory_mb and pids, so that something is left for the program."""
SHM_MB = 64
OPEN_FILES = (1024, 4096)
"""Soft and hard limit of open files per process."""
QUEUED_SIGNALS = 1024
MESSAGE_QUEUES = 409_600
"""Signals, and bytes of POSIX message queues; the kernel counts both by user id."""


@dataclass(frozen=True, slots=True)
class Caps:
    """What will be set."""

    cpu: float
    memory_mb: int
    disk_mb: int
    pids: int

    @property
    def quota_us(self) -> int:
        """Microseconds of a core's time in each period."""
        return round(self.cpu * PERIOD_US)

    @property
    def shm_mb(self) -> int:
        """MiB of ``/dev/shm``."""
        return min(SHM_MB, self.memory_mb)


def resolve(resources: Resources, maxima: Mapping[str, float]) -> Caps:
    """Fill in the defaults and refuse what the host does not have.

    :raises ConfigurationError: a value outside what can be set, naming the bound.
    """
    cpu = RULES.cpu(resources, maxima)
    memory_mb = RULES.whole(resources, "memory_mb", maxima)
    over = f"over half of the memory, {memory_mb} MiB, which holds what is written"
    disk_mb = disk_in_memory(resources, RULES.whole(resources, "disk_mb", maxima), memory_mb, over)
    return Caps(cpu, memory_mb, disk_mb, RULES.whole(resources, "pids", maxima))
