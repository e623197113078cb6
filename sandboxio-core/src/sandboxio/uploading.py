"""Uploads: a file or a tree of this machine."""

import posixpath
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandboxio.errors import IsADirectory, PathExists, PathNotFound, SandboxError
from sandboxio.file_calls import with_trees
from sandboxio.local_source import Found, LocalSource
from sandboxio.local_work import LocalWork, need_descriptors
from sandboxio.port import HasFiles, HasTrees
from sandboxio.records import Count, uncounted
from sandboxio.teardown import finish, teardown_grace
from sandboxio.tree_rules import Bounds

if TYPE_CHECKING:
    from sandboxio.lease import Lease

BLOCK = 1024 * 1024
"""Bytes that are read from a local file at a time."""


async def upload(
    lease: "Lease", service: HasFiles, local: str, name: str | None, remote: str, count: Count = uncounted
) -> None:
    """Send everything; a tree that can't be sent whole is removed again, unless its directory was there before.

    :param name: the last component of ``local``, ``None`` if that is none.
    :param remote: absolute.
    """
    need_descriptors()
    source, work = LocalSource(local), LocalWork()
    try:
        top = await work.run(source.begin, local)
        files = _Files(service, source, work, count)
        target, is_new = await _destination(service, remote, name, top)
        if top.kind == "file":
            await files.send(target, top)
        else:
            await _send_tree(lease, _Tree(with_trees(service, remote), source, work, files), target, top, is_new)
    except BaseException as error:
        try:
            await work.end(source.close, local)
        except SandboxError as left:
            error.add_note(f"what was read could not be closed: {left}")
        raise
    await work.end(source.close, local)


async def _destination(service: HasFiles, remote: str, name: str | None, top: Found) -> tuple[str, bool]:
    """Return where it goes, and whether nothing is there yet: into a directory that exists under its own name."""
    is_folder = await _is_folder(service, remote)
    if name is not None and (is_folder or (remote.endswith("/") and top.kind == "file")):
        remote = posixpath.join(remote, name)
        is_folder = await _is_folder(service, remote)
    if top.kind == "file" and is_folder:
        raise IsADirectory(f"{remote!r} is a directory", errno=21)
    return remote, is_folder is None


async def _is_folder(service: HasFiles, path: str) -> bool | None:
    """Whether a path leads to a directory; ``None`` if it leads to nothing."""
    try:
        return (await service.stat(path)).is_dir
    except PathNotFound:
        return None


async def _send_tree(lease: "Lease", tree: "_Tree", target: str, top: Found, is_new: bool) -> None:
    try:
        await tree.send(target, top, is_new=is_new)
    except BaseException as error:
        if is_new:
            await _remove_after(error, lease, tree.service, target)
        raise


async def _remove_after(error: BaseException, lease: "Lease", service: HasFiles, path: str) -> None:
    """Remove what an upload began, immune to cancellation; whatever comes of it, ``error`` stays the error."""

    async def work() -> None:
        with lease.mapped():
            lease.check_alive()
            await service.remove(path, recursive=True)

    try:
        await finish(work, teardown_grace(), lambda: error.add_note(f"{path!r} may still be there, in part"))
    except PathNotFound:
        return
    except SandboxError as left:
        error.add_note(f"{path!r} may still be there, in part: {left}")


class _Files:
    """Sends the file that the source has opened."""

    def __init__(self, service: HasFiles, source: LocalSource, work: LocalWork, count: Count) -> None:
        self._service = service
        self._source = source
        self._work = work
        self._count = count

    async def send(self, path: str, found: Found) -> None:
        """Send it whole or not at all, with its mode and time."""
        async with aclosing(self._chunks(path)) as chunks:
            await self._service.write(path, chunks, mode=found.mode, modified=found.modified)

    async def _chunks(self, path: str) -> AsyncGenerator[bytes, None]:
        while data := await self._work.run(lambda: self._source.read(BLOCK), path):
            self._count(len(data))
            yield data


@dataclass(frozen=True, slots=True)
class _Level:
    """A directory that is being sent, and the names of it that are still to come.

    :param is_new: false if it was there before; its mode and time stay then.
    """

    path: str
    found: Found
    is_new: bool
    names: Iterator[str]


class _Tree:
    """Sends a tree: what is there already is merged with, file by file."""

    def __init__(self, service: HasTrees, source: LocalSource, work: LocalWork, files: _Files) -> None:
        self.service = service
        self._source = source
        self._work = work
        self._files = files
        self._bounds = Bounds()
        self._levels: list[_Level] = []

    async def send(self, path: str, found: Found, *, is_new: bool) -> None:
        """Send the directory that the source has opened."""
        await self.service.mkdir(path, parents=True)
        await self._open(path, found, is_new)
        while self._levels:
            level = self._levels[-1]
            name = next(level.names, None)
            if name is None:
                await self._close(self._levels.pop())
            else:
                await self._send_entry(name, posixpath.join(level.path, name))

    async def _send_entry(self, name: str, path: str) -> None:
        found = await self._work.run(lambda: self._source.look(name, path), path)
        if found.kind == "link":
            await self.service.make_link(path, found.target)
        elif found.kind == "folder":
            await self._open(path, found, await self._make(path))
        else:
            await self._files.send(path, found)

    async def _make(self, path: str) -> bool:
        """Make a directory; false if it is there already."""
        try:
            await self.service.mkdir(path, parents=False)
        except PathExists:
            await self.service.mkdir(path, parents=True)
            return False
        return True

    async def _open(self, path: str, found: Found, is_new: bool) -> None:
        self._bounds.down(path)
        names = await self._work.run(self._source.names, path)
        self._bounds.met(len(names), path)
        self._levels.append(_Level(path, found, is_new, iter(names)))

    async def _close(self, level: _Level) -> None:
        await self._work.run(self._source.leave, level.path)
        self._bounds.up()
        if level.is_new:
            await self.service.set_attributes(level.path, mode=level.found.mode, modified=level.found.modified)
