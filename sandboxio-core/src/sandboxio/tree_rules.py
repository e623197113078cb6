"""What a tree may be that crosses between a sandbox and this machine.

All that a sandbox says of a tree is hostile: each name becomes one path component on this machine, or is refused.
"""

from sandboxio.errors import FileSystemError
from sandboxio.port import FileInfo

MAX_DEPTH = 100
"""Directories below each other; every one holds a descriptor while it is open."""
MAX_ENTRIES = 1_000_000
"""Files, links and directories of one transfer."""
MAX_NAME = 255
"""Bytes of one name."""
MAX_LINK = 4095
"""Bytes that a link may hold."""
PERMISSIONS = 0o777
"""What is kept of a mode: a set-user-id bit that a sandbox chose would be its way out, to whoever runs the download."""


class Bounds:
    """Counts what one transfer has met."""

    def __init__(self) -> None:
        self._entries = 0
        self._depth = 0

    def met(self, count: int, shown: str) -> None:
        """Count the entries of a directory. :raises FileSystemError: there are too many."""
        self._entries += count
        if self._entries > MAX_ENTRIES:
            raise FileSystemError(f"{shown!r}: the tree has more than {MAX_ENTRIES} entries")

    def down(self, shown: str) -> None:
        """Count one level more. :raises FileSystemError: there are too many."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise FileSystemError(f"{shown!r}: the tree is deeper than {MAX_DEPTH} directories")

    def up(self) -> None:
        """Count one level less."""
        self._depth -= 1


def plain_name(entry: FileInfo, folder: str) -> str:
    """Return an entry's name, which is one component of a path and no way out of its directory.

    :raises FileSystemError: it is anything else: a path, ``..``, empty, with NUL, too long, or of another directory.
    """
    prefix = folder if folder.endswith("/") else f"{folder}/"
    name = entry.path[len(prefix) :]
    if not entry.path.startswith(prefix) or name in ("", ".", "..") or "/" in name or "\0" in name:
        raise FileSystemError(f"{entry.path!r}: the sandbox lists what is no name in {folder!r}; nothing was kept")
    if len(encoded(name)) > MAX_NAME:
        raise FileSystemError(f"{entry.path!r}: a name of more than {MAX_NAME} bytes; nothing was kept", errno=36)
    return name


def inner_link(target: str, depth: int, shown: str) -> bytes:
    """Return what a link holds if it leads to inside the tree, wherever the other links of the tree lead.

    Only leading ``..`` are allowed, as many as there are directories above the link: a ``..`` after a name would be
    taken from where *that* leads, which may be another link.

    :param depth: directories of the tree above the link, the tree's own not counted.
    :raises FileSystemError: it is absolute, leads out, or can't be a link.
    """
    parts = [part for part in target.split("/") if part not in ("", ".")]
    up = 0
    while up < len(parts) and parts[up] == "..":
        up += 1
    if not target or target.startswith("/") or "\0" in target or up > depth or ".." in parts[up:]:
        raise FileSystemError(
            f"{shown!r}: a link to {target!r}, which leads, or could lead, out of the tree; nothing was kept",
            hint="download without it, or read what it leads to by itself",
        )
    raw = encoded(target)
    if len(raw) > MAX_LINK:
        raise FileSystemError(f"{shown!r}: a link of more than {MAX_LINK} bytes; nothing was kept", errno=36)
    return raw


def encoded(text: str) -> bytes:
    """Return the bytes of a name. :raises FileSystemError: no bytes decode to it."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise FileSystemError(f"{text!r} can't be a name; nothing was kept", errno=84) from None
