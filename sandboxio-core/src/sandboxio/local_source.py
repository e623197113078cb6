"""A file or tree of this machine that is uploaded."""

import os
import stat
from dataclasses import dataclass
from typing import Literal

from sandboxio.errors import FileSystemError
from sandboxio.local_target import FOLDER, NOT_A_LINK
from sandboxio.tree_rules import PERMISSIONS

READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
"""Without waiting: opening a FIFO that was put in place of a file would wait for its other end."""

Kind = Literal["file", "folder", "link"]


@dataclass(frozen=True, slots=True)
class Found:
    """What stands at one name.

    :param target: what a link holds.
    """

    kind: Kind
    mode: int
    modified: float
    target: str = ""


class LocalSource:
    """What is uploaded, read by descriptors; links are followed at the top only. Blocking, for one thread at a time."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._folders: list[int] = []
        self._file = -1

    def begin(self) -> Found:
        """Open the top, and say what it is."""
        found = _found(os.stat(self._path), self._path)  # noqa: PTH116 - a Path would write the name anew
        if found.kind == "folder":
            self._folders.append(os.open(self._path, FOLDER))
            return found
        self._file = os.open(self._path, READ)
        return _found(os.fstat(self._file), self._path)

    def names(self) -> list[str]:
        """Return the names in the directory that is open, sorted."""
        return sorted(os.listdir(self._folders[-1]))  # noqa: PTH208 - of a descriptor

    def look(self, name: str, shown: str) -> Found:
        """Say what stands at a name of the directory that is open, and open it if it is a file or directory."""
        here = self._folders[-1]
        status = os.stat(name, dir_fd=here, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return Found("link", 0, status.st_mtime, os.readlink(name, dir_fd=here))
        found = _found(status, shown)
        if found.kind == "folder":
            self._folders.append(os.open(name, FOLDER | NOT_A_LINK, dir_fd=here))
            return found
        self._file = os.open(name, READ | NOT_A_LINK, dir_fd=here)
        # Looked at again, in case it was replaced in between.
        return _found(os.fstat(self._file), shown)

    def read(self, size: int) -> bytes:
        """Return the next part of the file that is open, closing it at its end."""
        data = os.read(self._file, size)
        if not data:
            self.close_file()
        return data

    def close_file(self) -> None:
        """Close the file that is open, if one is."""
        if self._file >= 0:
            file, self._file = self._file, -1
            os.close(file)

    def leave(self) -> None:
        """Close the directory that is open."""
        os.close(self._folders.pop())

    def close(self) -> None:
        """Close everything."""
        self.close_file()
        while self._folders:
            self.leave()


def _found(status: os.stat_result, shown: str) -> Found:
    if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
        raise FileSystemError(f"{shown!r} on this machine is no regular file, directory or link", errno=22)
    kind: Kind = "folder" if stat.S_ISDIR(status.st_mode) else "file"
    return Found(kind, status.st_mode & PERMISSIONS, status.st_mtime)
