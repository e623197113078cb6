"""Uploads and downloads on a real engine, over both transports."""

import hashlib
import os
import stat
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import sandboxio
from sandboxio import FileSystemError, ResourceLimitExceeded, Resources, Sandbox

pytestmark = [
    pytest.mark.docker,
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::sandboxio.WeakEnforcementWarning"),
]

MIB = 1024 * 1024
TIME = 1_000_000_000
NAMES = ["plain", "two words", "new\nline", "-rf", "*", "é🎉", "\udcff\udcfe", "'\"", "x" * 255]
every_image = pytest.mark.parametrize(
    "target",
    [
        "docker://sandboxio-test/python",
        "docker://sandboxio-test/python-minimal?accept_vsock=1",
        "docker://sandboxio-test/user",
        "docker://sandboxio-test/busybox?accept_vsock=1",
    ],
)


def make_tree(top: Path) -> None:
    (top / "empty").mkdir(parents=True)
    (top / "deep" / "er").mkdir(parents=True)
    for name in NAMES:
        (top / "deep" / "er" / name).write_bytes(os.fsencode(name))
    (top / "none").touch()
    (top / "run").write_bytes(os.urandom(3_000_001))
    (top / "run").chmod(0o750)
    (top / "deep" / "up").symlink_to("../run")
    (top / "empty").chmod(0o711)
    for path in (top / "run", top / "none", top / "empty", top / "deep"):
        os.utime(path, (TIME, TIME))


def seen(top: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in top.rglob("*"):
        status = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.is_dir() or path.read_bytes()
        when = 0 if path.is_symlink() else int(status.st_mtime)
        found[str(path.relative_to(top))] = (stat.S_IMODE(status.st_mode), when, content)
    return found


@every_image
async def test_a_tree_goes_in_and_comes_out_as_it_was(target: str, tmp_path: Path) -> None:
    """FIL-01."""
    make_tree(tmp_path / "tree")
    async with sandboxio.create(target, timeout=120) as sandbox:
        await sandbox.files.upload(tmp_path / "tree", "tree")
        said = await sandbox.run("cd tree && stat -c '%a %Y' run empty && cat deep/er/*words && ls -A empty")
        assert said.stdout == f"750 {TIME}\n711 {TIME}\ntwo words"
        await sandbox.files.download("tree", tmp_path / "back")
    assert seen(tmp_path / "back") == seen(tmp_path / "tree")


@every_image
async def test_what_leads_out_is_refused_and_the_sandbox_lives(target: str, tmp_path: Path) -> None:
    """FIL-03."""
    async with sandboxio.create(target, timeout=120) as sandbox:
        for make in ("ln -s /etc/passwd", "ln -s ../../x", "mkfifo"):
            assert (await sandbox.run(f"rm -rf t; mkdir -p t/s; echo x > t/s/a; {make} t/s/thing")).ok
            with pytest.raises(FileSystemError, match="thing"):
                await sandbox.files.download("t", tmp_path / "t")
            assert os.listdir(tmp_path) == []
        assert (await sandbox.run(["true"])).ok


async def test_what_fails_on_this_side_does_not_cost_a_sandbox_that_a_kill_would_end(tmp_path: Path) -> None:
    class Broken(Exception):
        pass

    async with sandboxio.create("docker://sandboxio-test/busybox?accept_vsock=1", timeout=120) as sandbox:
        with suppress(Broken):
            async with sandbox.files.open_write("x") as file:
                await file.write(bytes(MIB))
                raise Broken
        assert await sandbox.files.ls() == []
        async with sandbox.files.open_write("x") as file:
            await file.write(b"whole")
        assert await sandbox.files.read("x") == b"whole"


@pytest.mark.parametrize(("image", "mib"), [("python", 70), ("busybox", 12)])
async def test_a_full_disk_is_the_disk_cap_and_nothing_is_half_written(image: str, mib: int, tmp_path: Path) -> None:
    """RES-06, on a small file system of the sandbox's own and against the cap."""
    (tmp_path / "big").write_bytes(bytes(mib * MIB))
    target = f"docker://sandboxio-test/{image}?accept_vsock=1"
    async with sandboxio.create(target, timeout=120, resources=Resources(disk_mb=10)) as sandbox:
        for source, where in (("big", "/dev/shm/big"), ("big", "big"), ("", "tree")):
            with pytest.raises(ResourceLimitExceeded, match="disk_mb"):
                await sandbox.files.upload(tmp_path / source, where)
        assert (await sandbox.run("ls -A . /dev/shm")).stdout.split() == [".:", "/dev/shm:"]


async def test_a_gibibyte_goes_both_ways_in_constant_memory(tmp_path: Path) -> None:
    """FIL-02, FS-11: less than 32 MiB above idle."""
    source, back = tmp_path / "source", tmp_path / "back"
    block = os.urandom(MIB)
    with source.open("wb") as file:
        for number in range(1024):
            file.write(number.to_bytes(8, "big") + block[8:])
    async with sandboxio.create(
        "docker://sandboxio-test/python", timeout=590, resources=Resources(disk_mb=4096)
    ) as sandbox:
        await small_transfers(sandbox, tmp_path)
        with peak_above_idle() as peak:
            await sandbox.files.upload(source, "file")
            await sandbox.files.download("file", back)
    assert digest(back) == digest(source)
    assert max(peak) < 32 * MIB


async def small_transfers(sandbox: Sandbox, tmp_path: Path) -> None:
    """Have everything loaded that a transfer needs, so that only the transfer's own memory is counted."""
    (tmp_path / "small").write_bytes(bytes(8 * MIB))
    await sandbox.files.upload(tmp_path / "small", "small")
    await sandbox.files.download("small", tmp_path / "small")


@contextmanager
def peak_above_idle() -> Generator[list[int]]:
    """Sample this process's resident memory from a thread, in bytes above what it is now."""
    idle, ended = resident(), threading.Event()
    samples = [0]

    def sample() -> None:
        while not ended.wait(0.02):
            samples.append(resident() - idle)

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield samples
    finally:
        ended.set()
        sampler.join()


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
