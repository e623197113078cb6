"""Files over commands, by every shell of this machine."""

import os
import shutil
import stat
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import anyio
import pytest
import sandboxio
from sandboxio import (
    CapabilityNotSupported,
    ConfigurationError,
    FileSystemError,
    IsADirectory,
    NotADirectory,
    PathExists,
    PathNotFound,
    PermissionDenied,
    ResourceLimitExceeded,
    Sandbox,
)
from sandboxio.port import Chunk, Exit

from .stub import Hold, LocalSession, Program, StubBackend

pytestmark = pytest.mark.anyio

SHELLS: dict[str, Sequence[str]] = {"sh": ("sh",), "bash --posix": ("bash", "--posix"), "busybox": ("busybox", "sh")}
PRESENT = [name for name, argv in SHELLS.items() if shutil.which(argv[0])]
NAMES = [
    "plain",
    "with space",
    "new\nline",
    "trailing\n",
    "-delete",
    "-rf",
    "*",
    "?",
    "[a]",
    "é🎉",
    "'\"",
    "$HOME",
    "`id`",
    "\\n",
]


@pytest.fixture(params=PRESENT)
def shell(request: pytest.FixtureRequest) -> Sequence[str]:
    return SHELLS[request.param]


@pytest.fixture
async def sandbox(shell: Sequence[str], stub: StubBackend, target: str, tmp_path: Path) -> AsyncIterator[Sandbox]:
    session = LocalSession(shell)
    stub.make_session = lambda: session
    async with sandboxio.create(target) as made:
        made.cwd = made.files._cwd = str(tmp_path)
        yield made


@pytest.mark.parametrize("size", [0, 1, 4096, 131_072, 3_000_001])
async def test_content_comes_back_byte_for_byte(sandbox: Sandbox, tmp_path: Path, size: int) -> None:
    """FS-03."""
    content = os.urandom(size)
    await sandbox.files.write("file", content)
    assert (tmp_path / "file").read_bytes() == content
    assert await sandbox.files.read("file") == content


async def test_content_is_never_guessed_at(sandbox: Sandbox) -> None:
    """ENC-06."""
    content = b"a" * 8190 + "가나다".encode()
    await sandbox.files.write("k", content)
    assert await sandbox.files.read("k") == content
    assert len(content) == 8199


async def test_text_is_written_as_utf8_with_its_line_ends(sandbox: Sandbox, tmp_path: Path) -> None:
    """FS-13."""
    await sandbox.files.write("t", "é\r\n")
    assert (tmp_path / "t").read_bytes() == b"\xc3\xa9\r\n"
    assert await sandbox.files.read_text("t") == "é\r\n"


@pytest.mark.parametrize("name", NAMES)
async def test_any_name_can_be_written_listed_read_and_removed(sandbox: Sandbox, tmp_path: Path, name: str) -> None:
    """FS-01, FIL-01."""
    await sandbox.files.write("bystander", b"k")
    await sandbox.files.write(name, b"content")
    assert [Path(entry.path).name for entry in await sandbox.files.ls()] == sorted(["bystander", name])
    assert await sandbox.files.read(name) == b"content"
    assert (await sandbox.files.stat(name)).size == 7
    await sandbox.files.remove(name)
    assert os.listdir(tmp_path) == ["bystander"]


@pytest.mark.parametrize("name", NAMES)
async def test_any_name_can_be_a_directory(sandbox: Sandbox, tmp_path: Path, name: str) -> None:
    await sandbox.files.mkdir(name)
    assert await sandbox.files.ls(name) == []
    await sandbox.files.write(f"{name}/inner", b"1")
    (entry,) = await sandbox.files.ls(name)
    assert entry.path == f"{tmp_path}/{name}/inner"
    assert (await sandbox.files.stat(name)).is_dir
    await sandbox.files.remove(name, recursive=True)
    assert os.listdir(tmp_path) == []


async def test_a_directory_whose_name_looks_like_an_option_lists_itself(sandbox: Sandbox) -> None:
    """FS-01."""
    await sandbox.files.mkdir("-delete")
    await sandbox.files.write("keepme", b"k")
    assert await sandbox.files.ls("-delete") == []
    assert {Path(entry.path).name for entry in await sandbox.files.ls(".")} == {"-delete", "keepme"}


async def test_entries_say_what_they_are(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "file").chmod(0o4751)
    os.utime(tmp_path / "file", (1_000_000_000, 1_000_000_000))
    (tmp_path / "dir").mkdir()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dirlink").symlink_to("dir")
    (tmp_path / "broken").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / ".hidden").touch()
    (tmp_path / "..odd").touch()
    found = {Path(entry.path).name: entry for entry in await sandbox.files.ls()}
    assert set(found) == {"file", "dir", "link", "dirlink", "broken", "loop", ".hidden", "..odd"}
    file = found["file"]
    assert (file.size, file.mode, file.modified, file.is_dir, file.is_symlink) == (5, 0o4751, 1e9, False, False)
    assert (found["link"].size, found["link"].is_symlink, found["link"].is_dir) == (5, True, False)
    assert (found["dirlink"].is_dir, found["dirlink"].is_symlink) == (True, True)
    assert (found["broken"].size, found["broken"].is_symlink) == (0, True)
    assert (found["loop"].size, found["loop"].is_symlink) == (0, True)


async def test_missing_a_file_and_an_empty_directory_are_three_answers(sandbox: Sandbox, tmp_path: Path) -> None:
    """FS-14."""
    (tmp_path / "somefile").touch()
    (tmp_path / "emptydir").mkdir()
    with pytest.raises(PathNotFound) as missing:
        await sandbox.files.ls("nope")
    assert missing.value.errno == 2
    with pytest.raises(NotADirectory):
        await sandbox.files.ls("somefile")
    assert await sandbox.files.ls("emptydir") == []


async def test_reading_what_is_no_file_is_refused_at_once(sandbox: Sandbox, tmp_path: Path) -> None:
    """FS-05; a FIFO is never waited for."""
    (tmp_path / "d" / "sub").mkdir(parents=True)
    (tmp_path / "t").write_bytes(b"target")
    (tmp_path / "l").symlink_to("t")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(IsADirectory):
        await sandbox.files.read("d")
    assert await sandbox.files.read("l") == b"target"
    for name in ("dangling", "loop", "nope", "t/below"):
        with pytest.raises((PathNotFound, FileSystemError)):
            await sandbox.files.read(name)
        assert not await sandbox.files.exists(name)
    with anyio.fail_after(30):
        for special in ("fifo", "/dev/zero"):
            with pytest.raises(FileSystemError, match="no regular file"):
                await sandbox.files.read(special)
            with pytest.raises(FileSystemError, match="no regular file"):
                await sandbox.files.write(special, b"x")
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)


async def test_writing_makes_missing_parents_and_follows_links(sandbox: Sandbox, tmp_path: Path) -> None:
    await sandbox.files.write("a/b/c", b"1")
    (tmp_path / "link").symlink_to("a/b/new\nname\n")
    await sandbox.files.write("link", b"2")
    assert (tmp_path / "a/b/c").read_bytes() == b"1"
    assert (tmp_path / "a/b/new\nname\n").read_bytes() == b"2"
    assert (tmp_path / "link").is_symlink()


async def test_writing_keeps_the_mode_of_what_was_there(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "script").write_bytes(b"old")
    (tmp_path / "script").chmod(0o755)
    await sandbox.files.write("script", b"new")
    assert stat.S_IMODE((tmp_path / "script").stat().st_mode) == 0o755
    await sandbox.files.write("fresh", b"x")
    assert stat.S_IMODE((tmp_path / "fresh").stat().st_mode) == 0o644


@pytest.mark.parametrize(
    ("path", "error"), [("d", IsADirectory), ("d/", IsADirectory), ("new/", IsADirectory), ("f/x", NotADirectory)]
)
async def test_writing_where_no_file_can_be_is_refused(
    sandbox: Sandbox, tmp_path: Path, path: str, error: type[FileSystemError]
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "f").touch()
    with pytest.raises(error):
        await sandbox.files.write(path, b"x")
    assert sorted(os.listdir(tmp_path)) == ["d", "f"]
    assert os.listdir(tmp_path / "d") == []


async def test_making_directories(sandbox: Sandbox, tmp_path: Path) -> None:
    await sandbox.files.mkdir("one")
    for _ in range(2):
        await sandbox.files.mkdir("a/b/c", parents=True)
    assert (tmp_path / "a/b/c").is_dir()
    (tmp_path / "f").touch()
    for path, parents, error in [
        ("one", False, PathExists),
        ("f", True, PathExists),
        ("x/y", False, PathNotFound),
        ("f/y", False, NotADirectory),
        ("f/y/z", True, NotADirectory),
    ]:
        with pytest.raises(error):
            await sandbox.files.mkdir(path, parents=parents)


async def test_removing_never_follows_a_link(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    for name in ("link", "tree/link"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(tmp_path / "precious")
    await sandbox.files.remove("link/", recursive=True)
    await sandbox.files.remove("tree", recursive=True)
    assert sorted(os.listdir(tmp_path)) == ["precious"]
    assert os.listdir(tmp_path / "precious") == ["file"]
    with pytest.raises(IsADirectory):
        await sandbox.files.remove("precious")
    with pytest.raises(PathNotFound):
        await sandbox.files.remove("nope")
    (tmp_path / "broken").symlink_to("nowhere")
    await sandbox.files.remove("broken")
    assert sorted(os.listdir(tmp_path)) == ["precious"]


async def test_a_cancelled_write_leaves_the_old_content_and_no_temporary_file(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")

    async def slow() -> AsyncIterator[bytes]:
        yield b"new"
        with anyio.CancelScope(shield=True):
            while not list(tmp_path.glob(".sandboxio.*")):
                await anyio.sleep(0.01)
        scope.cancel()
        await anyio.sleep_forever()

    with anyio.CancelScope() as scope:
        await sandbox.files._service.write(str(tmp_path / "file"), slow())
    assert scope.cancelled_caught
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


async def test_reading_ends_what_it_opened_when_it_is_cancelled(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 5_000_000)
    with anyio.CancelScope() as scope:
        async for _ in sandbox.files._service.read(str(tmp_path / "big")):
            scope.cancel()
    session = sandbox._lease.session
    assert isinstance(session, LocalSession)
    assert session.drivers[-1].process.returncode is not None


SETPRIV = shutil.which("setpriv") or ""


@pytest.mark.skipif(os.geteuid() != 0 or not SETPRIV, reason="only root can become another user, by setpriv")
async def test_what_may_not_be_read_is_permission_denied(
    stub: StubBackend, target: str, shell: Sequence[str], tmp_path: Path
) -> None:
    """FS-14 case 4, as a user who is not root."""
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        folder.chmod(folder.stat().st_mode | 0o055)
    (tmp_path / "locked").mkdir(mode=0o700)
    (tmp_path / "secret").touch(mode=0o600)
    session = LocalSession((SETPRIV, "--reuid=65534", "--regid=65534", "--clear-groups", *shell))
    stub.make_session = lambda: session
    async with sandboxio.create(target) as sandbox:
        files, path = sandbox.files, str(tmp_path)
        with pytest.raises(PermissionDenied):
            await files.ls(f"{path}/locked")
        with pytest.raises(PermissionDenied):
            await files.read(f"{path}/secret")
        for call in (
            files.write(f"{path}/new", b"x"),
            files.write(f"{path}/new/deep", b"x"),
            files.mkdir(f"{path}/new"),
            files.mkdir(f"{path}/new/deep", parents=True),
            files.remove(f"{path}/secret"),
        ):
            with pytest.raises(PermissionDenied):
                await call


async def test_a_full_disk_is_loud_and_leaves_no_half_file(
    stub: StubBackend, target: str, shell: Sequence[str], tmp_path: Path
) -> None:
    """RES-06; what fills up is the size that a file may have."""
    (tmp_path / "a").write_bytes(b"old")
    session = LocalSession(("sh", "-c", 'ulimit -f 8; exec "$@"', "sh", *shell))
    stub.make_session = lambda: session
    async with sandboxio.create(target) as sandbox:
        for name in ("a", "b"):
            with pytest.raises(ResourceLimitExceeded) as caught:
                await sandbox.files.write(f"{tmp_path}/{name}", b"x" * 1_000_000)
            assert (caught.value.limit, caught.value.value) == ("disk_mb", 1024)
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


@pytest.mark.parametrize(
    "answer", [b"nonsense", b"- x y z\n/p\0", b"- 1 81a4\n/p\0", b"\0\0", b"- 1 81a4 5\n/p\0- 1 81a4 5\n/q\0"]
)
async def test_tools_that_lie_about_one_file_are_a_file_system_error(
    stub: StubBackend, target: str, answer: bytes
) -> None:
    """GON-04: what the sandbox's own tools answer is the sandbox's word, and never ends it."""
    stub.programs["sh"] = lambda command: Program([Chunk("stdout", answer)])
    async with sandboxio.create(target) as sandbox:
        with pytest.raises(FileSystemError, match="makes no sense"):
            await sandbox.files.stat("/p")
        with pytest.raises(FileSystemError, match="makes no sense"):
            await sandbox.files.write("/p", b"x")
        assert (await sandbox.run(["true"])).ok


async def test_an_answer_without_end_is_bounded(
    stub: StubBackend, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandboxio.command_files.MAX_ANSWER", 1000)
    stub.programs["sh"] = lambda command: Program([Chunk("stdout", b"x" * 100)], endless=True)
    async with sandboxio.create(target) as sandbox:
        with pytest.raises(FileSystemError, match="longer than"):
            await sandbox.files.ls("/")
        assert stub.session.drivers[0].kills == 1


async def test_a_write_that_arrived_in_part_changes_nothing(stub: StubBackend, target: str) -> None:
    stub.programs["sh"] = lambda command: Program([Chunk("stdout", b"3\0/p")])
    async with sandboxio.create(target) as sandbox:
        with pytest.raises(FileSystemError, match="3 of 5 bytes"):
            await sandbox.files.write("/p", b"12345")
        assert not any("mv -f" in driver.command.argv[2] for driver in stub.session.drivers)


async def test_a_cap_that_ends_a_file_script_is_named(stub: StubBackend, target: str) -> None:
    stub.programs["sh"] = lambda command: Program(exit=Exit(137, 9, limit="memory_mb"))
    async with sandboxio.create(target) as sandbox:
        with pytest.raises(ResourceLimitExceeded, match="memory_mb"):
            await sandbox.files.read("/p")


async def test_an_image_without_a_shell_has_no_files(stub: StubBackend, target: str) -> None:
    stub.programs["sh"] = lambda command: Program(exit=Exit(127, started=False))
    async with sandboxio.create(target) as sandbox:
        with pytest.raises(CapabilityNotSupported, match="shell"):
            await sandbox.files.read("/p")


async def test_a_start_of_a_script_that_is_cancelled_in_flight_is_ended(stub: StubBackend, target: str) -> None:
    stub.programs["sh"] = lambda command: Program(hangs=True)
    async with sandboxio.create(target) as sandbox:
        hold = Hold()
        stub.gates.at("start", "answer", hold)
        async with anyio.create_task_group() as group:
            group.start_soon(sandbox.files.read, "/p")
            await hold.reached.wait()
            group.cancel_scope.cancel()
            hold.release.set()
        assert [driver.kills for driver in stub.session.drivers] == [1]


@pytest.mark.parametrize("path", ["a\0b", "", "\ud800", 5, None])
async def test_a_path_that_cannot_be_one_is_refused(stub: StubBackend, target: str, path: str) -> None:
    """ENC-03, ENC-04."""
    async with sandboxio.create(target) as sandbox:
        files = sandbox.files
        for call in (files.read(path), files.write(path, b""), files.ls(path), files.mkdir(path), files.stat(path)):
            with pytest.raises(ConfigurationError):
                await call
        assert stub.session.drivers == []


@pytest.mark.parametrize("data", [5, None, ["x"], "\ud800"])
async def test_content_that_cannot_be_one_is_refused(stub: StubBackend, target: str, data: bytes) -> None:
    async with sandboxio.create(target) as sandbox:
        with pytest.raises(ConfigurationError):
            await sandbox.files.write("/p", data)
        assert stub.session.drivers == []


async def test_text_in_another_encoding_is_refused_with_the_way_out(stub: StubBackend, target: str) -> None:
    stub.programs["sh"] = lambda command: Program([Chunk("stdout", b"\xff")])
    async with sandboxio.create(target) as sandbox:
        for encoding in ("utf-8", "no-such-encoding"):
            with pytest.raises(ConfigurationError):
                await sandbox.files.read_text("/p", encoding)
        assert await sandbox.files.read_text("/p", "latin-1") == "ÿ"


async def test_a_file_operation_ends_with_the_lifetime(stub: StubBackend, target: str) -> None:
    stub.programs["sh"] = lambda command: Program(hangs=True)
    started = time.monotonic()
    async with sandboxio.create(target, timeout=0.5) as sandbox:
        with pytest.raises(sandboxio.SandboxGone, match="lifetime"):
            await sandbox.files.ls()
    assert time.monotonic() - started < 20  # the command itself hangs
