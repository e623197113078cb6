"""What the file operations do with paths."""

from __future__ import annotations

import errno
import posix as os

from .wire import ENTRY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator

AT_ONCE = 64  # entries handled in one step
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: bytes) -> Generator[bool, None, None]:
    """Remove a directory at any depth with one descriptor; a name that became a link is never followed."""
    here = os.open(path, FOLDER)
    trail: list[tuple[str, int, int]] = []
    try:
        while True:
            deeper = yield from remove_files(here)
            status = os.fstat(here)
            if deeper:
                trail.append((deeper, status.st_dev, status.st_ino))
                following = os.open(deeper, FOLDER, dir_fd=here)
            elif trail:
                following = os.open("..", FOLDER, dir_fd=here)
            else:
                break
            os.close(here)
            here = following
            if not deeper:
                name, device, inode = trail.pop()
                status = os.fstat(here)
                if (status.st_dev, status.st_ino) != (device, inode):
                    raise OSError(errno.EBUSY, "")  # it was moved meanwhile
                os.rmdir(name, dir_fd=here)
            yield True
    finally:
        os.close(here)
    os.rmdir(path)


def remove_files(folder: int) -> Generator[bool, None, str]:
    """Remove what is no directory; return the first directory found, or nothing."""
    with os.scandir(folder) as found:
        for count, item in enumerate(found):
            if item.is_dir(follow_symlinks=False):
                return item.name
            os.unlink(item.name, dir_fd=folder)
            if count % AT_ONCE == AT_ONCE - 1:
                yield True
    return ""


def is_folder(mode: int) -> bool:
    """Tell a directory's mode."""
    return mode & 0o170000 == 0o040000


def refuse_irregular(mode: int) -> None:
    """Refuse directories, and what could block or act by being opened."""
    if mode & 0o170000 != 0o100000:
        raise OSError(errno.EISDIR if is_folder(mode) else errno.EINVAL, "")


def open_regular(path: bytes) -> int:
    """Open a regular file; looked at before, and after in case it was swapped."""
    refuse_irregular(os.stat(path).st_mode)
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        refuse_irregular(os.fstat(fd).st_mode)
    except OSError:
        os.close(fd)
        raise
    return fd


def replace(fd: int, temporary: bytes, target: bytes) -> bytes:
    """Give a finished file its name; return what is still to be removed."""
    try:
        os.rename(temporary, target)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
    else:
        return b""
    # A file that an engine mounted by itself, such as /etc/hosts, can't be replaced, only rewritten.
    offset, into = 0, os.open(target, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        while True:
            count = os.sendfile(into, fd, offset, 1 << 20)
            if not count:
                return temporary
            offset += count
    finally:
        os.close(into)


def link_target(path: bytes) -> bytes:
    """Follow the links of the last component, so that a link stays and what it points to is replaced."""
    for _ in range(40):
        try:
            link = os.readlink(path)
        except OSError:
            return path
        path = link if link[:1] == b"/" else path[: path.rfind(b"/") + 1] + link
    raise OSError(errno.ELOOP, "")


def beside(path: bytes) -> bytes:
    """Return a name for what will get the path's own later."""
    return path[: path.rfind(b"/") + 1] + b".sandboxio-" + os.urandom(8).hex().encode()


def make_folders(path: bytes) -> None:
    """Make a directory and its parents, as far as they are missing."""
    missing: list[bytes] = []
    while True:
        try:
            if not is_folder(os.stat(path).st_mode):
                raise OSError(errno.ENOTDIR if missing else errno.EEXIST, "")
            break
        except FileNotFoundError:
            missing.append(path)
            path = path.rstrip(b"/").rpartition(b"/")[0] or b"/"
    for folder in reversed(missing):
        try:
            os.mkdir(folder)
        except FileExistsError:  # somebody was faster, or a broken link stands there
            if not is_folder(os.stat(folder).st_mode):
                raise


def describe(path: bytes, name: bytes) -> bytes:
    """Encode one entry; a broken or looping link is its own mode and time with size 0, one that is gone is nothing."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return b""
    size, flags = status.st_size, 0
    if status.st_mode & 0o170000 == 0o120000:
        flags = 2
        try:
            status = os.stat(path)
            size = status.st_size
        except OSError:
            size = 0
    flags |= is_folder(status.st_mode)
    return ENTRY.pack(flags, status.st_mode & 0o7777, size, status.st_mtime, len(name)) + name
