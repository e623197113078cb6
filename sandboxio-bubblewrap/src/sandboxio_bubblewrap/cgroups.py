"""Control groups of both versions: where they may be made, made with caps, read back, emptied and removed.

Standard library only: the warden's process uses it, too.
"""

import os
import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MOUNTED = Path("/sys/fs/cgroup")
CONTROLLERS = ("memory", "pids", "cpu")
PREFIX = "sandboxio-"
OWN = "sandboxio"
"""The group under the root of version 2 in which root's sandboxes are, where its own group holds processes."""
OWNERS = "owner"
"""Of a group of version 2 that was delegated to this process, the leaf into which its processes go."""
PERIOD_US = 100_000
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Home:
    """Where groups may be made: one folder for each of `CONTROLLERS`, the same one in version 2."""

    version: int
    folders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Homeless:
    """No group can be made here."""

    reason: str
    fix: str


def find_home(
    asked: str | None, *, mounted: Path = MOUNTED, own: Path = Path("/proc/self/cgroup"), uid: int | None = None
) -> Home | Homeless:
    """Look for a place; nothing is changed.

    :param asked: the path that the caller names, below each controller's folder.
    :param uid: whose permissions count; this process's.
    """
    uid = os.geteuid() if uid is None else uid
    if (mounted / "cgroup.controllers").exists():
        return _find_unified(asked, mounted, own, uid)
    return _find_split(asked, mounted, own, uid)


def _find_split(asked: str | None, mounted: Path, own: Path, uid: int) -> Home | Homeless:
    missing = [name for name in CONTROLLERS if not (mounted / name).is_dir()]
    if missing:
        return Homeless(
            f"no control groups for {', '.join(missing)} are mounted at {mounted}",
            "mount them: boot with systemd, or with cgroup version 2",
        )
    groups = _own_groups(own)
    folders: list[str] = []
    for name in CONTROLLERS:
        paths = [asked] if asked is not None else [groups.get(name, "/"), *(["/"] if uid == 0 else [])]
        places = [mounted / name / path.lstrip("/") for path in paths]
        usable = [place for place in places if place.is_dir() and os.access(place, os.W_OK | os.X_OK)]
        if not usable:
            what = f"{places[0]} is not there, or not writable for user {uid}"
            return Homeless(f"no control group can be made: {what}", _split_fix(uid))
        folders.append(str(usable[0]))
    if not (Path(folders[0]) / "memory.memsw.limit_in_bytes").exists():
        return Homeless("the kernel does not count swap", "boot with swapaccount=1 on the kernel's command line")
    return Home(1, tuple(folders))


def _split_fix(uid: int) -> str:
    return (
        f"have root give you one: for c in {' '.join(CONTROLLERS)}; do mkdir {MOUNTED}/$c/given && chown {uid} {MOUNTED}/$c/given;"
        " done; then name it: bubblewrap://?cgroup=/given"
    )


def _find_unified(asked: str | None, mounted: Path, own: Path, uid: int) -> Home | Homeless:
    path = _own_groups(own).get("", "/")
    names = [asked] if asked is not None else [path, *([f"/{OWN}"] if uid == 0 else [])]
    reasons: list[str] = []
    for name in names:
        place = mounted / name.lstrip("/")
        if name == f"/{OWN}" and not place.exists():
            place = mounted  # it is made there
        why = _unfit(place, mine=name == path, is_root=place == mounted)
        if why is None:
            folder = mounted / OWN if place == mounted and uid == 0 and asked is None else place
            return Home(2, (str(folder),) * len(CONTROLLERS))
        reasons.append(f"{place}: {why}")
    return Homeless(f"no control group can be made: {'; '.join(reasons)}", _unified_fix(uid))


def _unfit(place: Path, *, mine: bool, is_root: bool) -> str | None:
    if not place.is_dir():
        return "it is not there"
    if not (os.access(place, os.W_OK | os.X_OK) and os.access(place / "cgroup.procs", os.W_OK)):
        return "it is not writable"
    offered = set(_words(place / "cgroup.controllers"))
    if missing := [name for name in CONTROLLERS if name not in offered]:
        return f"it has no controller for {', '.join(missing)}"
    if set(CONTROLLERS) <= set(_words(place / "cgroup.subtree_control")) or is_root:
        return None
    if not os.access(place / "cgroup.subtree_control", os.W_OK):
        return "its controllers can't be handed on"
    if _words(place / "cgroup.procs") and not (mine and _is_delegated(place)):
        return "it holds processes and was not delegated"
    return None


def _unified_fix(uid: int) -> str:
    return (
        "run this program in a group that is delegated to it: systemd-run --user --scope -p Delegate=yes -- PROGRAM; or have"
        f" root give you one that this program is in, with memory, pids and cpu in its parent's cgroup.subtree_control: mkdir"
        f" {MOUNTED}/given && chown -R {uid} {MOUNTED}/given; then name it: bubblewrap://?cgroup=/given"
    )


def _is_delegated(place: Path) -> bool:
    """Whether systemd says that this group is ours to arrange (``Delegate=yes``)."""
    for name in ("user.delegate", "trusted.delegate"):
        with suppress(OSError):
            if os.getxattr(place, name) == b"1":
                return True
    return False


def _own_groups(own: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    with suppress(OSError):
        for line in own.read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            found |= dict.fromkeys(controllers.split(","), path)
    return found


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").split()
    except OSError:
        return []


def ready(home: Home) -> None:
    """Have the controllers of a home handed on to the groups in it; repeating it does nothing."""
    place = Path(home.folders[0])
    if home.version == 1:
        return
    if place.parent == MOUNTED and place.name == OWN:
        _hand_on(MOUNTED)
        place.mkdir(exist_ok=True)
    elif not set(CONTROLLERS) <= set(_words(place / "cgroup.subtree_control")):
        leaf = place / OWNERS
        leaf.mkdir(exist_ok=True)
        for pid in _words(place / "cgroup.procs"):
            with suppress(ProcessLookupError):
                (leaf / "cgroup.procs").write_text(pid, encoding="ascii")
    _hand_on(place)


def _hand_on(place: Path) -> None:
    if not set(CONTROLLERS) <= set(_words(place / "cgroup.subtree_control")):
        words = " ".join(f"+{name}" for name in CONTROLLERS)
        (place / "cgroup.subtree_control").write_text(words, encoding="ascii")


def groups_of(home: Home, name: str) -> tuple[str, ...]:
    """Return the folders of a sandbox's groups, each once."""
    return tuple(dict.fromkeys(f"{folder}/{PREFIX}{name}" for folder in home.folders))


def make(version: int, groups: Iterable[str], caps: Mapping[str, int]) -> None:
    """Make groups with caps.

    :param caps: ``memory`` (bytes, swap included), ``pids``, ``quota_us`` (in each `PERIOD_US`).
    """
    for group in groups:
        os.mkdir(group)  # noqa: PTH102 - one system call
    settings = _split(*groups, caps=caps) if version == 1 else _unified(*groups, caps=caps)
    for path, value in settings:
        Path(path).write_text(value, encoding="ascii")


def _split(memory: str, pids: str, cpu: str, *, caps: Mapping[str, int]) -> tuple[tuple[str, str], ...]:
    return (
        (f"{memory}/memory.limit_in_bytes", str(caps["memory"])),
        (f"{memory}/memory.memsw.limit_in_bytes", str(caps["memory"])),
        (f"{pids}/pids.max", str(caps["pids"])),
        (f"{cpu}/cpu.cfs_period_us", str(PERIOD_US)),
        (f"{cpu}/cpu.cfs_quota_us", str(caps["quota_us"])),
    )


def _unified(group: str, *, caps: Mapping[str, int]) -> tuple[tuple[str, str], ...]:
    swap = f"{group}/memory.swap.max"
    return (
        (f"{group}/memory.max", str(caps["memory"])),
        *(((swap, "0"),) if Path(swap).exists() else ()),  # not there where the kernel has no swap
        (f"{group}/pids.max", str(caps["pids"])),
        (f"{group}/cpu.max", f"{caps['quota_us']} {PERIOD_US}"),
    )


def applied(version: int, groups: Iterable[str]) -> dict[str, object]:
    """Return the caps that hold, by policy item and in the units of receipts; :raises OSError, ValueError: unreadable."""
    if version == 1:
        memory, pids, cpu = groups
        limit = _number(f"{memory}/memory.limit_in_bytes")
        swap = _number(f"{memory}/memory.memsw.limit_in_bytes") - limit
        quota, period = (_number(f"{cpu}/cpu.cfs_{name}_us") for name in ("quota", "period"))
    else:
        (pids,) = groups
        limit, path = _number(f"{pids}/memory.max"), Path(f"{pids}/memory.swap.max")
        swap = _number(str(path)) if path.exists() else 0
        quota, period = map(int, _words(Path(f"{pids}/cpu.max")))
    return {
        "cpu": quota / period,
        "memory": limit // MIB if limit % MIB == 0 else limit / MIB,
        "memory.swap": swap // MIB if swap % MIB == 0 else swap / MIB,
        "pids": _number(f"{pids}/pids.max"),
    }


def _number(path: str) -> int:
    return int(Path(path).read_text(encoding="ascii"))


def processes(groups: Iterable[str]) -> set[int]:
    """Return the processes in any of the groups."""
    return {int(pid) for group in groups for pid in _words(Path(group, "cgroup.procs"))}


def kill(groups: Iterable[str], spare: int = 0) -> bool:
    """Send SIGKILL to what is in the groups but one process; true if nothing was. Nobody else's process is ever in them."""
    found = processes(groups) - {spare}
    for pid in found:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return not found


def remove(groups: Iterable[str]) -> bool:
    """Remove empty groups; false if one is still in use."""
    done = True
    for group in groups:
        try:
            os.rmdir(group)  # noqa: PTH106 - one system call
        except FileNotFoundError:
            continue
        except OSError:
            done = False
    return done


def end(groups: tuple[str, ...], within: float) -> bool:
    """Kill and remove, waiting for at most ``within`` seconds; true if nothing is left."""
    until = time.monotonic() + within
    while not (kill(groups) and remove(groups)):
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True
