"""A file system in memory."""

import errno
from dataclasses import dataclass, field
from typing import NoReturn

from sandboxio.errors import FileSystemError, IsADirectory, NotADirectory, PathExists, PathNotFound
from sandboxio.port import FileInfo
from sandboxio.testing.clock import Clock

MAX_LINKS = 40


@dataclass(slots=True)
class Entry:
    """A file (``content``), a link (``target``) or a directory (``entries``)."""

    mode: int
    modified: float
    content: bytes | None = None
    target: str | None = None
    entries: "dict[str, Entry]" = field(default_factory=dict[str, "Entry"])

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory."""
        return self.content is None and self.target is None


class Tree:
    """The files of one sandbox. Paths are absolute; errors are those of a real file system.

    :param max_bytes: what all contents may have together.
    """

    def __init__(self, max_bytes: float, clock: Clock) -> None:
        self._max_bytes = max_bytes
        self._clock = clock
        self._root = Entry(0o755, clock.now)
        for name in ("work", "tmp"):
            self._root.entries[name] = Entry(0o777, clock.now)

    def get(self, path: str, *, follow: bool = True) -> Entry:
        """Return what a path leads to."""
        *_, entry = self._walk(path, follow=follow)
        return _missing(path) if entry is None else entry

    def write(self, path: str, content: bytes, mode: int | None, modified: float | None) -> None:
        """Write a file, making missing parents."""
        if path.endswith("/"):
            raise IsADirectory(f"{path!r} is a directory", errno=errno.EISDIR)
        parent, name, old = self._walk(path, make=True)
        if old is not None and old.is_dir:
            raise IsADirectory(f"{path!r} is a directory", errno=errno.EISDIR)
        before = len(old.content or b"") if old is not None else 0
        if _size(self._root) - before + len(content) > self._max_bytes:
            raise FileSystemError(f"{path!r}: no space left on device", errno=errno.ENOSPC)
        wanted = mode if mode is not None else old.mode if old is not None else 0o644
        parent.entries[name] = Entry(wanted, self._clock.now if modified is None else modified, content)

    def mkdir(self, path: str, *, parents: bool) -> None:
        """Make a directory; with ``parents`` an existing one is no error."""
        parent, name, old = self._walk(path.rstrip("/") or "/", make=parents, follow=parents)
        if old is not None and not (parents and old.is_dir):
            raise PathExists(f"{path!r} exists already", errno=errno.EEXIST)
        if old is None:
            parent.entries[name] = Entry(0o755, self._clock.now)

    def remove(self, path: str, *, recursive: bool) -> None:
        """Remove a file, a link, an empty directory or a tree."""
        parent, name, entry = self._walk(path.rstrip("/") or "/", follow=False)
        if entry is None:
            _missing(path)
        if not name or (entry.entries and not recursive):
            raise FileSystemError(f"{path!r}: directory not empty", errno=errno.ENOTEMPTY)
        del parent.entries[name]

    def link(self, path: str, target: str) -> None:
        """Make a link, in place of a file or link of that name."""
        parent, name, old = self._walk(path, make=True, follow=False)
        if old is not None and old.is_dir:
            raise IsADirectory(f"{path!r} is a directory", errno=errno.EISDIR)
        parent.entries[name] = Entry(0o777, self._clock.now, target=target)

    def info(self, path: str) -> FileInfo:
        """Return what is known about one path; a link that leads nowhere has size 0."""
        entry = self.get(path, follow=False)
        is_link = entry.target is not None
        if is_link:
            try:
                entry = self.get(path)
            except FileSystemError:
                return FileInfo(path, 0, False, True, entry.mode, entry.modified)
        return FileInfo(path, len(entry.content or b""), entry.is_dir, is_link, entry.mode, entry.modified)

    def _walk(self, path: str, *, follow: bool = True, make: bool = False) -> tuple[Entry, str, Entry | None]:
        """Return the directory that the last name is in, that name, and what it is; ``make`` missing directories.

        The name is empty for the root and for what ``..`` leads to.
        """
        stack, names, links = [self._root], _names(path)[::-1], 0
        while names:
            name = names.pop()
            if name == "..":
                stack = stack[:-1] or stack
                continue
            found = stack[-1].entries.get(name)
            if found is not None and found.target is not None and (names or follow):
                links += 1
                if links > MAX_LINKS:
                    raise FileSystemError(f"{path!r}: too many levels of links", errno=errno.ELOOP)
                names += _names(found.target)[::-1]
                stack = [self._root] if found.target.startswith("/") else stack
                continue
            if not names:
                return stack[-1], name, found
            if found is None:
                if not make:
                    _missing(path)
                found = stack[-1].entries[name] = Entry(0o755, self._clock.now)
            if not found.is_dir:
                raise NotADirectory(f"{path!r} is not a directory", errno=errno.ENOTDIR)
            stack.append(found)
        return stack[-1], "", stack[-1]


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _size(entry: Entry) -> int:
    return len(entry.content or b"") + sum(map(_size, entry.entries.values()))


def _missing(path: str) -> NoReturn:
    raise PathNotFound(f"{path!r}: no such file or directory", errno=errno.ENOENT)
