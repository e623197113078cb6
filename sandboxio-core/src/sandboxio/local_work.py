"""File operations of this machine, in worker threads."""

import os
import threading
from collections.abc import Callable
from typing import TypeVar

import anyio.to_thread

from sandboxio.errors import (
    CapabilityNotSupported,
    FileSystemError,
    IsADirectory,
    NotADirectory,
    PathExists,
    PathNotFound,
    PermissionDenied,
    SandboxError,
)
from sandboxio.teardown import finish, teardown_grace

T = TypeVar("T")

_CLASSES: tuple[tuple[type[OSError], type[FileSystemError]], ...] = (
    (FileNotFoundError, PathNotFound),
    (PermissionError, PermissionDenied),
    (IsADirectoryError, IsADirectory),
    (NotADirectoryError, NotADirectory),
    (FileExistsError, PathExists),
)


class LocalWork:
    """Runs the local part of one transfer, one operation at a time.

    A native cancellation does not stop a thread: it goes on, with descriptors that must not be closed under it, since
    their numbers may belong to something else the next moment. So each operation waits for the one before, the last
    one too, and what comes after the last is refused.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._over = False

    async def run(self, act: Callable[[], T], shown: str) -> T:
        """Run one operation. :raises FileSystemError: it failed; ``shown`` names what it was about."""
        return await anyio.to_thread.run_sync(lambda: self._one(act, shown))

    async def end(self, act: Callable[[], None], shown: str) -> None:
        """Run the last operation, immune to cancellation; what outlasts the grace goes on in its thread."""

        async def work() -> None:
            await anyio.to_thread.run_sync(lambda: self._last(act, shown))

        await finish(work, teardown_grace(), lambda: None)

    def _one(self, act: Callable[[], T], shown: str) -> T:
        with self._lock:
            if self._over:
                raise FileSystemError(f"{shown!r} on this machine: the transfer was given up")
            return _translated(act, shown)

    def _last(self, act: Callable[[], None], shown: str) -> None:
        with self._lock:
            self._over = True
            _translated(act, shown)


def need_descriptors() -> None:
    """:raises CapabilityNotSupported: this system can't open a file by its directory's descriptor.

    By path alone, a link that is put in place of a directory meanwhile would be followed.
    """
    if not {os.open, os.mkdir, os.stat, os.rename}.issubset(os.supports_dir_fd):
        raise CapabilityNotSupported(
            "upload() and download() need a POSIX system on this side",
            hint="use files.open_read() and files.open_write()",
            why="not_yet",
        )


def _translated(act: Callable[[], T], shown: str) -> T:
    try:
        return act()
    except SandboxError:
        raise
    except OSError as error:
        cls = next((ours for native, ours in _CLASSES if isinstance(error, native)), FileSystemError)
        text = os.strerror(error.errno) if error.errno else str(error)
        raise cls(f"{shown!r} on this machine: {text}", errno=error.errno) from error
    except (OverflowError, ValueError) as error:
        # A time that no file of this machine can have.
        raise FileSystemError(f"{shown!r} on this machine: {error}", errno=22) from error
