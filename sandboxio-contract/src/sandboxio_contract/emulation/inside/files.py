"""What is done with files inside, each call in a process of its own that is the user who is named."""

import os
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Say = Callable[..., None]
"""Sends an answer: its fields as keywords, and ``descriptors``."""


def open_file(say: Say, path: str, flags: int, mode: int) -> None:
    """Hand an open file over."""
    descriptor = os.open(path, flags, mode)
    say(descriptors=[descriptor])


def stat_path(say: Say, path: str) -> None:
    """Tell about one path, links not followed."""
    say(entry=entry(path))


def list_directory(say: Say, path: str, depth: int) -> None:
    """Tell about what is in a directory, down to some depth; in pieces, since there may be much."""
    found: list[dict[str, Any]] = []
    for one in walk(path, depth):
        found.append(one)
        if len(found) == 100:
            say(entries=found, more=True)
            found = []
    say(entries=found)


def make_directories(say: Say, path: str) -> None:
    """Make a directory with all above it; tell whether it was not there."""
    if Path(path).is_dir():
        say(made=False)
        return
    Path(path).mkdir(parents=True)
    say(made=True)


def rename(say: Say, old: str, new: str) -> None:
    """Rename."""
    Path(new).parent.mkdir(parents=True, exist_ok=True)
    Path(old).rename(new)
    say()


def remove(say: Say, path: str) -> None:
    """Remove a file or a whole tree; what is not there is removed already."""
    if Path(path).is_dir() and not Path(path).is_symlink():
        shutil.rmtree(path)
    else:
        Path(path).unlink(missing_ok=True)
    say()


CALLS: Mapping[str, Callable[..., None]] = {
    "open": open_file,
    "stat": stat_path,
    "list": list_directory,
    "make_directories": make_directories,
    "rename": rename,
    "remove": remove,
}


def entry(path: str) -> dict[str, Any]:
    """Describe one path."""
    seen = os.lstat(path)
    kind = "directory" if stat.S_ISDIR(seen.st_mode) else "symlink" if stat.S_ISLNK(seen.st_mode) else "file"
    target = str(Path(path).readlink()) if kind == "symlink" else None
    return {
        "path": path,
        "kind": kind,
        "size": seen.st_size,
        "mode": stat.S_IMODE(seen.st_mode),
        "uid": seen.st_uid,
        "gid": seen.st_gid,
        "modified": seen.st_mtime,
        "target": target,
    }


def walk(path: str, depth: int) -> "list[dict[str, Any]]":
    """Describe what is below a directory."""
    found: list[dict[str, Any]] = []
    for name in sorted(os.listdir(path)):  # noqa: PTH208 - names only
        one = entry(f"{path.rstrip('/')}/{name}")
        found.append(one)
        if depth > 1 and one["kind"] == "directory":
            found += walk(one["path"], depth - 1)
    return found
