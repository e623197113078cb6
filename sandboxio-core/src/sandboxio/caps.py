"""How adapters choose caps where a host takes any number of them: defaults filled in, bounds kept, nothing rounded."""

from collections.abc import Mapping
from dataclasses import dataclass

from sandboxio.errors import ConfigurationError
from sandboxio.policy import Resources

IN_MEMORY = 2
"""Where what is written is held in memory, it may be one part in this many at most: more, and who writes is killed for want
of memory instead of being told that the disk is full."""


@dataclass(frozen=True, slots=True)
class CapRules:
    """What one kind of host takes, by the names of the fields of `Resources`.

    :ivar defaults: what is set where nothing is asked for; lowered to what a smaller host has.
    :ivar minima: the least that may be asked for.
    :ivar cpu_parts: into how many parts such a host divides a core.
    :ivar divided: the same in words, for the error.
    :ivar most: what a maximum is one of, for the error: "over ``most``: 4".
    :ivar larger: what has more.
    """

    defaults: Mapping[str, float]
    minima: Mapping[str, float]
    cpu_parts: int
    divided: str
    most: str
    larger: str

    def cpu(self, resources: Resources, maxima: Mapping[str, float]) -> float:
        """Return the cores. :raises ConfigurationError: more or fewer than can be had, or a part that can't be set."""
        cpu = self._value(resources, "cpu", maxima)
        near = round(cpu * self.cpu_parts) / self.cpu_parts
        if near != cpu:
            raise ConfigurationError(f"Resources(cpu={cpu!r}): {self.divided}", hint=f"pass cpu={near!r}")
        return cpu

    def whole(self, resources: Resources, name: str, maxima: Mapping[str, float]) -> int:
        """Return one of the other caps. :raises ConfigurationError: more or less than can be had."""
        return int(self._value(resources, name, maxima))

    def _value(self, resources: Resources, name: str, maxima: Mapping[str, float]) -> float:
        asked: float | None = getattr(resources, name)
        most = maxima.get(name)
        if asked is None:
            return self.defaults[name] if most is None else min(self.defaults[name], most)
        if most is not None and asked > most:
            raise ConfigurationError(
                f"Resources({name}={asked!r}) is over {self.most}: {most:g}",
                hint=f"ask for at most {most:g}, or use {self.larger}",
            )
        if asked < self.minima[name]:
            raise ConfigurationError(
                f"Resources({name}={asked!r}) is under the minimum: {self.minima[name]:g}",
                hint=f"ask for {self.minima[name]:g} or more",
            )
        return asked


def disk_in_memory(resources: Resources, disk_mb: int, memory_mb: int, over: str) -> int:
    """Return the cap of a disk that is held in memory: a default that is too large is lowered.

    :param over: says what a ``disk_mb`` that was asked for is over.
    :raises ConfigurationError: it was asked for, and is too large.
    """
    most = memory_mb // IN_MEMORY
    if resources.disk_mb is not None and disk_mb > most:
        raise ConfigurationError(
            f"Resources(disk_mb={disk_mb}) is {over}",
            hint=f"ask for at most disk_mb={most}, or for memory_mb={disk_mb * IN_MEMORY}",
        )
    return min(disk_mb, most)
