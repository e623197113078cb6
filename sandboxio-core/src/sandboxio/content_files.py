"""Files over commands, their large contents over the provider's own way: that costs one command more, and no command's stdin.

A small content goes with the command that has to be run anyway. A large one goes into a file that a command made beside
the target, and a command counts what arrived and puts it in its place.
"""

import posixpath
import secrets
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING

from sandboxio import file_scripts as scripts
from sandboxio.command_files import CommandFiles, is_text, mode_argument, nonsense, time_argument
from sandboxio.errors import FileSystemError
from sandboxio.file_calls import as_generator

if TYPE_CHECKING:
    from sandboxio.lease import Lease
    from sandboxio.port import HasContents

SMALL = 256 * 1024
"""Bytes of the largest content that goes with a command."""
LARGER = 52
"""Exit code of a script that leaves a file to the other way."""


class ContentFiles(CommandFiles):
    """The file service of `sandboxio.port.HasTrees`, with `sandboxio.port.HasContents` for what is large."""

    def __init__(self, lease: "Lease", contents: "HasContents") -> None:
        super().__init__(lease)
        self._contents = contents

    async def read(self, path: str) -> AsyncIterator[bytes]:
        """Iterate over a regular file's content in chunks."""
        if not is_text(path):
            async for data in super().read(path):
                yield data
            return
        driver = await self._start(scripts.READ_SMALL, path, str(SMALL))
        ended, size = False, b""
        try:
            while (chunk := await driver.receive()) is not None:
                if chunk.stream == "stdout":
                    yield chunk.data
                else:
                    size = (size + chunk.data)[-32:]
            how = await driver.wait()
            ended = True
        finally:
            if not ended:
                await self._lease.end_tree(driver)
        if how.code != LARGER:
            self._check(path, how)
            return
        if not size.strip().isdigit():
            raise nonsense(path)
        async with aclosing(as_generator(self._contents.read_content(path))) as content:
            counted = _Counted(content)
            async for data in counted:
                yield data
        if counted.bytes < int(size):  # more is a file that has grown since
            raise FileSystemError(f"{path!r}: {counted.bytes} of {int(size)} bytes came", errno=5)

    async def write(
        self, path: str, chunks: AsyncIterator[bytes], *, mode: int | None = None, modified: float | None = None
    ) -> None:
        """Write a file whole or not at all."""
        begun = bytearray()
        async with aclosing(as_generator(chunks)) as rest:
            async for piece in rest:
                begun += piece
                if len(begun) > SMALL:
                    break
            content = _Counted(rest, bytes(begun))
            if len(begun) <= SMALL or not is_text(path):
                await super().write(path, content, mode=mode, modified=modified)
            else:
                await self._write_large(path, content, mode, modified)

    async def _write_large(self, path: str, content: "_Counted", mode: int | None, modified: float | None) -> None:
        token = secrets.token_hex(8)
        wanted = (token, "" if mode is None else mode_argument(mode), "")
        try:
            _, (_, target) = await self._send(path, wanted, _Counted(None))
            there = posixpath.join(posixpath.dirname(target), f".sandboxio.{token}")
            with self._lease.mapped():
                await self._contents.write_content(there, content)
            when = "" if modified is None else time_argument(modified)
            said = (await self._run(scripts.COUNT, path, there, when)).strip()
            if not said.isdigit():
                raise nonsense(path)
            if int(said) != content.bytes:
                text = f"{path!r}: {int(said)} of {content.bytes} bytes arrived; nothing was changed"
                raise FileSystemError(text, errno=5)
            await self._run(scripts.COMMIT, path, target, token)
        except BaseException:
            await self._discard(path, token)
            raise


class _Counted(AsyncIterator[bytes]):
    """A content, what is known of it already first; no generator, so that nobody has to close it."""

    def __init__(self, rest: AsyncIterator[bytes] | None, begun: bytes = b"") -> None:
        self._rest, self._begun = rest, begun
        self.bytes = 0

    async def __anext__(self) -> bytes:
        if self._begun:
            data, self._begun = self._begun, b""
        elif self._rest is None:
            raise StopAsyncIteration
        else:
            data = await anext(self._rest)
        self.bytes += len(data)
        return data
