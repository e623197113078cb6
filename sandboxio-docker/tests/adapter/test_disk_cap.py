"""CAP-01 on a real engine: what fills the disk ends the sandbox, and a sandbox at rest is not measured."""

from pathlib import Path

import anyio
import pytest
import sandboxio
from sandboxio import ExecutionTimeout, ResourceLimitExceeded, Resources, Sandbox, SandboxGone
from sandboxio.port import Command
from sandboxio_docker.endpoint import resolve
from sandboxio_docker.reaper import reaper_for

from .real_engine import running
from .specs import spec_of

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.docker,
    pytest.mark.filterwarnings("ignore::sandboxio.WeakEnforcementWarning"),
]

PYTHON = "docker://sandboxio-test/python"
BUSYBOX = "docker://sandboxio-test/busybox?accept_vsock=1"
CAP = Resources(disk_mb=20)
UNLINKED = "exec 3>{0} && rm {0} && head -c {1}000000 /dev/zero >&3 && echo done && sleep {2}"


def wakes_of_reaper() -> int:
    """Return how often this process's reaper has waited for something, all threads together."""
    found = 0
    for thread in Path(f"/proc/{reaper_for(resolve(None)).pid}/task").iterdir():
        found += int((thread / "status").read_text().partition("voluntary_ctxt_switches:")[2].split()[0])
    return found


async def wakes_in(seconds: float) -> int:
    before = wakes_of_reaper()
    await anyio.sleep(seconds)
    return wakes_of_reaper() - before


async def use_on(sandbox: Sandbox) -> None:
    while True:
        await sandbox.run(["true"])
        await anyio.sleep(1)


async def until_gone(sandbox: Sandbox) -> None:
    """Wait until the next command hits the cap."""
    with anyio.fail_after(60), pytest.raises(ResourceLimitExceeded, match="disk_mb = 20"):
        await use_on(sandbox)


async def until_removed(sandbox: Sandbox) -> None:
    """Wait until the engine knows it no more, without using it."""
    with anyio.fail_after(60):
        while sandbox.id in [one.sandbox_id for one in await sandboxio.list_managed(PYTHON)]:
            await anyio.sleep(0.5)


async def test_deleted_files_that_a_command_still_writes_end_it() -> None:
    script = " & ".join(UNLINKED.format(name, 8, 60) for name in "abcd")
    async with sandboxio.create(PYTHON, timeout=120, resources=CAP) as sandbox:
        with pytest.raises(ResourceLimitExceeded, match="disk_mb = 20"):
            await sandbox.run(script + " & wait", timeout=30)
        with pytest.raises(ResourceLimitExceeded, match="disk_mb = 20"):
            await sandbox.files.read("x")


async def test_deleted_files_below_the_cap_end_nothing() -> None:
    async with sandboxio.create(PYTHON, timeout=120, resources=CAP) as sandbox:
        with pytest.raises(ExecutionTimeout):
            await sandbox.run(UNLINKED.format("a", 15, 60), timeout=8)
        assert (await sandbox.run("head -c 15000000 /dev/zero > b; sleep 5; echo alive")).stdout == "alive\n"


async def test_what_a_command_left_running_counts_when_nobody_waits_for_anything() -> None:
    async with sandboxio.create(PYTHON, timeout=120, resources=CAP) as sandbox:
        await sandbox.run(f"head -c 15000000 /dev/zero > b; ({UNLINKED.format('a', 15, 60)}) > /dev/null 2>&1 &")
        await until_removed(sandbox)
        with pytest.raises(ResourceLimitExceeded, match="disk_mb = 20"):
            await sandbox.run(["true"])


@pytest.mark.parametrize("target", [PYTHON, BUSYBOX])
async def test_files_that_only_came_by_the_files_api_count(target: str) -> None:
    async with sandboxio.create(target, timeout=120, resources=CAP) as sandbox:
        await anyio.sleep(3)  # at rest by now
        for number in range(3):
            await sandbox.files.write(f"part{number}", bytes(8_000_000))
        await until_removed(sandbox)  # whoever looks by its own commands would have it measured for those
        with pytest.raises(ResourceLimitExceeded, match="disk_mb = 20"):
            await sandbox.files.read("part1")


@pytest.mark.parametrize("target", [PYTHON, BUSYBOX])
async def test_a_used_sandbox_at_rest_is_not_measured_until_it_is_used_again(
    target: str,
) -> None:
    async with sandboxio.create(target, timeout=120, resources=CAP) as sandbox:
        await sandbox.run(["true"])
        await anyio.sleep(5)
        tried = [await wakes_in(8)]
        while (
            len(tried) < 4 and tried[-1] > 8
        ):  # the last measurement comes the later the longer the one before it took
            tried.append(await wakes_in(8))
        assert tried[-1] <= 8, tried  # two looks at the clock; measuring takes several wake-ups every 2 s
        await sandbox.run("head -c 19000000 /dev/zero > a; head -c 9000000 /dev/zero > b; sleep 0.1")
        await until_gone(sandbox)


async def test_a_further_connection_has_what_it_does_counted() -> None:
    async with running(spec_of("sandboxio-test/python", resources=CAP)) as sandbox:
        await sandbox.run("true")
        await anyio.sleep(5)  # at rest
        other = await sandbox.backend.open(sandbox.id)
        left = f"({UNLINKED.format('a', 15, 60)}) > /dev/null 2>&1 & head -c 9000000 /dev/zero > b"
        await (await other.start(Command(("sh", "-c", left), cwd="/work"))).wait()
        await other.aclose()
        with anyio.fail_after(60):
            while await sandbox.backend.observe(sandbox.id):
                await anyio.sleep(0.5)
        with pytest.raises(SandboxGone) as caught:
            await sandbox.run("true")
        assert caught.value.reason == "disk_mb"


@pytest.mark.parametrize("target", [PYTHON, BUSYBOX])
async def test_a_file_over_the_cap_ends_its_command_alone(target: str) -> None:
    async with sandboxio.create(target, timeout=120, resources=CAP) as sandbox:
        with pytest.raises(ResourceLimitExceeded, match="disk_mb = 20"):
            await sandbox.run(["dd", "if=/dev/zero", "of=big", "bs=1000000", "count=60"])
        assert (await sandbox.files.stat("big")).size == 20 * 2**20
