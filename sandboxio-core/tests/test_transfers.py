"""Uploads, downloads and streams, over an agent and over every shell of this machine."""

import os
import shutil
import socket
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
import sandboxio
from sandboxio import (
    ConfigurationError,
    FileSystemError,
    IsADirectory,
    PathExists,
    PathNotFound,
    ResourceLimitExceeded,
    Sandbox,
)
from sandboxio.errors import NotADirectory
from sandboxio.files import Files
from sandboxio.port import Session

from .agent.harness import local_agent
from .stub import LocalSession, StubBackend

pytestmark = pytest.mark.anyio

SHELLS: dict[str, Sequence[str]] = {"sh": ("sh",), "busybox": ("busybox", "sh")}
SERVICES = ["agent", *(name for name, argv in SHELLS.items() if shutil.which(argv[0]))]
NAMES = ["plain", "two words", "new\nline", "end\n", "-rf", "*", "é🎉", "\udcff\udcfe", "'\"", "...", "x" * 255]
TIME = 1_000_000_000


@dataclass
class Ground:
    """A sandbox that is a directory of this machine, and a directory that is not in it."""

    sandbox: Sandbox
    inside: Path
    here: Path
    service: str

    @property
    def files(self) -> Files:
        return self.sandbox.files


@pytest.fixture(params=SERVICES)
async def ground(
    request: pytest.FixtureRequest, anyio_backend: str, stub: StubBackend, target: str, tmp_path: Path
) -> AsyncIterator[Ground]:
    inside, here = tmp_path / "inside", tmp_path / "here"
    inside.mkdir()
    here.mkdir()
    async with AsyncExitStack() as stack:
        session: Session
        if request.param == "agent":
            session = (await stack.enter_async_context(local_agent(workdir=str(inside)))).session
        else:
            session = LocalSession(SHELLS[request.param])
        stub.make_session = lambda: session
        sandbox = await stack.enter_async_context(sandboxio.create(target))
        sandbox.cwd = sandbox.files._cwd = str(inside)
        yield Ground(sandbox, inside, here, request.param)


def make_tree(top: Path) -> None:
    """Make a tree with everything that a tree may have."""
    (top / "empty").mkdir(parents=True)
    (top / "deep" / "er").mkdir(parents=True)
    for name in NAMES:
        (top / "deep" / name).write_bytes(os.fsencode(name))
    (top / "none").touch()
    (top / "run").write_bytes(b"#!")
    (top / "run").chmod(0o750)
    (top / "deep" / "er" / "up").symlink_to("../../run")
    (top / "link").symlink_to("deep")
    (top / "broken").symlink_to("nowhere")
    (top / "new\nline\n").symlink_to("to\nsome\n")
    (top / "empty").chmod(0o711)
    for path in (top / "run", top / "none", top / "empty", top / "deep", top):
        os.utime(path, (TIME, TIME))


def seen(top: Path) -> dict[str, object]:
    """Return everything that a transfer keeps."""
    found: dict[str, object] = {}
    for path in (top, *top.rglob("*")):
        name = str(path.relative_to(top))
        if path.is_symlink():
            found[name] = os.readlink(path)
            continue
        mode, when = stat.S_IMODE(path.stat().st_mode), int(path.stat().st_mtime)
        found[name] = (mode, when, "directory" if path.is_dir() else path.read_bytes())
    return found


async def test_a_tree_goes_in_and_comes_out_as_it_was(ground: Ground) -> None:
    """FIL-01."""
    make_tree(ground.here / "tree")
    await ground.files.upload(ground.here / "tree", "tree")
    assert seen(ground.inside / "tree") == seen(ground.here / "tree")
    await ground.files.download("tree", ground.here / "back")
    assert seen(ground.here / "back") == seen(ground.here / "tree")
    assert sorted(os.listdir(ground.here)) == ["back", "tree"]
    assert os.listdir(ground.inside) == ["tree"]


@pytest.mark.parametrize("size", [0, 1, 1024 * 1024, 3_000_001])
async def test_a_file_keeps_content_mode_and_time(ground: Ground, size: int) -> None:
    data = os.urandom(size)
    source = ground.here / "source"
    source.write_bytes(data)
    source.chmod(0o741)
    os.utime(source, (TIME, TIME))
    await ground.files.upload(source, "made/file")
    await ground.files.download("made/file", ground.here / "back")
    for path in (ground.inside / "made" / "file", ground.here / "back"):
        assert path.read_bytes() == data
        assert (stat.S_IMODE(path.stat().st_mode), path.stat().st_mtime) == (0o741, TIME)
    assert sorted(os.listdir(ground.here)) == ["back", "source"]


async def test_set_id_bits_stay_behind(ground: Ground) -> None:
    """Whoever downloads as root must not get a set-user-id program of the sandbox's making."""
    for path in (ground.inside / "program", ground.here / "program"):
        path.write_bytes(b"x")
        path.chmod(0o6755)
    (ground.inside / "tree").mkdir()
    (ground.inside / "tree").chmod(0o3777)
    await ground.files.download("program", ground.here / "back")
    await ground.files.download("tree", ground.here / "tree")
    await ground.files.upload(ground.here / "program", "other")
    for path, mode in (
        (ground.here / "back", 0o755),
        (ground.here / "tree", 0o777),
        (ground.inside / "other", 0o755),
    ):
        assert stat.S_IMODE(path.stat().st_mode) == mode


async def test_an_existing_directory_gets_it_under_its_own_name(ground: Ground) -> None:
    (ground.here / "file").write_text("1")
    (ground.here / "tree").mkdir()
    (ground.here / "tree" / "inner").write_text("2")
    (ground.inside / "there").mkdir()
    for name in ("file", "tree"):
        await ground.files.upload(ground.here / name, "there")
    await ground.files.upload(f"{ground.here}/tree/", "there/")
    await ground.files.upload(ground.here / "file", "made/")
    assert sorted(os.listdir(ground.inside / "there")) == ["file", "tree"]
    assert os.listdir(ground.inside / "there" / "tree") == ["inner"]
    assert (ground.inside / "made" / "file").read_text() == "1"
    (ground.here / "out").mkdir()
    for name in ("there/file", "there/tree/"):
        await ground.files.download(name, ground.here / "out")
    assert sorted(os.listdir(ground.here / "out")) == ["file", "tree"]


async def test_a_dot_stands_for_the_content(ground: Ground) -> None:
    (ground.here / "tree").mkdir()
    (ground.here / "tree" / "inner").write_text("new")
    (ground.inside / "inner").write_text("old")
    (ground.inside / "kept").write_text("kept")
    ground.inside.chmod(0o751)
    await ground.files.upload(f"{ground.here}/tree/.", ".")
    assert {path.name: path.read_text() for path in ground.inside.iterdir()} == {"inner": "new", "kept": "kept"}
    assert stat.S_IMODE(ground.inside.stat().st_mode) == 0o751
    (ground.here / "out").mkdir()
    await ground.files.download(".", ground.here / "out")
    assert sorted(os.listdir(ground.here / "out")) == ["inner", "kept"]


async def test_a_tree_is_merged_with_what_is_in_the_sandbox(ground: Ground) -> None:
    make_tree(ground.here / "tree")
    (ground.inside / "tree" / "deep").mkdir(parents=True)
    (ground.inside / "tree" / "deep" / "plain").write_text("old")
    (ground.inside / "tree" / "deep" / "kept").write_text("kept")
    (ground.inside / "tree" / "link").symlink_to("elsewhere")
    await ground.files.upload(ground.here / "tree", ".")
    assert (ground.inside / "tree" / "deep" / "plain").read_text() == "plain"
    assert (ground.inside / "tree" / "deep" / "kept").read_text() == "kept"
    assert os.readlink(ground.inside / "tree" / "link") == "deep"
    (ground.inside / "tree" / "link").unlink()
    (ground.inside / "tree" / "link").mkdir()
    with pytest.raises(IsADirectory):
        await ground.files.upload(ground.here / "tree", ".")
    assert (ground.inside / "tree" / "deep" / "kept").exists()


async def test_what_stands_here_is_replaced_only_as_a_whole(ground: Ground) -> None:
    (ground.inside / "file").write_text("new")
    (ground.inside / "tree").mkdir()
    (ground.inside / "tree" / "inner").write_text("new")
    (ground.here / "file").write_text("old")
    (ground.here / "precious").write_text("precious")
    (ground.here / "link").symlink_to("precious")
    (ground.here / "full" / "tree").mkdir(parents=True)
    (ground.here / "full" / "tree" / "x").touch()
    (ground.here / "full" / "file").mkdir()
    os.mkfifo(ground.here / "fifo")
    (ground.here / "empty").mkdir()
    for name in ("file", "link"):
        await ground.files.download("file", ground.here / name)
        assert (ground.here / name).read_text() == "new"
    assert (ground.here / "precious").read_text() == "precious"
    await ground.files.download("tree/.", ground.here / "empty")
    assert os.listdir(ground.here / "empty") == ["inner"]
    for remote, local, error in (
        ("tree", "full", PathExists),
        ("tree", "file", PathExists),
        ("file", "full", IsADirectory),
        ("file", "fifo", PathExists),
        ("file", "nope/", NotADirectory),
        ("file", "nope/file", PathNotFound),
        ("file", "file/x", NotADirectory),
        ("tree/.", "full", PathExists),
        (".", "/", PathExists),
    ):
        with pytest.raises(error, match="on this machine"):
            await ground.files.download(remote, os.path.join(ground.here, local))
    assert not [name for name in os.listdir(ground.here) if name.startswith(".")]
    assert os.listdir(ground.here / "full" / "tree") == ["x"]


async def test_links_at_the_top_are_followed(ground: Ground) -> None:
    for side in (ground.here, ground.inside):
        (side / "real").mkdir()
        (side / "real" / "inner").write_text("x")
        (side / "tree").symlink_to("real")
        (side / "file").symlink_to("real/inner")
    for name in ("tree", "file"):
        await ground.files.upload(ground.here / name, f"up {name}")
        await ground.files.download(name, ground.here / f"down {name}")
        for path in (ground.inside / f"up {name}", ground.here / f"down {name}"):
            assert not path.is_symlink()
            assert (path / "inner" if name == "tree" else path).read_text() == "x"


async def test_what_is_missing_is_said_to_be_missing_on_its_side(ground: Ground) -> None:
    with pytest.raises(PathNotFound) as caught:
        await ground.files.download("nope", ground.here / "x")
    assert "on this machine" not in str(caught.value)
    with pytest.raises(PathNotFound, match="on this machine"):
        await ground.files.upload(ground.here / "nope", "x")
    (ground.here / "file").touch()
    (ground.inside / "taken" / "file").mkdir(parents=True)
    with pytest.raises(IsADirectory):
        await ground.files.upload(ground.here / "file", "taken")


def fifo(path: Path) -> None:
    os.mkfifo(path)


def unix_socket(path: Path) -> None:
    os.chdir(path.parent)  # a socket's path has room for about a hundred characters
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
    os.chdir("/")


def leads_out(path: Path) -> None:
    path.symlink_to("../../precious")


def absolute(path: Path) -> None:
    path.symlink_to("/etc/hostname")


def leads_out_by_way_of_another(path: Path) -> None:
    (path.parent / "a").symlink_to("..")
    path.symlink_to("a/../x")


@pytest.mark.parametrize("make", [fifo, unix_socket, leads_out, absolute, leads_out_by_way_of_another])
async def test_a_tree_with_what_can_not_be_kept_is_refused_by_name(
    ground: Ground, make: Callable[[Path], None]
) -> None:
    (ground.inside / "tree" / "sub").mkdir(parents=True)
    (ground.inside / "tree" / "a file").write_text("x")
    make(ground.inside / "tree" / "sub" / "the thing")
    with pytest.raises(FileSystemError, match="the thing"):
        await ground.files.download("tree", ground.here / "tree")
    assert os.listdir(ground.here) == []


@pytest.mark.parametrize("make", [fifo, unix_socket])
async def test_a_special_file_is_not_uploaded_and_what_was_begun_is_removed(
    ground: Ground, make: Callable[[Path], None]
) -> None:
    (ground.here / "tree" / "sub").mkdir(parents=True)
    (ground.here / "tree" / "a file").write_text("x")
    make(ground.here / "tree" / "sub" / "the thing")
    with anyio.fail_after(20):
        with pytest.raises(FileSystemError, match="the thing"):
            await ground.files.upload(ground.here / "tree", "tree")
        with pytest.raises(FileSystemError, match="the thing"):
            await ground.files.upload(ground.here / "tree" / "sub" / "the thing", "x")
    assert os.listdir(ground.inside) == []
    assert (await ground.sandbox.run(["true"])).ok


async def test_an_interrupted_download_leaves_nothing(ground: Ground) -> None:
    make_tree(ground.inside / "tree")
    (ground.inside / "tree" / "big").write_bytes(bytes(50_000_000))
    async with anyio.create_task_group() as group:
        group.start_soon(ground.files.download, "tree", ground.here / "tree")
        while not list(ground.here.glob(".sandboxio-*/*")):
            await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    assert os.listdir(ground.here) == []


async def test_an_interrupted_upload_leaves_nothing(ground: Ground) -> None:
    make_tree(ground.here / "tree")
    (ground.here / "tree" / "run").write_bytes(bytes(100_000_000))
    async with anyio.create_task_group() as group:
        group.start_soon(ground.files.upload, ground.here / "tree", "tree")
        while not (ground.inside / "tree" / "deep").exists():
            await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    assert os.listdir(ground.inside) == []


async def test_more_than_max_bytes_is_refused(ground: Ground) -> None:
    (ground.inside / "tree").mkdir()
    for name in "ab":
        (ground.inside / "tree" / name).write_bytes(bytes(600))
    with pytest.raises(FileSystemError, match="max_bytes"):
        await ground.files.download("tree", ground.here / "tree", max_bytes=1199)
    assert os.listdir(ground.here) == []
    await ground.files.download("tree", ground.here / "tree", max_bytes=1200)
    assert len(os.listdir(ground.here / "tree")) == 2


@pytest.mark.parametrize("wrong", [-1, True, 1.5, None])
async def test_max_bytes_is_a_number_of_bytes(ground: Ground, wrong: int) -> None:
    with pytest.raises(ConfigurationError, match="max_bytes"):
        await ground.files.download("x", ground.here / "x", max_bytes=wrong)


@pytest.mark.parametrize("wrong", ["", "a\0b", b"x", 5])
async def test_a_local_path_is_a_path(ground: Ground, wrong: str) -> None:
    for call in (ground.files.upload(wrong, "x"), ground.files.download("x", wrong)):
        with pytest.raises((ConfigurationError, TypeError)):
            await call


async def test_a_file_is_read_and_written_in_pieces(ground: Ground) -> None:
    data = os.urandom(3_000_001)
    async with ground.files.open_write("made/file") as file:
        for start in range(0, len(data), 1_000_000):
            await file.write(data[start : start + 1_000_000])
            assert not (ground.inside / "made" / "file").exists()
        await file.write(b"")
    assert (ground.inside / "made" / "file").read_bytes() == data
    async with ground.files.open_read("made/file") as reader:
        assert b"".join([chunk async for chunk in reader]) == data
        assert [chunk async for chunk in reader] == []
    async with ground.files.open_write("empty"):
        pass
    async with ground.files.open_read("empty") as reader:
        assert [chunk async for chunk in reader] == []
    with pytest.raises(ConfigurationError, match="closed"):
        await file.write(b"x")


async def test_what_can_not_be_opened_shows_at_the_door(ground: Ground) -> None:
    with pytest.raises(PathNotFound):
        async with ground.files.open_read("nope"):
            pytest.fail("it was entered")
    (ground.inside / "folder").mkdir()
    with pytest.raises(IsADirectory):
        async with ground.files.open_write("folder") as file:
            await file.write(b"x")


@pytest.mark.parametrize("how", ["exception", "cancellation"])
async def test_a_write_left_in_the_middle_leaves_no_file(ground: Ground, how: str) -> None:
    (ground.inside / "old").write_text("old")

    class Broken(Exception):
        pass

    for name in ("old", "new"):
        with anyio.CancelScope() as scope:
            try:
                async with ground.files.open_write(name) as file:
                    await file.write(bytes(100_000))
                    if how == "exception":
                        raise Broken
                    scope.cancel()
                    await anyio.sleep_forever()
            except Broken:
                assert how == "exception"
    with anyio.fail_after(20):
        while os.listdir(ground.inside) != ["old"]:
            await anyio.sleep(0.01)
    assert (ground.inside / "old").read_text() == "old"


async def interrupt(act: Callable[[], Awaitable[object]]) -> None:
    """Act until once the cancellation really came in between: what is at hand already is returned all the same."""
    for _ in range(100):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await act()
        if scope.cancelled_caught:
            return
    raise AssertionError("it was never interrupted")


async def test_a_piece_that_may_be_lost_is_not_passed_over(ground: Ground) -> None:
    (ground.inside / "file").write_bytes(bytes(3_000_000))
    async with ground.files.open_read("file") as reader:
        await anext(reader)
        await interrupt(lambda: anext(reader))
        with pytest.raises(FileSystemError, match="open it again"):
            await anext(reader)

    async def lose_a_piece() -> None:
        async with ground.files.open_write("file") as file:
            await interrupt(lambda: file.write(b"x"))

    with pytest.raises(FileSystemError, match="nothing was replaced"):
        await lose_a_piece()
    assert (ground.inside / "file").stat().st_size == 3_000_000


@pytest.mark.parametrize("how", ["write", "open_write", "upload", "tree"])
async def test_a_full_disk_is_the_disk_cap_and_leaves_nothing(
    stub: StubBackend, target: str, tmp_path: Path, how: str
) -> None:
    """RES-06; what fills up is the size that a file may have, as the cap on disk bounds it too."""
    inside, tree = tmp_path / "inside", tmp_path / "tree"
    inside.mkdir()
    tree.mkdir()
    (tree / "a").touch()
    (tree / "b").write_bytes(bytes(1_000_000))
    async with local_agent(workdir=str(inside), prefix=("sh", "-c", 'ulimit -f 100; exec "$@"', "sh")) as local:
        stub.make_session = lambda: local.session
        async with sandboxio.create(target) as sandbox:
            calls = {
                "write": lambda: sandbox.files.write(f"{inside}/x", bytes(1_000_000)),
                "open_write": lambda: write_pieces(sandbox, f"{inside}/x"),
                "upload": lambda: sandbox.files.upload(tree / "b", f"{inside}/x"),
                "tree": lambda: sandbox.files.upload(tree, f"{inside}/x"),
            }
            with pytest.raises(ResourceLimitExceeded, match="disk_mb"):
                await calls[how]()
            assert os.listdir(inside) == []


async def write_pieces(sandbox: Sandbox, path: str, count: int = 20, pause: float = 0) -> None:
    async with sandbox.files.open_write(path) as file:
        for _ in range(count):
            await file.write(bytes(100_000))
            await anyio.sleep(pause)


async def test_a_transfer_ends_with_the_lifetime(stub: StubBackend, target: str, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(bytes(1000))
    session = LocalSession()
    stub.make_session = lambda: session
    async with sandboxio.create(target, timeout=0.5) as sandbox:
        with anyio.fail_after(20), pytest.raises(sandboxio.SandboxGone, match="lifetime"):
            await write_pieces(sandbox, f"{tmp_path}/x", count=1_000_000, pause=0.01)
