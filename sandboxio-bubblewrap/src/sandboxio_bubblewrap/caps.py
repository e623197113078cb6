"""The concrete caps of one sandbox: every default resolved, nothing unlimited, nothing beyond the host."""

from collections.abc import Mapping
from dataclasses import dataclass

from sandboxio.errors import ConfigurationError
from sandboxio.policy import Resources

DEFAULTS = {"cpu": 1.0, "memory_mb": 512, "disk_mb": 256, "pids": 256}
"""Cores, MiB, MiB, processes and threads; lowered to what a smaller host has."""
MINIMA = {"cpu": 0.01, "memory_mb": 32, "disk_mb": 1, "pids": 16}
"""The first is the kernel's own for the period that is used; of memory and processes something has to be left for the program."""
PERIOD_US = 100_000
"""Microseconds in which the CPU's quota is counted, so that a core is divided into as many parts."""
DISK_PART = 2
"""What is written is memory: at most one part in this many, or who writes is killed instead of being told that the disk is full."""
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
    cpu = _value(resources, "cpu", maxima)
    if round(cpu * PERIOD_US) / PERIOD_US != cpu:
        near = round(cpu * PERIOD_US) / PERIOD_US
        raise ConfigurationError(
            f"Resources(cpu={cpu!r}): a core is divided into {PERIOD_US} parts", hint=f"pass cpu={near!r}"
        )
    memory_mb, disk_mb, pids = (int(_value(resources, name, maxima)) for name in ("memory_mb", "disk_mb", "pids"))
    most = memory_mb // DISK_PART
    if disk_mb > most:
        if resources.disk_mb is not None:
            raise ConfigurationError(
                f"Resources(disk_mb={disk_mb}) is over half of the memory, {memory_mb} MiB, which holds what is written",
                hint=f"ask for at most disk_mb={most}, or for memory_mb={disk_mb * DISK_PART}",
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
            f"Resources({name}={asked!r}) is over what this machine has: {most:g}",
            hint=f"ask for at most {most:g}, or use a larger machine",
        )
    if asked < MINIMA[name]:
        raise ConfigurationError(
            f"Resources({name}={asked!r}) is under the minimum: {MINIMA[name]:g}",
            hint=f"ask for {MINIMA[name]:g} or more",
        )
    return asked
