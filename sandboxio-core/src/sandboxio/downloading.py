"""Downloads: a file or a tree of a sandbox, whole on this machine or not there at all."""

from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass

from sandboxio.errors import FileSystemError, SandboxError
from sandboxio.file_calls import as_generator, with_trees
from sandboxio.local_target import LocalTarget
from sandboxio.local_work import LocalWork, need_descriptors
from sandboxio.port import FileInfo, HasFiles, HasTrees
from sandboxio.records import Count, uncounted
from sandboxio.tree_rules import Bounds, encoded, inner_link, plain_name

BLOCK = 1024 * 1024
"""Bytes that are collected for one local write: a turn in a worker thread costs as much as copying some of them."""
DEFAULT_MAX_BYTES = 64 * 1024**3
"""Bytes of all files of one download: a sandbox can hold sparse files of any size, and need never end one."""


async def download(
    service: HasFiles, remote: str, name: str | None, local: str, max_bytes: int, count: Count = uncounted
) -> None:
    """Fetch everything, then give it its final name.

    :param remote: absolute.
    :param name: its last component, ``None`` if that is none.
    """
    need_descriptors()
    target, work = LocalTarget(local, name), LocalWork()
    top = await service.stat(remote)
    try:
        await work.run(lambda: target.begin(folder=top.is_dir), local)
        files = _Files(service, target, work, max_bytes, count)
        if top.is_dir:
            await _Tree(with_trees(service, remote), target, work, files).fetch(remote, top)
        else:
            await files.fetch(remote, top, None)
        await work.run(target.publish, local)
    except BaseException as error:
        try:
            await work.end(target.discard, local)
        except SandboxError as left:
            # The first error stays the error, above all if it is a cancellation.
            error.add_note(f"what was begun could not be removed: {left}")
        raise
    await work.end(target.discard, local)


class _Files:
    """Fetches files one by one, up to a sum of bytes."""

    def __init__(self, service: HasFiles, target: LocalTarget, work: LocalWork, max_bytes: int, count: Count) -> None:
        self._service = service
        self._target = target
        self._work = work
        self._told = count
        self._left = max_bytes

    async def fetch(self, path: str, info: FileInfo, name: bytes | None) -> None:
        """Fetch one file; one without a name is open already.

        It ends where its content ends: what the sandbox says of its size is not used.
        """
        block = bytearray()
        async with aclosing(as_generator(self._service.read(path))) as chunks:
            async for chunk in chunks:
                self._count(chunk, path)
                block += chunk
                if len(block) >= BLOCK:
                    await self._work.run(self._appending(block, name), path)
                    block, name = bytearray(), None
        append = self._appending(block, name)

        def complete() -> None:
            append()
            self._target.close_file(info.mode, info.modified)

        await self._work.run(complete, path)

    def _count(self, chunk: bytes, path: str) -> None:
        self._left -= len(chunk)
        self._told(len(chunk))
        if self._left < 0:
            raise FileSystemError(
                f"{path!r}: the download is over max_bytes; nothing was kept", hint="pass a larger max_bytes="
            )

    def _appending(self, block: bytearray, name: bytes | None) -> Callable[[], None]:
        def act() -> None:
            if name is not None:
                self._target.open_file(name)
            self._target.append(block)

        return act


@dataclass(frozen=True, slots=True)
class _Level:
    """A directory that is being fetched, and what of it is still to come."""

    path: str
    info: FileInfo
    entries: Iterator[FileInfo]


class _Tree:
    """Fetches a tree, without recursion: its depth is the sandbox's choice."""

    def __init__(self, service: HasTrees, target: LocalTarget, work: LocalWork, files: _Files) -> None:
        self._service = service
        self._target = target
        self._work = work
        self._files = files
        self._bounds = Bounds()
        self._levels: list[_Level] = []

    async def fetch(self, path: str, info: FileInfo) -> None:
        """Fetch what is in a directory that the target has made."""
        await self._open(path, info)
        while self._levels:
            level = self._levels[-1]
            entry = next(level.entries, None)
            if entry is None:
                await self._close(self._levels.pop())
            else:
                await self._fetch_entry(entry, level)

    async def _fetch_entry(self, entry: FileInfo, level: _Level) -> None:
        name = encoded(plain_name(entry, level.path))
        if entry.is_symlink:
            text = await self._service.read_link(entry.path)
            link = inner_link(text, len(self._levels) - 1, entry.path)
            await self._work.run(lambda: self._target.link(name, link), entry.path)
        elif entry.is_dir:
            await self._work.run(lambda: self._target.enter(name), entry.path)
            await self._open(entry.path, entry)
        else:
            await self._files.fetch(entry.path, entry, name)

    async def _open(self, path: str, info: FileInfo) -> None:
        self._bounds.down(path)
        entries = await self._service.list(path)
        self._bounds.met(len(entries), path)
        self._levels.append(_Level(path, info, iter(entries)))

    async def _close(self, level: _Level) -> None:
        await self._work.run(lambda: self._target.leave(level.info.mode, level.info.modified), level.path)
        self._bounds.up()
