"""The file service of a fake sandbox."""

from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from sandboxio.errors import FileSystemError, IsADirectory, NotADirectory
from sandboxio.port import FileInfo
from sandboxio.testing.gates import Gates
from sandboxio.testing.tree import Tree

T = TypeVar("T")

CHUNK = 64 * 1024


class FakeFiles:
    """`sandboxio.port.HasTrees`, over a `Tree`; every call is one on the wire, such as ``files.read``."""

    def __init__(self, gates: Gates, tree: Tree, check_alive: Callable[[], None]) -> None:
        self._gates = gates
        self._tree = tree
        self._check_alive = check_alive

    async def read(self, path: str) -> AsyncIterator[bytes]:
        """Iterate over a file's content."""
        content = await self._wire("read", lambda: self._content(path))
        for at in range(0, len(content), CHUNK):
            yield content[at : at + CHUNK]

    async def write(
        self, path: str, chunks: AsyncIterator[bytes], *, mode: int | None = None, modified: float | None = None
    ) -> None:
        """Write a file whole or not at all."""
        content = bytearray()
        async for chunk in chunks:
            content += chunk
        await self._wire("write", lambda: self._tree.write(path, bytes(content), mode, modified))

    async def list(self, path: str) -> list[FileInfo]:
        """Return a directory's entries."""

        def entries() -> list[FileInfo]:
            folder = self._tree.get(path)
            if not folder.is_dir:
                raise NotADirectory(f"{path!r} is not a directory", errno=20)
            return [self._tree.info(f"{path.rstrip('/')}/{name}") for name in folder.entries]

        return await self._wire("list", entries)

    async def stat(self, path: str) -> FileInfo:
        """Return what is known about one path, links followed."""

        def look() -> FileInfo:
            self._tree.get(path)
            return self._tree.info(path)

        return await self._wire("stat", look)

    async def mkdir(self, path: str, *, parents: bool) -> None:
        """Make a directory."""
        await self._wire("mkdir", lambda: self._tree.mkdir(path, parents=parents))

    async def remove(self, path: str, *, recursive: bool) -> None:
        """Remove a file, link, empty directory or tree."""
        await self._wire("remove", lambda: self._tree.remove(path, recursive=recursive))

    async def read_link(self, path: str) -> str:
        """Return what a link holds."""

        def look() -> str:
            target = self._tree.get(path, follow=False).target
            if target is None:
                raise FileSystemError(f"{path!r} is no link", errno=22)
            return target

        return await self._wire("read_link", look)

    async def make_link(self, path: str, target: str) -> None:
        """Make a link."""
        await self._wire("make_link", lambda: self._tree.link(path, target))

    async def set_attributes(self, path: str, *, mode: int, modified: float) -> None:
        """Set a directory's permission bits and time."""

        def change() -> None:
            folder = self._tree.get(path)
            folder.mode, folder.modified = mode, modified

        await self._wire("set_attributes", change)

    def _content(self, path: str) -> bytes:
        content = self._tree.get(path).content
        if content is None:
            raise IsADirectory(f"{path!r} is a directory", errno=21)
        return content

    async def _wire(self, call: str, act: Callable[[], T]) -> T:
        def commit() -> T:
            self._check_alive()
            return act()

        return await self._gates.wire(f"files.{call}", commit)
