"""The processes and mounts that belong to one private engine, read from /proc.

A pid alone proves nothing: it may have been given to another program since. What counts is the command line, which names our
own folders.
"""

import os
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.settings import Settings


@dataclass(frozen=True)
class Process:
    """A live process."""

    pid: int
    arguments: tuple[str, ...]

    @property
    def name(self) -> str:
        """The program's file name."""
        return Path(self.arguments[0]).name if self.arguments else ""

    def alive(self) -> bool:
        """Whether the same program still runs under this pid."""
        return read(self.pid) == self


def read(pid: int) -> Process | None:
    """Return the live process of this pid; a zombie, which has no command line, counts as dead."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return Process(pid, tuple(os.fsdecode(part) for part in line.rstrip(b"\0").split(b"\0"))) if line else None


def of(settings: Settings) -> Iterator[Process]:
    """Yield every dockerd, containerd and shim that was started for these folders."""
    ours = re.compile(rf"(--pidfile=)?({re.escape(str(settings.pid_file))}|{re.escape(str(settings.exec_root))}/.*)")
    for entry in Path("/proc").iterdir():
        process = read(int(entry.name)) if entry.name.isdecimal() else None
        if not process or not re.match("dockerd|containerd", process.name):
            continue
        if any(map(ours.fullmatch, process.arguments)) and sees_our_files(process.pid):
            yield process


def sees_our_files(pid: int) -> bool:
    """Whether a path means to this process what it means to us: in another container or chroot it names another folder."""
    try:
        theirs, ours = Path(f"/proc/{pid}"), Path("/proc/self")
        same_mounts = (theirs / "ns/mnt").readlink() == (ours / "ns/mnt").readlink()
        return same_mounts and (theirs / "root").samefile(ours / "root")
    except OSError:  # it ended, or belongs to another user
        return False


def named(settings: Settings, name: str) -> Process | None:
    """Return our process of this program name, if it runs."""
    return next((process for process in of(settings) if process.name == name), None)


def end(process: Process, patience: float) -> None:
    """Ask a process to end, and kill it when it has not within `patience` seconds."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        if process.alive():
            os.kill(process.pid, sent)
        deadline = time.monotonic() + patience
        while process.alive() and time.monotonic() < deadline:
            time.sleep(0.05)


def mounts_below(*folders: Path, table: Path = Path("/proc/self/mountinfo")) -> list[Path]:
    """Return the mount points below these folders, the innermost first."""
    lines = table.read_text().splitlines()
    points = [Path(re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), line.split()[4])) for line in lines]
    return [point for point in reversed(points) if any(point.is_relative_to(folder) for folder in folders)]
