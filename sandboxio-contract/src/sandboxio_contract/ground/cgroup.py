"""What the host's control groups say about a process, on both versions of the kernel's interface."""

from pathlib import Path

from sandboxio_contract.verdict import Inconclusive

ROOT = Path("/sys/fs/cgroup")


def memory_and_swap_peak(pid: int) -> int:
    """Return the peak of memory and swap together of a process's control group, bytes.

    :raises Inconclusive: this kernel does not count it.
    """
    groups = _groups(pid)
    try:
        if "memory" in groups:
            return _number(ROOT / "memory" / groups["memory"] / "memory.memsw.max_usage_in_bytes")
        folder = ROOT / groups[""]
        # Two peaks at different moments: their sum is an upper bound, so it can convict wrongly but never acquit.
        return _number(folder / "memory.peak") + _number(folder / "memory.swap.peak")
    except (OSError, KeyError, ValueError) as error:
        raise Inconclusive(f"this kernel keeps no peak of memory and swap: {error}") from error


def process_count(pid: int) -> int:
    """Return how many processes and threads a process's control group holds.

    :raises Inconclusive: there is no such counter.
    """
    groups = _groups(pid)
    try:
        folder = ROOT / "pids" / groups["pids"] if "pids" in groups else ROOT / groups[""]
        return _number(folder / "pids.current")
    except (OSError, KeyError, ValueError) as error:
        raise Inconclusive(f"this kernel does not count a control group's processes: {error}") from error


def _groups(pid: int) -> dict[str, str]:
    """Map each controller (``""`` for the unified hierarchy) to the process's group."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise Inconclusive(f"the sandbox's first process can't be seen on this host: {error}") from error
    found: dict[str, str] = {}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            found[controller] = path.lstrip("/")
    return found


def _number(path: Path) -> int:
    return int(path.read_text(encoding="ascii").strip())
