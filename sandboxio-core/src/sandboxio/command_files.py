"""Files over commands, for sandboxes that have a POSIX shell and no file service of their own.

The scripts get every path as an argument, absolute, so that none can pass for an option, and content over stdin and
stdout, so that no size limit of arguments applies. What the sandbox's own tools answer is the sandbox's word.
"""

import secrets
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from sandboxio import file_scripts as scripts
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
from sandboxio.port import Command, Exit, FileInfo, ProcessDriver
from sandboxio.teardown import finish

if TYPE_CHECKING:
    from sandboxio.lease import Lease

MAX_ANSWER = 64 * 1024 * 1024
"""Bytes that a script may answer, a file's content apart: it speaks from inside the sandbox."""
DISCARD_BOUND = 2.0
"""Seconds for the removal of a temporary file that will not be needed."""

_ERRORS: dict[int, tuple[type[FileSystemError], str, int]] = {
    44: (PathNotFound, "no such file or directory", 2),
    45: (IsADirectory, "is a directory", 21),
    46: (FileSystemError, "is no regular file", 22),
    47: (PermissionDenied, "permission denied", 13),
    48: (PathExists, "exists already", 17),
    49: (NotADirectory, "is not a directory", 20),
    50: (FileSystemError, "could not be written", 5),
    51: (FileSystemError, "no space left on device", 28),
}
"""Exit code of a script → error class, text, errno."""


class CommandFiles:
    """The file service of `sandboxio.port.HasTrees`, done with fixed scripts."""

    def __init__(self, lease: "Lease") -> None:
        self._lease = lease

    async def read(self, path: str) -> AsyncIterator[bytes]:
        """Iterate over a regular file's content in chunks."""
        driver = await self._start(scripts.READ, path)
        ended = False
        try:
            while (chunk := await driver.receive()) is not None:
                if chunk.stream == "stdout":
                    yield chunk.data
            how = await driver.wait()
            ended = True  # whatever its code: there is nothing left to kill
            self._check(path, how)
        finally:
            if not ended:
                await self._lease.end_tree(driver)

    async def write(
        self, path: str, chunks: AsyncIterator[bytes], *, mode: int | None = None, modified: float | None = None
    ) -> None:
        """Write a temporary file beside the target, compare its size, then rename it; times in whole seconds."""
        token = secrets.token_hex(8)
        wanted = (
            token,
            "" if mode is None else mode_argument(mode),
            "" if modified is None else time_argument(modified),
        )
        try:
            sent, (size, target) = await self._send(path, wanted, chunks)
            if size != sent:
                raise FileSystemError(f"{path!r}: {size} of {sent} bytes arrived; nothing was changed", errno=5)
            await self._run(scripts.COMMIT, path, target, token)
        except BaseException:
            await self._discard(path, token)
            raise

    async def list(self, path: str) -> list[FileInfo]:
        """Return a directory's entries."""
        return _entries(path, await self._run(scripts.LIST, path, path))

    async def stat(self, path: str) -> FileInfo:
        """Return what is known about one path."""
        entries = _entries(path, await self._run(scripts.STAT, path, path))
        if len(entries) != 1:
            raise nonsense(path)
        return entries[0]

    async def mkdir(self, path: str, *, parents: bool) -> None:
        """Make a directory."""
        await self._run(scripts.MKDIR, path, _bare(path), "parents" if parents else "one")

    async def remove(self, path: str, *, recursive: bool) -> None:
        """Remove a file, link, empty directory or tree."""
        await self._run(scripts.REMOVE, path, _bare(path), "recursive" if recursive else "one")

    async def read_link(self, path: str) -> str:
        """Return what a link holds."""
        output = await self._run(scripts.READLINK, path, path)
        if not output.endswith(b"\n."):
            raise nonsense(path)
        return _text(output[:-2])

    async def make_link(self, path: str, target: str) -> None:
        """Make a link, in place of a file or link of that name."""
        await self._run(scripts.LINK, path, path, target)

    async def set_attributes(self, path: str, *, mode: int, modified: float) -> None:
        """Set a directory's permission bits and time, in whole seconds."""
        await self._run(scripts.SET, path, path, mode_argument(mode), time_argument(modified))

    async def _start(self, script: str, *arguments: str, stdin: bool = False) -> ProcessDriver:
        if not all(is_text(argument) for argument in arguments):
            script, arguments = scripts.DECODE + script, tuple(map(_escaped, arguments))
        command = Command(("sh", "-c", script, "sh", *arguments), cwd="/", stdin=stdin)
        return await self._lease.start(command, self._lease.timeout)

    async def _send(
        self, path: str, wanted: tuple[str, str, str], chunks: AsyncIterator[bytes]
    ) -> tuple[int, tuple[int, str]]:
        driver = await self._start(scripts.WRITE, path, *wanted, stdin=True)
        sent = 0
        try:
            async for chunk in chunks:
                sent += len(chunk)
                await driver.send(chunk)
            await driver.close_stdin()
            output, ended = await self._output(driver, path)
        except BaseException as error:
            # Where a kill ends the sandbox, what only failed on this side must not cost it.
            if not isinstance(error, Exception) or not await self._ends_by_itself(driver, path):
                await self._lease.end_tree(driver)
            raise
        self._check(path, ended)
        size, _, target = output.partition(b"\0")
        if not size.strip().isdigit() or not target:
            raise nonsense(path)
        return sent, (int(size), _text(target))

    async def _ends_by_itself(self, driver: ProcessDriver, path: str) -> bool:
        """Let the script end whose input ends early; what it wrote is never committed."""
        with anyio.move_on_after(DISCARD_BOUND), suppress(SandboxError), self._lease.mapped():
            await driver.close_stdin()
            await self._output(driver, path)
            return True
        return False

    async def _discard(self, path: str, token: str) -> None:
        """Remove the temporary file, immune to cancellation; a failure leaves it to the sandbox's end."""

        async def work() -> None:
            with suppress(SandboxError), self._lease.mapped():
                self._lease.check_alive()
                await self._run(scripts.DISCARD, path, path, token)

        await finish(work, DISCARD_BOUND, lambda: None)

    async def _run(self, script: str, path: str, *arguments: str) -> bytes:
        driver = await self._start(script, *arguments)
        try:
            output, ended = await self._output(driver, path)
        except BaseException:
            await self._lease.end_tree(driver)
            raise
        self._check(path, ended)
        return output

    async def _output(self, driver: ProcessDriver, path: str) -> tuple[bytes, Exit]:
        kept = bytearray()
        while (chunk := await driver.receive()) is not None:
            if chunk.stream == "stdout":
                kept += chunk.data
            if len(kept) > MAX_ANSWER:
                raise FileSystemError(f"{path!r}: the answer is longer than {MAX_ANSWER} bytes")
        return bytes(kept), await driver.wait()

    def _check(self, path: str, ended: Exit) -> None:
        if ended.limit is not None:
            raise self._lease.limit_exceeded(ended.limit)
        if not ended.started:
            raise CapabilityNotSupported(
                "files need a POSIX shell in the image", hint="use an image with python3 or sh", why="not_yet"
            )
        if ended.code in _ERRORS:
            cls, text, errno = _ERRORS[ended.code]
            raise cls(f"{path!r} {text}", errno=errno)
        if ended.code != 0:
            raise FileSystemError(f"{path!r}: the file script ended with {ended.code}")


def _entries(path: str, output: bytes) -> list[FileInfo]:
    try:
        return [_entry(*record.split(b"\n", 1)) for record in output.split(b"\0") if record]
    except (ValueError, TypeError):
        raise nonsense(path) from None


def _entry(facts: bytes, path: bytes) -> FileInfo:
    link, size, mode, modified = facts.split(b" ")
    bits = int(mode, 16)
    is_dir = bits & 0o170000 == 0o040000
    return FileInfo(_text(path), int(size), is_dir, link == b"l", bits & 0o7777, float(modified))


def nonsense(path: str) -> FileSystemError:
    """Return the error for an answer of a script's that can't be read."""
    # The tools are the sandbox's own, and may have been replaced.
    return FileSystemError(f"{path!r}: the sandbox's own tools gave an answer that makes no sense")


def is_text(argument: str) -> bool:
    """Whether an argument is text, which every provider's API carries."""
    return argument.isprintable() or not any("\ud800" <= character <= "\udfff" for character in argument)


def _escaped(argument: str) -> str:
    """Return an argument in ASCII: not every provider's API carries names that are no text."""
    return "".join(f"\\0{byte:03o}" for byte in argument.encode("utf-8", "surrogateescape"))


def mode_argument(mode: int) -> str:
    """Return permission bits as ``chmod`` takes them."""
    return f"{mode & 0o7777:o}"


def time_argument(modified: float) -> str:
    """Return a time for ``touch``."""
    # What every `touch` takes: some busybox know no fractions.
    return str(int(modified))


def _bare(path: str) -> str:
    """Return a path without slashes at its end: with one, a link would be taken for what it points to."""
    return path.rstrip("/") or "/"


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
