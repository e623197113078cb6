"""gVisor on an engine of its own, and runtimes that only say that they are gVisor."""

import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
import sandboxio
from sandboxio import ExecutionTimeout, IsolationTier, PolicyNotEnforced, ResourceLimitExceeded, Resources, SandboxGone
from sandboxio.errors import CapabilityNotSupported
from sandboxio_docker.config import SWITCH_USER, DockerConfig

from .private_engine import private_engine

pytestmark = [pytest.mark.docker, pytest.mark.anyio]

PYTHON, BUSYBOX = "sandboxio-test/python", "sandboxio-test/busybox"
# What the release of Debian 12 needs on a newer kernel; it has no network then, so egress="allow" can't be tested.
OPTIONS = ["--platform=ptrace", "--network=none"]
gvisor = pytest.mark.skipif(not shutil.which("runsc"), reason="gVisor's runsc is not installed (apt install runsc)")


def script(file: Path, program: str) -> str:
    file.write_text(f'#!/bin/sh\nexec {program} "$@"\n')
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("runtimes")
    runc, runsc = shutil.which("runc"), shutil.which("runsc") or "/nonexistent/runsc"
    if runc is None:
        pytest.skip("runc is not on the path")
    runtimes: dict[str, dict[str, Any]] = {
        "runsc": {"path": runsc, "runtimeArgs": OPTIONS},
        "runsc-open": {"path": runsc, "runtimeArgs": [*OPTIONS, "--ignore-cgroups"]},
        "runsc-covert": {"path": script(folder / "covert", f"{runsc} --ignore-cgroups"), "runtimeArgs": OPTIONS},
        "gvisor": {"path": script(folder / "gvisor", runc)},
    }
    with private_engine(runtimes, [PYTHON, BUSYBOX]) as address:
        yield address
        client: Any = docker.APIClient(base_url=address, version="auto")
        end = time.monotonic() + 20
        while (left := client.containers(all=True)) and time.monotonic() < end:
            time.sleep(0.2)
        assert left == []
        client.close()


def made(host: str, runtime: str, image: str = PYTHON, *, resources: Resources | None = None, **config: Any) -> Any:
    chosen = DockerConfig(template=image, host=host, runtime=runtime, **config)
    return sandboxio.create(chosen, resources=resources, timeout=120, require_isolation=IsolationTier.GVISOR)


REACHED: list[str] = []


@gvisor
async def test_a_release_is_taken_or_refused_because_commands_reach_the_agent(host: str) -> None:
    """That of Debian 12 is refused: there /proc/1/fd/1 can be opened by every command."""
    REACHED.clear()
    try:
        async with made(host, "runsc") as sandbox:
            opened = await sandbox.run(["python3", "-c", "import os; os.open('/proc/1/fd/1', os.O_WRONLY)"])
            assert not opened.ok
    except PolicyNotEnforced as error:
        assert "descriptors" in error.message  # noqa: PT017 - it may as well be taken
        REACHED.append(error.message)


@pytest.fixture
def sound(host: str) -> str:
    if REACHED:
        pytest.skip(f"this release is refused: {REACHED[0]}")
    return host


@gvisor
async def test_gvisor_is_believed_and_a_sandbox_in_it_works(sound: str) -> None:
    async with made(sound, "runsc") as sandbox:
        assert sandbox.isolation is IsolationTier.GVISOR
        assert (await sandbox.run(["uname", "-r"])).stdout == "4.4.0\n"
        assert (await sandbox.run_code("print(6 * 7)")).stdout == "42\n"
        await sandbox.files.write("a/b", b"kept")
        assert await sandbox.files.read("a/b") == b"kept"
        with pytest.raises(ExecutionTimeout):
            await sandbox.run("sleep 600 & setsid sleep 600 & wait", timeout=2)
        assert (await sandbox.run("cat /proc/[0-9]*/cmdline | grep -c slee[p]")).stdout == "0\n"


@gvisor
async def test_user_read_only_root_and_capabilities_hold_in_gvisor(sound: str) -> None:
    async with made(sound, "runsc", user="1000:1000", read_only=True) as sandbox:
        result = await sandbox.run("id -u; pwd; echo kept > here; cat here; echo x > /etc/x")
        assert (result.stdout, result.ok) == ("1000\n/work\nkept\n", False)
    async with made(sound, "runsc", capabilities=SWITCH_USER) as sandbox:
        assert (await sandbox.run(["id", "-u"], user="1000")).stdout == "1000\n"
        with pytest.raises(ExecutionTimeout):
            await sandbox.run("setsid sleep 600 & wait", timeout=2, user="1000")
        assert (await sandbox.run("cat /proc/[0-9]*/cmdline | grep -c slee[p]")).stdout == "0\n"


@gvisor
async def test_over_the_memory_cap_the_sandbox_ends(sound: str) -> None:
    async with made(sound, "runsc", resources=Resources(memory_mb=256)) as sandbox:
        with pytest.raises((SandboxGone, ResourceLimitExceeded)):
            await sandbox.run_code("held = bytearray(600 << 20)")


@gvisor
async def test_over_the_process_cap_the_sandbox_ends(sound: str) -> None:
    bomb = "import os, time\nfor _ in range(400):\n if os.fork() == 0: time.sleep(60); os._exit(0)\nprint('unbounded')"
    async with made(sound, "runsc", resources=Resources(pids=64)) as sandbox:
        with pytest.raises((SandboxGone, ResourceLimitExceeded)):
            await sandbox.run_code(bomb, timeout=60)


@gvisor
async def test_gvisor_that_was_told_to_ignore_caps_is_refused(host: str) -> None:
    with pytest.raises(CapabilityNotSupported, match="ignore-cgroups"):
        await made(host, "runsc-open")


@gvisor
async def test_gvisor_that_ignores_caps_in_secret_is_refused(host: str) -> None:
    with pytest.raises(PolicyNotEnforced, match=r"memory, memory\.swap, pids, cpu"):
        await made(host, "runsc-covert")


@gvisor
@pytest.mark.filterwarnings("ignore::sandboxio.errors.WeakEnforcementWarning")
async def test_without_an_agent_gvisor_is_refused(host: str) -> None:
    with pytest.raises(CapabilityNotSupported, match="gVisor"):
        await made(host, "runsc", BUSYBOX, accept_vsock=True)


async def test_runc_by_the_name_of_gvisor_is_refused(host: str) -> None:
    with pytest.raises(PolicyNotEnforced, match="not gVisor"):
        await made(host, "gvisor")
