"""What the kernel says of a process."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Footprint:
    """One look at a process.

    :ivar rss_kib: resident memory, ``peak_kib`` its highest since `forget_peak`.
    :ivar switches: context switches of all threads; a process that polls has more of them after a while.
    :ivar cpu: seconds of processor time.
    """

    rss_kib: int
    peak_kib: int
    threads: int
    descriptors: int
    switches: int
    cpu: float


def look(pid: int | str = "self") -> Footprint:
    """Look at a process of this user."""
    folder = Path(f"/proc/{pid}")
    status = _fields(folder / "status")
    tasks = [_fields(path / "status") for path in (folder / "task").iterdir()]
    switches = sum(int(task["voluntary_ctxt_switches"]) + int(task["nonvoluntary_ctxt_switches"]) for task in tasks)
    # The time of each thread in nanoseconds; /proc/PID/stat counts in hundredths of a second only.
    cpu = sum(int((path / "schedstat").read_text().split()[0]) for path in (folder / "task").iterdir()) / 1e9
    return Footprint(
        rss_kib=int(status["VmRSS"].split()[0]),
        peak_kib=int(status["VmHWM"].split()[0]),
        threads=int(status["Threads"]),
        descriptors=sum(1 for _ in (folder / "fd").iterdir()),
        switches=switches,
        cpu=cpu,
    )


def forget_peak() -> None:
    """Let ``peak_kib`` begin anew with what is resident now."""
    Path("/proc/self/clear_refs").write_text("5")


def reaper_pid() -> int:
    """Return this process's reaper; it is no child, so that nobody has to wait for it."""
    from sandboxio_docker.endpoint import resolve
    from sandboxio_docker.reaper import reaper_for

    pid = reaper_for(resolve(None)).pid
    assert pid is not None
    return pid


def answer(values: Mapping[str, object]) -> None:
    """Print a probe's result."""
    sys.stdout.write(json.dumps(values) + "\n")


def _fields(path: Path) -> dict[str, str]:
    pairs = (line.partition(":") for line in path.read_text().splitlines())
    return {name: value.strip() for name, _, value in pairs}
