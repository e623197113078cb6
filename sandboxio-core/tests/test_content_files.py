"""Files over commands, whose large contents go another way."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import sandboxio
from sandboxio import FileSystemError, IsADirectory, PathNotFound, Sandbox
from sandboxio.content_files import SMALL

from .stub import LocalSession, StubBackend

pytestmark = pytest.mark.anyio
LARGE = os.urandom(2 * SMALL + 1)


class WithContents(LocalSession):
    """Carries contents by itself, and loses some of them when it is told to."""

    def __init__(self) -> None:
        super().__init__(("sh",))
        self.carried: list[tuple[str, str]] = []
        self.loses = 0

    async def read_content(self, path: str) -> AsyncIterator[bytes]:
        self.carried.append(("read", path))
        content = Path(path).read_bytes()
        yield content[: len(content) - self.loses]

    async def write_content(self, path: str, chunks: AsyncIterator[bytes]) -> None:
        self.carried.append(("write", path))
        assert Path(path).read_bytes() == b""  # a command made it
        content = b"".join([chunk async for chunk in chunks])
        Path(path).write_bytes(content[: len(content) - self.loses])


@pytest.fixture
def session(stub: StubBackend) -> WithContents:
    made = WithContents()
    stub.make_session = lambda: made
    return made


@pytest.fixture
async def sandbox(session: WithContents, target: str, tmp_path: Path) -> AsyncIterator[Sandbox]:
    async with sandboxio.create(target) as made:
        made.cwd = made.files._cwd = str(tmp_path)
        yield made


@pytest.mark.parametrize("size", [0, 1, SMALL])
async def test_a_small_content_goes_with_its_command(sandbox: Sandbox, session: WithContents, size: int) -> None:
    await sandbox.files.write("file", LARGE[:size])
    assert await sandbox.files.read("file") == LARGE[:size]
    assert session.carried == []


async def test_a_large_content_goes_the_other_way_and_is_put_in_its_place(
    sandbox: Sandbox, session: WithContents, tmp_path: Path
) -> None:
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "old").chmod(0o640)
    (tmp_path / "link").symlink_to("old")
    await sandbox.files.write("link", LARGE)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "old").read_bytes() == LARGE
    assert (tmp_path / "old").stat().st_mode & 0o777 == 0o640
    assert await sandbox.files.read("link") == LARGE
    assert [way for way, _ in session.carried] == ["write", "read"]
    assert sorted(os.listdir(tmp_path)) == ["link", "old"]


async def test_missing_parents_are_made_and_times_kept(sandbox: Sandbox, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(LARGE)
    os.utime(source, (1_000_000_000, 1_000_000_000))
    await sandbox.files.upload(source, "deep/er/file")
    assert (tmp_path / "deep/er/file").read_bytes() == LARGE
    assert (tmp_path / "deep/er/file").stat().st_mtime == 1_000_000_000


async def test_what_is_lost_on_the_way_changes_nothing(sandbox: Sandbox, session: WithContents, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    session.loses = 1
    with pytest.raises(FileSystemError, match="arrived"):
        await sandbox.files.write("file", LARGE)
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


async def test_what_is_lost_on_the_way_back_is_an_error(
    sandbox: Sandbox, session: WithContents, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(LARGE)
    session.loses = 1
    with pytest.raises(FileSystemError, match="came"):
        await sandbox.files.read("file")


async def test_what_is_no_file_is_said_by_a_command(sandbox: Sandbox, session: WithContents, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(PathNotFound):
        await sandbox.files.read("missing")
    with pytest.raises(IsADirectory):
        await sandbox.files.read("folder")
    with pytest.raises(IsADirectory):
        await sandbox.files.write("folder", LARGE)
    assert session.carried == []


async def test_a_name_that_is_no_text_goes_with_a_command(sandbox: Sandbox, session: WithContents) -> None:
    await sandbox.files.write("\udcff", LARGE)
    assert await sandbox.files.read("\udcff") == LARGE
    assert session.carried == []
