"""The place on this machine where a download grows, and appears only when it is complete."""

import errno
import os
import secrets
import shutil
import stat
from pathlib import Path

from sandboxio.errors import IsADirectory, NotADirectory, PathExists
from sandboxio.tree_rules import PERMISSIONS

FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
NOT_A_LINK = getattr(os, "O_NOFOLLOW", 0)
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOT_A_LINK | getattr(os, "O_CLOEXEC", 0)
OWNER = 0o700
"""What a directory's owner may always do here, since it could otherwise neither be filled nor removed."""


class LocalTarget:
    """A new file or tree beside its final name, made by descriptors only.

    Everything is new and in a directory that nobody else may enter, no name is followed, each has one component: so
    nothing that a sandbox answers can make this write elsewhere. Blocking; nothing here may be called by two threads.

    :param path: where the caller wants it. An existing directory gets it under ``name``, as ``cp -r`` does.
    :param name: the remote name, ``None`` if it has none (``.``, ``/``): then ``path`` itself is the final name.
    """

    def __init__(self, path: str, name: str | None) -> None:
        self._path = path
        self._wanted = name
        self._parent = -1
        self._name = ""
        self._temporary = ""
        self._folders: list[int] = []
        self._file = -1

    def begin(self, *, folder: bool) -> None:
        """Look at the final name and make what will get it.

        :raises PathExists: something stands there that a whole new file or tree can't replace.
        """
        final = self._final(folder=folder)
        self._parent = os.open(final.parent, FOLDER)
        self._name = final.name
        self._refuse_what_stands(folder=folder)
        temporary = f".sandboxio-{secrets.token_hex(8)}"
        if folder:
            os.mkdir(temporary, OWNER, dir_fd=self._parent)
            self._temporary = temporary
            self._folders.append(os.open(temporary, FOLDER | NOT_A_LINK, dir_fd=self._parent))
        else:
            self._file = os.open(temporary, NEW, 0o600, dir_fd=self._parent)
            self._temporary = temporary

    def _final(self, *, folder: bool) -> Path:
        path = Path(self._path)
        if path.is_dir():
            path = path / self._wanted if self._wanted else Path(os.path.realpath(path))
        elif self._path.endswith("/") and not folder:
            raise NotADirectory(f"{self._path!r} on this machine is no directory")
        if path.name in ("", ".."):
            path = Path(os.path.realpath(path))
        if not path.name:
            raise PathExists(f"{self._path!r} on this machine can't be replaced")
        return path

    def _refuse_what_stands(self, *, folder: bool) -> None:
        try:
            mode = os.stat(self._name, dir_fd=self._parent, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return
        if not folder and stat.S_ISDIR(mode):
            raise IsADirectory(f"{self._path!r} on this machine: {self._name!r} is a directory")
        if not folder and not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
            raise PathExists(f"{self._path!r} on this machine: {self._name!r} is no regular file")
        if folder and not stat.S_ISDIR(mode):
            raise PathExists(f"{self._path!r} on this machine: {self._name!r} exists and is no directory")
        if folder and self._holds_something():
            raise self._is_filled()

    def _holds_something(self) -> bool:
        there = os.open(self._name, FOLDER | NOT_A_LINK, dir_fd=self._parent)
        try:
            with os.scandir(there) as found:
                return next(found, None) is not None
        finally:
            os.close(there)

    def _is_filled(self) -> PathExists:
        hint = "remove it, or download to another name: trees are never merged on this machine"
        return PathExists(f"{self._path!r} on this machine: {self._name!r} exists and is not empty", hint=hint)

    def enter(self, name: bytes) -> None:
        """Make a directory in the one that is open, and open it."""
        os.mkdir(name, OWNER, dir_fd=self._folders[-1])
        self._folders.append(os.open(name, FOLDER | NOT_A_LINK, dir_fd=self._folders[-1]))

    def leave(self, mode: int, modified: float) -> None:
        """Close the directory that is open; it is complete."""
        here = self._folders[-1]
        os.fchmod(here, mode & PERMISSIONS | OWNER)
        os.utime(here, (modified, modified))
        os.close(self._folders.pop())

    def open_file(self, name: bytes) -> None:
        """Make a file in the directory that is open."""
        self._file = os.open(name, NEW, 0o600, dir_fd=self._folders[-1])

    def append(self, data: bytes | bytearray) -> None:
        """Write the next part of the file that is open."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]

    def close_file(self, mode: int, modified: float) -> None:
        """Close the file that is open; it is complete."""
        os.fchmod(self._file, mode & PERMISSIONS)
        os.utime(self._file, (modified, modified))
        file, self._file = self._file, -1
        os.close(file)

    def link(self, name: bytes, target: bytes) -> None:
        """Make a link in the directory that is open."""
        os.symlink(target, name, dir_fd=self._folders[-1])

    def publish(self) -> None:
        """Give everything its final name; a file or link of that name is replaced, an empty directory too."""
        try:
            os.rename(self._temporary, self._name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            raise self._is_filled() from error
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:  # something came there meanwhile
                raise
            raise self._is_filled() from error
        self._temporary = ""

    def discard(self) -> None:
        """Close everything, and remove what did not get its final name."""
        try:
            for descriptor in (*self._folders, self._file):
                if descriptor >= 0:
                    os.close(descriptor)
            if self._temporary:
                self._remove()
        finally:
            if self._parent >= 0:
                os.close(self._parent)

    def _remove(self) -> None:
        mode = os.stat(self._temporary, dir_fd=self._parent, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            shutil.rmtree(self._temporary, dir_fd=self._parent)
        else:
            os.unlink(self._temporary, dir_fd=self._parent)
