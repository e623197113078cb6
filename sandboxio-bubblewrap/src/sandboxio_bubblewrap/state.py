"""The folder in which each sandbox of a user has a record, readable for that user's other processes.

Standard library only: the warden's process uses it, too. A record whose warden is gone is stale: a warden takes its sandboxes
with it. Whether it is gone is told by its start time, never by its process id alone, which another process may have by now.
"""

import fcntl
import json
import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from . import cgroups, network

SUFFIX = ".json"
_START = 19
"""Which field of ``/proc/PID/stat``, behind the name, is the start time (proc(5): field 22)."""
_STATE = 0
SWEEP = 2.0

Record = dict[str, Any]
"""``name``, ``warden`` and ``first`` (pid and start), ``boot``, ``created``, ``expires``, ``labels``, ``version`` (of the control
groups), ``groups``, ``uid`` (of the sandbox on the host), ``network`` (see `network.Network`; ``None``: it has none that leads out)."""


def folder(uid: int | None = None) -> Path:
    """Return this user's folder, made if it is not there; nothing of the environment decides where it is.

    :raises PermissionError: it is there and somebody else's.
    """
    uid = os.geteuid() if uid is None else uid
    own = Path(f"/run/user/{uid}")
    if uid == 0 and os.access("/run", os.W_OK):
        place = Path("/run/sandboxio-bubblewrap")
    elif own.is_dir() and own.stat().st_uid == uid and os.access(own, os.W_OK):
        place = own / "sandboxio-bubblewrap"
    else:
        place = Path(f"/tmp/sandboxio-bubblewrap-{uid}")  # noqa: S108 - checked below
    # Root's sandboxes run as other users, who have to get to the roots that are staged there.
    mode = 0o711 if uid == 0 else 0o700
    with suppress(FileExistsError):
        place.mkdir(mode=mode)
        place.chmod(mode)
    found = place.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != uid or found.st_mode & 0o022:
        message = f"{place} is not a directory of user {uid} alone"
        raise PermissionError(message)
    return place


def start_of(pid: int) -> str | None:
    """Return what tells a process from an earlier or later one of the same id; ``None`` if there is none, or only its remains."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[_STATE] in "ZX" else fields[_START]


def boot_id() -> str:
    """Return what tells this run of the kernel from another."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def write(record: Record) -> None:
    """Write a record, whole or not at all."""
    path = folder() / (record["name"] + SUFFIX)
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(record, file)
    new.replace(path)


def forget(name: str) -> None:
    """Remove a record; one that is gone is success."""
    (folder() / (name + SUFFIX)).unlink(missing_ok=True)


def read(name: str) -> Record | None:
    """Return one record; ``None`` if there is none, or it is unreadable."""
    if "/" in name:
        return None
    try:
        found: Any = json.loads((folder() / (name + SUFFIX)).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return cast("Record", found) if isinstance(found, dict) and found.get("name") == name else None  # pyright: ignore[reportUnknownMemberType]


def records() -> Iterator[Record]:
    """Iterate over all records."""
    for path in sorted(folder().glob("*" + SUFFIX)):
        record = read(path.name.removesuffix(SUFFIX))
        if record is not None:
            yield record


def is_kept(record: Record) -> bool:
    """Whether a warden still answers for a sandbox."""
    pid, start = record["warden"]
    return bool(record["boot"] == boot_id() and start_of(pid) == start)


def is_alive(record: Record) -> bool:
    """Whether a sandbox's first process is there."""
    pid, start = record["first"]
    return bool(record["boot"] == boot_id() and start_of(pid) == start)


def sweep() -> None:
    """Remove what wardens that are gone left behind: empty control groups and records. Others may do so at the same time."""
    with _locked():
        for record in records():
            if not is_kept(record) and (record["boot"] != boot_id() or cgroups.end(tuple(record["groups"]), SWEEP)):
                if record.get("network"):
                    network.detach(record["network"])
                forget(record["name"])


@contextmanager
def _locked() -> Generator[None]:
    descriptor = os.open(folder() / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
