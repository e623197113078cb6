"""What the first agent says of the disk: deleted files that are still open, and whether anybody lives who may write."""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import IO

import anyio
import pytest
from sandboxio.agent.process import AgentProcess

from .harness import PATIENCE, Local, finished, read_line
from .test_in_container import IMAGES, contained

pytestmark = [pytest.mark.anyio, pytest.mark.docker]

PYTHON = "sandboxio-test/python"
FILES = """
import os, sys
def made(path, mib):
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    for _ in range(mib):
        os.write(fd, bytes(2**20))
    return fd
def deleted(path, mib):
    fd = made(path, mib)
    os.unlink(path)
    return fd
def tell_and_wait(word="done"):
    print(word, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def anyio_backend() -> str:
    """One loop: what an agent says on its stderr no loop of the host takes part in."""
    return "asyncio"


class Disk:
    """What an agent said."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def said(self) -> list[str]:
        return re.findall(r"^sandboxio: (.*)$", self._path.read_text(), re.MULTILINE)

    async def says(self, words: str, *, after: int = 0) -> int:
        """Wait until it said that; return how much it had said by then."""
        with anyio.fail_after(PATIENCE):
            while words not in self.said()[after:]:
                await anyio.sleep(0.05)
        return self.said().index(words, after) + 1


@pytest.fixture
def heard(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "stderr")


@pytest.fixture
def ear(tmp_path: Path) -> Iterator[IO[bytes]]:
    with (tmp_path / "stderr").open("wb") as file:
        yield file


async def started(agent: Local, code: str) -> AgentProcess:
    driver = await agent.start("python3", "{code}", code=(FILES + code).encode(), stdin=True)
    assert await read_line(driver) == "done"
    return driver


@pytest.mark.parametrize("image", IMAGES)
async def test_what_has_no_name_is_counted_once_and_only_on_the_disk(image: str, ear: IO[bytes], heard: Disk) -> None:
    code = """
a, b = deleted("a", 10), deleted("b", 5)
os.dup(a)
if os.fork():
    os.open(f"/proc/self/fd/{b}", os.O_RDONLY)
    deleted("/dev/shm/c", 20)
    if hasattr(os, "memfd_create"):
        os.write(os.memfd_create("d"), bytes(2**24))
    e = made("e", 40)
    os.link("e", "f")
    os.unlink("e")
    made("g", 40)
    tell_and_wait()
else:
    sys.stdin.read()
"""
    async with contained(image, disk=ear) as agent:
        await started(agent, code)
        await heard.says("busy 15")
        assert heard.said()[0] == "busy 0"
        assert set(heard.said()) == {"busy 0", "busy 15"}


async def test_a_file_of_the_image_that_was_deleted_holds_nothing_of_the_sandboxs_disk(
    ear: IO[bytes], heard: Disk
) -> None:
    code = """
size = 0
for folder, _, names in os.walk("/usr/lib"):
    for name in names:
        full = os.path.join(folder, name)
        if os.path.isfile(full) and not os.path.islink(full) and os.path.getsize(full) > 2**20:
            os.open(full, os.O_RDONLY); size += os.path.getsize(full)
            os.unlink(full)
assert size > 3 * 2**20, size
deleted("/work/a", 3)
tell_and_wait()
"""
    async with contained(PYTHON, disk=ear) as agent:
        await started(agent, code)
        await heard.says("busy 3")
        assert set(heard.said()) == {"busy 0", "busy 3"}


async def test_a_thread_with_descriptors_of_its_own_hides_nothing(ear: IO[bytes], heard: Disk) -> None:
    code = """
import ctypes, threading
ready = threading.Event()
def hide():
    assert ctypes.CDLL(None).syscall(436, 1000, 1001, 2) == 0  # close_range, unshare
    deleted("a", 7)
    ready.set()
    threading.Event().wait()
threading.Thread(target=hide, daemon=True).start()
ready.wait()
tell_and_wait()
"""
    async with contained(PYTHON, disk=ear) as agent:
        await started(agent, code)
        await heard.says("busy 7")


async def test_files_that_the_engine_mounts_are_counted(ear: IO[bytes], heard: Disk) -> None:
    async with contained(PYTHON, disk=ear) as agent:
        await started(agent, """os.truncate("/etc/hosts", 0); made("/etc/hosts", 6); tell_and_wait()""")
        await heard.says("busy 6")


async def test_idle_is_said_when_nothing_lives_and_then_nothing_more(ear: IO[bytes], heard: Disk) -> None:
    async with contained(PYTHON, disk=ear) as agent:
        await anyio.sleep(3)
        assert heard.said() == []  # nothing was done here yet
        await agent.run("true")
        await heard.says("idle")
        assert heard.said() == ["busy 0", "idle"]
        await anyio.sleep(3)
        assert heard.said() == ["busy 0", "idle"]


async def test_a_child_that_outlives_its_command_is_alive_even_when_it_hid_from_its_supervisor(
    ear: IO[bytes], heard: Disk
) -> None:
    # It waits for its input, so that its supervisor has said by then that it started.
    hidden = (
        "read go; for d in /proc/[0-9]*; do p=${d#/proc/}; [ $p = 1 ] || [ $p = $$ ] || kill -9 $p; done; sleep 6 & "
    )
    async with contained(PYTHON, disk=ear) as agent:
        driver = await agent.start("sh", "-c", hidden, stdin=True)
        await driver.send(b"go\n")
        await finished(driver)
        await anyio.sleep(4.5)
        assert heard.said() == ["busy 0"]
        await heard.says("idle")


async def test_after_a_file_was_written_idle_is_said_again(ear: IO[bytes], heard: Disk) -> None:
    async def content() -> AsyncIterator[bytes]:
        yield b"x"
        await anyio.sleep(3)
        yield b"y"

    async with contained(PYTHON, disk=ear) as agent:
        await agent.session.write("/work/file", content())
        assert heard.said() == ["busy 0"]  # although no process lives
        await heard.says("idle")
        await agent.session.stat("/work/file")
        await agent.session.make_link("/work/link", "file")
        await heard.says("idle", after=2)


async def test_too_many_descriptors_are_said_to_be_too_many(ear: IO[bytes], heard: Disk) -> None:
    code = """
import resource, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4000, 4000))
for _ in range(3900):
    os.open("/dev/null", os.O_RDONLY)
for _ in range(4):
    if os.fork() == 0:
        time.sleep(600)
tell_and_wait()
"""
    async with contained(PYTHON, options=["--ulimit=nofile=1024:4096"], disk=ear) as agent:
        driver = await started(agent, code)
        await heard.says("busy full")
        await driver.kill()
        await heard.says("idle")


async def test_a_process_that_closed_itself_is_alive_and_stops_nobody(ear: IO[bytes], heard: Disk) -> None:
    code = """
import ctypes
ctypes.CDLL(None).prctl(4, 0)
deleted("a", 4)
tell_and_wait()
"""
    async with contained(PYTHON, disk=ear) as agent:
        await started(agent, code)
        await started(agent, """deleted("b", 2); tell_and_wait()""")
        await heard.says("busy 2")  # what the first one holds can't be seen: a named residual


async def test_an_agent_that_was_not_asked_to_watch_says_nothing(ear: IO[bytes], heard: Disk) -> None:
    async with contained(PYTHON, stderr=ear) as agent:
        await agent.run("sleep", "3")
        assert heard.said() == []
