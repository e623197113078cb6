"""One file operation that an agent carries out."""

import errno
import math
import os
import posixpath
from collections.abc import AsyncGenerator, AsyncIterator
from struct import Struct, pack, unpack

from sandboxio.agent.connection import AgentConnection
from sandboxio.agent.incoming import Incoming
from sandboxio.agent.protocol import CHUNK, FILE_WINDOW, Answer, Frame, ProtocolViolation, Request
from sandboxio.errors import (
    FileSystemError,
    IsADirectory,
    NotADirectory,
    PathExists,
    PathNotFound,
    PermissionDenied,
)
from sandboxio.port import FileInfo

_ENTRY = Struct(">BIQdH")
_CLASSES = {
    errno.ENOENT: PathNotFound,
    errno.EACCES: PermissionDenied,
    errno.EPERM: PermissionDenied,
    errno.EISDIR: IsADirectory,
    errno.ENOTDIR: NotADirectory,
    errno.EEXIST: PathExists,
}
_MAX_ERRNO = 4095
# The numbers are Linux's, whatever system the host runs on.
_NOT_REGULAR = 22


class Transfer:
    """One file operation over one channel."""

    def __init__(self, connection: AgentConnection, path: str) -> None:
        self._connection = connection
        self._path = path
        self._incoming: Incoming | None = None
        self._may_send = FILE_WINDOW
        self._sent = 0
        self._done: tuple[int, bytes] | None = None
        self._abandoned = False
        self._channel = connection.open(self)

    def take(self, frame: Frame) -> bool:
        """Take in one frame; see `Receiver`."""
        match frame.kind:
            case Answer.OUT if self._incoming is not None:
                self._incoming.add(frame.payload)
            case Answer.GRANT if unpack(">I", frame.payload)[0] <= self._sent:
                (count,) = unpack(">I", frame.payload)
                self._sent -= count
                self._may_send += count
            case Answer.DONE if len(frame.payload) >= 4:
                (number,) = unpack(">I", frame.payload[:4])
                if number > _MAX_ERRNO:
                    message = f"error number {number}"
                    raise ProtocolViolation(message)
                self._done = (number, frame.payload[4:])
                return True
            case _:
                message = f"a frame {frame.kind.name} out of turn in a file operation"
                raise ProtocolViolation(message)
        return False

    def ask(self, kind: Request, payload: bytes) -> None:
        """Begin the operation."""
        self._connection.post(kind, self._channel, payload)

    def ask_for_output(self, kind: Request, path: bytes) -> None:
        """Begin an operation that answers with output."""
        self._incoming = Incoming(self._connection, self._channel, FILE_WINDOW)
        self.ask(kind, pack(">I", FILE_WINDOW) + path)

    async def receive(self) -> bytes | None:
        """Return the next piece of the answer, ``None`` after the last."""
        incoming = self._incoming
        await self._connection.until(lambda: bool(incoming) or self._done is not None, self._channel)
        if not incoming:
            self._raise_failure()
            return None
        return incoming.take()[1]

    async def send(self, data: bytes) -> None:
        """Send a part of a file's new content, as fast as it is taken in."""
        view = memoryview(data)
        while view:
            await self._connection.until(lambda: self._may_send > 0 or self._done is not None, self._channel)
            self._raise_failure()
            part = bytes(view[: min(CHUNK, self._may_send)])
            self._connection.post(Request.DATA, self._channel, part)
            self._may_send -= len(part)
            self._sent += len(part)
            view = view[len(part) :]

    def end(self) -> None:
        """Say that the content is complete."""
        self._connection.post(Request.EOF, self._channel)

    async def result(self) -> bytes:
        """Wait for the end of the operation and return its result."""
        await self._connection.until(lambda: self._done is not None, self._channel)
        self._raise_failure()
        assert self._done is not None
        return self._done[1]

    def abandon(self) -> None:
        """Give the operation up if it goes on; nothing of it stays."""
        if self._done is None and not self._abandoned:
            self._abandoned = True
            if self._incoming is not None:
                self._incoming.drop()
            self._connection.post(Request.ABORT, self._channel)

    def _raise_failure(self) -> None:
        if self._done is not None and self._done[0]:
            raise file_error(self._done[0], self._path)


def file_error(number: int, path: str) -> FileSystemError:
    """Return the error of one errno of Linux."""
    text = "not a regular file" if number == _NOT_REGULAR else os.strerror(number)
    return _CLASSES.get(number, FileSystemError)(f"{path}: {text}", errno=number)


def encode_path(path: str) -> bytes:
    """Return an absolute path as the bytes that it has in the sandbox."""
    raw = path.encode("utf-8", "surrogateescape")
    if "\0" in path or not path.startswith("/"):
        message = f"{path!r} is no absolute path"
        raise FileSystemError(message, errno=errno.EINVAL)
    if len(raw) > 4096:
        raise file_error(errno.ENAMETOOLONG, path)
    return raw


def decode_entries(data: bytes, folder: str | None) -> list[FileInfo]:
    """Return the entries of one page; with ``folder`` each name must be a plain name in it, else a whole path."""
    entries: list[FileInfo] = []
    start = 0
    while start < len(data):
        if len(data) - start < _ENTRY.size:
            message = "an unfinished entry"
            raise ProtocolViolation(message)
        flags, mode, size, modified, length = _ENTRY.unpack_from(data, start)
        start += _ENTRY.size
        raw = data[start : start + length]
        start += length
        name = raw.decode("utf-8", "surrogateescape")
        if len(raw) < length or not raw or size >= 1 << 63 or mode > 0o7777 or not math.isfinite(modified):
            message = "an impossible entry"
            raise ProtocolViolation(message)
        if folder is not None and (name in (".", "..") or "/" in name or "\0" in name):
            message = "an entry whose name is a path"
            raise ProtocolViolation(message)
        path = name if folder is None else posixpath.join(folder, name)
        entries.append(FileInfo(path, size, bool(flags & 1), bool(flags & 2), mode, modified))
    return entries


async def send_all(transfer: Transfer, chunks: AsyncIterator[bytes]) -> None:
    """Send a file's new content and wait until it has replaced the old; a generator is closed in any case."""
    try:
        async for chunk in chunks:
            await transfer.send(chunk)
        transfer.end()
        await transfer.result()
    finally:
        transfer.abandon()
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()
