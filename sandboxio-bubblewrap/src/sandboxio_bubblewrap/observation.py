"""What the kernel says of one sandbox, in the units of the receipts; compared before anything runs."""

import os
import re
from pathlib import Path

from sandboxio.isolation import IsolationTier
from sandboxio.port import Observation

from sandboxio_bubblewrap import cgroups, network, state
from sandboxio_bubblewrap.rootfs import SHARED_MEMORY

SPACES = ("mnt", "pid", "ipc", "uts", "user", "cgroup")
CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
FILTERED = "2"


def inside(record: state.Record) -> int | None:
    """Return this machine's number of the sandbox's own first process; ``None`` while, or when, there is none."""
    for pid in sorted(cgroups.processes(record["groups"])):
        numbers = _status(pid).get("NSpid", "").split()
        if len(numbers) > 1 and numbers[-1] == "1":
            return pid
    return None


def observe(record: state.Record) -> Observation | None:
    """Read one sandbox; ``None`` if it is gone. What can't be read is left out, and then nothing was attested."""
    groups: list[str] = record["groups"]
    if not state.is_alive(record) and not cgroups.processes(groups):
        return None
    applied: dict[str, object] = {"labels": dict(record["labels"])}
    try:
        applied |= cgroups.applied(record["version"], groups)
        pid = inside(record)
        if pid is not None:
            applied |= {
                "network.egress": _egress(pid, record["network"]),
                "disk": _disk(pid),
                "isolation": _isolation(pid, record),
            }
    except (OSError, ValueError):
        pass  # it may be ending at this moment
    return Observation(
        sandbox_id=record["name"],
        name=record["name"],
        state="running",
        labels=dict(record["labels"]),
        created_at=record["created"],
        expires_at=record["expires"],
        applied=applied,
    )


def _status(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    return {name: value for name, _, value in (line.partition(":\t") for line in lines)}


def _space(pid: int | str, name: str) -> str:
    return os.readlink(f"/proc/{pid}/ns/{name}")  # noqa: PTH115 - a link whose text is all there is


def _egress(pid: int, planned: network.Network | None) -> str:
    if _space(pid, "net") == _space("self", "net"):
        return "allow"
    lines = Path(f"/proc/{pid}/net/dev").read_text(encoding="ascii").splitlines()[2:]
    others = [name for line in lines if (name := line.partition(":")[0].strip()) != "lo"]
    if planned is not None and others == ["eth0"]:
        if not network.holds(planned):
            return "a link without its rules"
        return "allow" if planned["allow"] is None else "deny"
    return f"interfaces {', '.join(others)}" if others else "deny"


def _disk(pid: int) -> object:
    """Return the size of the root, the one place that can be written to; what else is there but ``/dev/shm`` is read-only."""
    size: object = None
    for line in Path(f"/proc/{pid}/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        head, _, tail = line.partition(" - ")
        place, options = head.split()[4:6]
        kind, _, settings = tail.split(" ", 2)
        if place == "/":
            found = re.search(r"(?:^|,)size=(\d+)k(?:,|$)", settings)
            size = int(found[1]) / 1024 if kind == "tmpfs" and found else None
        elif kind == "tmpfs" and "rw" in options.split(",") and place != SHARED_MEMORY:
            return f"another place to write to: {place}"
    return int(size) if isinstance(size, float) and size.is_integer() else size


def _isolation(pid: int, record: state.Record) -> str:
    """Return the tier, or in which way the sandbox is weaker than what was asked for."""
    status = _status(pid)
    wrong = [f"the {name} namespace" for name in SPACES if _space(pid, name) == _space("self", name)]
    wrong += [name for name in CAPABILITIES if int(status.get(name, "1"), 16)]
    if status.get("NoNewPrivs") != "1":
        wrong.append("privileges that can be gained")
    if status.get("Seccomp") != FILTERED:
        wrong.append("no system call filter")
    if set(status.get("Uid", "").split()) != {str(record["uid"])}:
        wrong.append("another user")
    return f"weakened by {', '.join(wrong)}" if wrong else IsolationTier.CONTAINER.value
