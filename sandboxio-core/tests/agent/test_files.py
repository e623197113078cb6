"""Files: what is read and written, and what is refused."""

import errno
import os
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from sandboxio.errors import (
    FileSystemError,
    IsADirectory,
    NotADirectory,
    PathExists,
    PathNotFound,
    PermissionDenied,
)
from sandboxio.port import HasFiles

from .harness import AS_NOBODY, IS_ROOT, PATIENCE, Local, local_agent

pytestmark = pytest.mark.anyio

NAMES = ["plain", "two words", "new\nline", "ünï", "\udcff\udcfe", "-rf", "*", "'\"", "." * 3, "x" * 255]


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def content(agent: Local, path: Path | str) -> bytes:
    with anyio.fail_after(PATIENCE):
        return b"".join([chunk async for chunk in agent.session.read(str(path))])


async def test_the_session_serves_files(agent: Local) -> None:
    assert isinstance(agent.session, HasFiles)


@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 10_000])
async def test_what_was_written_is_read(agent: Local, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "made" / "on the way" / "file"
    await agent.session.write(str(path), pieces(data[:7], data[7:]))
    assert path.read_bytes() == data
    assert await content(agent, path) == data
    assert [entry.name for entry in path.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("name", NAMES)
async def test_names_are_any_bytes(agent: Local, tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    await agent.session.write(path, pieces(b"x"))
    assert os.listdir(os.fsencode(tmp_path)) == [os.fsencode(name)]
    (entry,) = await agent.session.list(str(tmp_path))
    assert (entry.path, entry.size, entry.is_dir, entry.is_symlink) == (path, 1, False, False)
    assert await agent.session.stat(path) == entry
    await agent.session.remove(path, recursive=False)
    assert os.listdir(tmp_path) == []


async def test_a_new_file_is_readable_by_all_and_an_old_one_keeps_its_mode(agent: Local, tmp_path: Path) -> None:
    path = tmp_path / "file"
    await agent.session.write(str(path), pieces(b"1"))
    mask = os.umask(0o022)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    path.chmod(0o751)
    await agent.session.write(str(path), pieces(b"2"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o751


async def test_mode_and_time_are_set_when_they_are_given(agent: Local, tmp_path: Path) -> None:
    path = tmp_path / "file"
    await agent.session.write(str(path), pieces(b"1"), mode=0o640, modified=1_000_000_000.5)
    entry = await agent.session.stat(str(path))
    assert (entry.mode, entry.modified) == (0o640, 1_000_000_000.5)


async def test_a_link_is_written_through_and_stays(agent: Local, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "second").symlink_to("target")
    (tmp_path / "first").symlink_to(tmp_path / "second")
    (tmp_path / "dangling").symlink_to("new")
    await agent.session.write(str(tmp_path / "first"), pieces(b"new"))
    await agent.session.write(str(tmp_path / "dangling"), pieces(b"made"))
    assert (tmp_path / "first").is_symlink()
    assert (tmp_path / "target").read_text() == "new"
    assert (tmp_path / "new").read_text() == "made"


async def test_a_failed_or_cancelled_write_leaves_the_old_content_and_nothing_else(
    agent: Local, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    class Broken(Exception):
        pass

    async def breaking() -> AsyncIterator[bytes]:
        yield bytes(100_000)
        raise Broken

    async def stalling() -> AsyncIterator[bytes]:
        yield bytes(2_000_000)
        await anyio.sleep_forever()

    with pytest.raises(Broken):
        await agent.session.write(str(path), breaking())
    with anyio.move_on_after(0.05):
        await agent.session.write(str(path), stalling())
    assert (await agent.session.stat(str(path))).size == 3
    assert os.listdir(tmp_path) == ["file"]


async def test_a_full_disk_is_an_error_with_the_number_and_leaves_nothing(agent: Local, tmp_path: Path) -> None:
    async with local_agent(prefix=("sh", "-c", 'ulimit -f 100; exec "$@"', "sh")) as limited:
        with pytest.raises(FileSystemError) as caught:
            await limited.session.write(str(tmp_path / "big"), pieces(bytes(1_000_000), bytes(1_000_000)))
        assert caught.value.errno == errno.EFBIG
        assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", ["fifo", "socket", "device", "directory"])
async def test_what_is_no_regular_file_is_refused_and_never_waited_for(agent: Local, tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.path.relpath(path))
    elif kind == "device":
        path = Path("/dev/zero")
    else:
        path.mkdir()
    expected = IsADirectory if kind == "directory" else FileSystemError
    with anyio.fail_after(PATIENCE):
        with pytest.raises(expected):
            await content(agent, path)
        with pytest.raises(expected):
            await agent.session.write(str(path), pieces(b"x"))
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(expected):
        await content(agent, tmp_path / "link")


async def test_a_missing_path_is_not_found_everywhere(agent: Local, tmp_path: Path) -> None:
    path = str(tmp_path / "missing")
    with pytest.raises(PathNotFound):
        await content(agent, path)
    with pytest.raises(PathNotFound):
        await agent.session.list(path)
    with pytest.raises(PathNotFound):
        await agent.session.stat(path)
    with pytest.raises(PathNotFound):
        await agent.session.remove(path, recursive=True)
    with pytest.raises(PathNotFound):
        await agent.session.mkdir(path + "/below", parents=False)


async def test_a_file_is_no_directory(agent: Local, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = str(tmp_path / "file")
    with pytest.raises(NotADirectory):
        await agent.session.list(path)
    with pytest.raises(NotADirectory):
        await agent.session.write(path + "/below", pieces(b"x"))
    with pytest.raises(NotADirectory):
        await agent.session.stat(path + "/below")
    with pytest.raises(PathExists):
        await agent.session.mkdir(path, parents=True)


@pytest.mark.skipif(not IS_ROOT, reason="only root can become nobody")
async def test_what_may_not_be_touched_is_denied(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    async with local_agent(python="/usr/bin/python3", prefix=AS_NOBODY) as agent:
        with pytest.raises(PermissionDenied):
            await content(agent, secret)
        with pytest.raises(PermissionDenied):
            await agent.session.write(str(tmp_path / "new"), pieces(b"x"))
        with pytest.raises(PermissionDenied):
            await agent.session.remove(str(secret), recursive=False)


async def test_directories_are_made_once_or_with_their_parents(agent: Local, tmp_path: Path) -> None:
    await agent.session.mkdir(str(tmp_path / "one"), parents=False)
    with pytest.raises(PathExists):
        await agent.session.mkdir(str(tmp_path / "one"), parents=False)
    await agent.session.mkdir(str(tmp_path / "one" / "two" / "three"), parents=True)
    await agent.session.mkdir(str(tmp_path / "one" / "two" / "three"), parents=True)
    assert (tmp_path / "one" / "two" / "three").is_dir()


async def test_links_are_listed_as_what_they_lead_to_and_broken_ones_with_size_0(agent: Local, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("12345")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "to file").symlink_to("file")
    (tmp_path / "to folder").symlink_to("/usr")
    (tmp_path / "broken").symlink_to("nothing")
    (tmp_path / "loop").symlink_to("loop")
    found = {Path(entry.path).name: entry for entry in await agent.session.list(str(tmp_path))}
    assert (found["to file"].size, found["to file"].mode, found["to file"].is_symlink) == (5, 0o640, True)
    assert (found["to folder"].is_dir, found["to folder"].is_symlink) == (True, True)
    assert [(found[name].size, found[name].is_symlink) for name in ("broken", "loop")] == [(0, True), (0, True)]
    with pytest.raises(PathNotFound):
        await agent.session.stat(str(tmp_path / "broken"))
    with pytest.raises(FileSystemError) as caught:
        await agent.session.stat(str(tmp_path / "loop"))
    assert caught.value.errno == errno.ELOOP


async def test_a_directory_of_ten_thousand_is_listed_whole(agent: Local, tmp_path: Path) -> None:
    for number in range(10_000):
        (tmp_path / f"{number:040}").touch()
    with anyio.fail_after(PATIENCE):
        entries = await agent.session.list(str(tmp_path))
    assert sorted(entry.path for entry in entries) == [str(tmp_path / f"{number:040}") for number in range(10_000)]


async def test_a_tree_is_removed_and_links_in_it_are_not_followed(agent: Local, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    tree = tmp_path / "tree"
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "file").touch()
    (tree / "a" / "link").symlink_to(kept)
    (tree / "broken").symlink_to("nothing")
    with pytest.raises(IsADirectory):
        await agent.session.remove(str(tree), recursive=False)
    await agent.session.remove(str(tree), recursive=True)
    assert not tree.exists()
    (tmp_path / "link").symlink_to(kept)
    await agent.session.remove(str(tmp_path / "link"), recursive=True)
    assert (kept / "file").exists()
    with pytest.raises(FileSystemError):
        await agent.session.remove("/", recursive=True)


async def test_a_tree_deeper_than_any_path_is_removed(agent: Local, tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("deep", dir_fd=here)
        below = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    with anyio.fail_after(PATIENCE):
        await agent.session.remove(str(tmp_path / "deep"), recursive=True)
    assert os.listdir(tmp_path) == []


async def test_a_reader_that_sleeps_delays_nobody_and_one_that_leaves_costs_nothing(
    agent: Local, tmp_path: Path
) -> None:
    big = tmp_path / "big"
    with big.open("wb") as file:
        file.truncate(50_000_000)
    reading = agent.session.read(str(big))
    await anext(reading)
    with anyio.fail_after(PATIENCE):
        assert (await agent.run("echo", "on")).stdout == b"on\n"
        assert len(await content(agent, big)) == 50_000_000
    await reading.aclose()  # type: ignore[attr-defined]
    assert await content(agent, big) == bytes(50_000_000)


@pytest.mark.parametrize("path", ["relative", "", "/a\0b", "/" + "x" * 5000])
async def test_paths_that_cannot_be_are_refused(agent: Local, path: str) -> None:
    with pytest.raises(FileSystemError):
        await agent.session.stat(path)


async def test_files_of_proc_are_read_to_their_end(agent: Local) -> None:
    assert b"MemTotal" in await content(agent, "/proc/meminfo")
