"""File operations, in steps: nothing here may keep the agent from its other work."""

from __future__ import annotations

import errno
import posix as os
from struct import unpack_from

from .paths import (
    AT_ONCE,
    beside,
    describe,
    is_folder,
    link_target,
    make_folders,
    open_regular,
    refuse_irregular,
    remove_tree,
    replace,
)
from .wire import (
    CHUNK,
    DONE,
    GRANT,
    LEAST_COST,
    LINK,
    LIST,
    MKDIR,
    OUT,
    READ,
    READLINK,
    REMOVE,
    SET,
    STAT,
    U32,
    WINDOW,
    WRITE,
    write_all,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from .agent import Agent

    # Yields true if it can go on at once, false if it waits for the host.
    Steps = Generator[bool, None, bytes]

UMASK = os.umask(0o022)
os.umask(UMASK)
DEFAULT_MODE = 0xFFFFFFFF


class Job:
    """One file operation."""

    def __init__(self, agent: Agent, channel: int, kind: int, payload: bytes) -> None:
        self.agent = agent
        self.channel = channel
        self.credit = 0
        self.inbox: list[bytes] = []
        self.ending = False
        kinds: dict[int, Callable[[bytes], Steps]] = {
            READ: self.read,
            WRITE: self.write,
            LIST: self.list,
            STAT: self.stat,
            MKDIR: self.mkdir,
            READLINK: self.readlink,
            LINK: self.link,
            SET: self.set,
            REMOVE: self.remove,
        }
        if kind in (READ, LIST):
            self.credit, payload = U32.unpack_from(payload)[0], payload[4:]
        self.steps = kinds[kind](payload)

    def step(self) -> bool:
        """Go on; true if it can go on again at once."""
        number, result = 0, b""
        try:
            return next(self.steps)
        except StopIteration as stop:
            result = stop.value
        except OSError as error:
            number = error.errno or errno.EIO
        except ValueError:
            number = errno.EINVAL
        self.over(number, result)
        return False

    def abort(self) -> None:
        """Give up; what was begun is undone."""
        self.steps.close()
        self.over(errno.ECANCELED, b"")

    def over(self, number: int, result: bytes) -> None:
        """Answer."""
        self.agent.jobs.pop(self.channel, None)
        self.agent.send_bulk(DONE, self.channel, U32.pack(number) + result)

    def output(self, data: bytes) -> None:
        """Send a part of the answer."""
        self.credit -= max(len(data), LEAST_COST)
        self.agent.send_bulk(OUT, self.channel, data)

    def read(self, path: bytes) -> Steps:
        """Send a regular file's content."""
        fd = open_regular(path)
        try:
            while True:
                while self.credit <= 0:
                    yield False
                data = os.read(fd, min(CHUNK, self.credit))
                if not data:
                    return b""
                self.output(data)
                if self.agent.congested:
                    yield True
        finally:
            os.close(fd)

    def write(self, payload: bytes) -> Steps:
        """Replace a file at once when its content is complete, or leave everything as it was."""
        mode, modified = unpack_from(">Id", payload)
        target = link_target(payload[12:])
        try:
            old = os.stat(target)
        except FileNotFoundError:
            old = None
        if old:
            refuse_irregular(old.st_mode)
        folder = target[: target.rfind(b"/")] or b"/"
        try:
            make_folders(folder)
        except FileExistsError:
            raise NotADirectoryError(errno.ENOTDIR, "") from None
        temporary = beside(target)
        fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            yield from self.fill(fd)
            if old and (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                try:
                    os.fchown(fd, old.st_uid, old.st_gid)
                except OSError:  # only the privileged may keep a foreign owner
                    pass
            if mode == DEFAULT_MODE:
                mode = old.st_mode if old else 0o666 & ~UMASK
            os.fchmod(fd, mode & 0o7777)
            if modified == modified:  # not NaN
                os.utime(fd, (modified, modified))
            temporary = replace(fd, temporary, target)
        finally:
            os.close(fd)
            if temporary:
                os.unlink(temporary)
        return b""

    def fill(self, fd: int) -> Generator[bool, None, None]:
        """Write what the host sends until it says that this was all."""
        taken = 0
        while self.inbox or not self.ending:
            parts, self.inbox = self.inbox, []
            for part in parts:
                write_all(fd, part)
                taken += len(part)
            if taken >= WINDOW:
                self.agent.send(GRANT, self.channel, U32.pack(taken))
                taken = 0
            yield bool(parts)

    def list(self, path: bytes) -> Steps:
        """Send the entries of a directory, page by page."""
        page = b""
        with os.scandir(path) as found:
            for count, item in enumerate(found):
                entry = describe(item.path, item.name)
                if len(page) + len(entry) > CHUNK:
                    while self.credit < len(page):
                        yield False
                    self.output(page)
                    page = b""
                page += entry
                if count % AT_ONCE == AT_ONCE - 1:
                    yield True
        while self.credit < len(page):
            yield False
        if page:
            self.output(page)
        return b""

    def stat(self, path: bytes) -> Steps:
        """Answer with one entry, which must exist."""
        yield True
        os.stat(path)
        return describe(path, path)

    def mkdir(self, payload: bytes) -> Steps:
        """Make a directory, with the parents if so flagged."""
        yield True
        if payload[:1] == b"\1":
            make_folders(payload[1:])
        else:
            os.mkdir(payload[1:])
        return b""

    def readlink(self, path: bytes) -> Steps:
        """Answer with what a link holds."""
        yield True
        return os.readlink(path)

    def link(self, payload: bytes) -> Steps:
        """Make a link in place of what is there, unless that is a directory."""
        yield True
        target, _, path = payload.partition(b"\0")
        try:
            if is_folder(os.lstat(path).st_mode):
                raise OSError(errno.EISDIR, "")
        except FileNotFoundError:
            pass
        temporary = beside(path)
        os.symlink(target, temporary)
        try:
            os.rename(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise
        return b""

    def set(self, payload: bytes) -> Steps:
        """Set a directory's mode and time."""
        yield True
        mode, modified = unpack_from(">Id", payload)
        os.chmod(payload[12:], mode & 0o7777)
        os.utime(payload[12:], (modified, modified))
        return b""

    def remove(self, payload: bytes) -> Steps:
        """Remove one thing, or a tree if so flagged."""
        path = payload[1:].rstrip(b"/")
        if not path:
            raise OSError(errno.EBUSY, "")
        yield True
        if payload[:1] == b"\1" and is_folder(os.lstat(path).st_mode):
            yield from remove_tree(path)
        else:
            os.unlink(path)
        return b""
