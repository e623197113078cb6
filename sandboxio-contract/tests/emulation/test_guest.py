"""An emulated sandbox: apart from this machine, and with the loose ends that providers' commands have."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sandboxio_contract.emulation import Guest, GuestGone, Machine

from .running import begin, guest, read_all, run, write_all

pytestmark = pytest.mark.emulated

TREE = ["sh", "-c", "sleep 600 & setsid sleep 600 & echo started; exec sleep 600"]


async def sleepers(one: Guest) -> int:
    found = await run(one, ["sh", "-c", "cat /proc/[0-9]*/comm"])
    return found.stdout.split().count(b"sleep")


def processes_of(one: Guest) -> list[int]:
    """The ids on this machine of what shares the guest's network."""
    own = os.stat(f"/proc/{one.pid}/ns/net").st_ino
    found: list[int] = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{name}/ns/net").st_ino == own:
                found.append(int(name))
        except OSError:
            continue
    return found


def test_it_shares_no_processes_files_network_or_names_with_this_machine(tmp_path: Path) -> None:
    async def main() -> None:
        async with guest() as one:
            seen = await run(
                one, ["sh", "-c", "hostname; readlink /proc/self/ns/net /proc/self/ns/pid; ls /tmp; id -un"]
            )
            name, net, pid, user = seen.stdout.decode().split()
            assert (name, user) == ("emulated", "user")
            assert net != os.readlink("/proc/self/ns/net")
            assert pid != os.readlink("/proc/self/ns/pid")
            assert (await run(one, ["test", "-e", str(tmp_path)])).exit_code == 1
            assert (await run(one, ["test", "-S", "/var/run/docker.sock"])).exit_code == 1
            assert (await run(one, ["touch", "/usr/x"], user="root")).exit_code == 1
            capabilities = (await run(one, ["grep", "CapBnd", "/proc/self/status"], user="root")).stdout.split()[1]
            assert int(capabilities, 16) == 0xFB  # nothing that reaches the host

    asyncio.run(main())


def test_a_signal_reaches_the_leader_and_leaves_orphans() -> None:
    async def main() -> None:
        async with guest() as one:
            started, reader, pid = await begin(one, TREE)
            assert await asyncio.to_thread(os.read, reader, 100) == b"started\n"
            assert await sleepers(one) == 3
            await one.kill(pid)
            assert os.waitstatus_to_exitcode(await started.ended) == -signal.SIGKILL
            assert await sleepers(one) == 2
            with pytest.raises(ProcessLookupError):
                await one.kill(pid)
            os.close(reader)

    asyncio.run(main())


def test_a_command_is_no_group_and_no_session_of_its_own_unless_that_is_asked_for() -> None:
    async def main() -> None:
        async with guest() as one:
            program = "import os; print(os.getpid() == os.getpgid(0), os.getpid() == os.getsid(0))"
            assert (await run(one, ["python3", "-c", program])).stdout == b"False False\n"
            reader, writer = os.pipe()
            null = os.open(os.devnull, os.O_RDWR)
            argv = ["python3", "-c", program]
            await one.spawn(argv, (null, writer, null), env={}, cwd="/", user="user", session=True)
            os.close(writer)
            os.close(null)
            assert await asyncio.to_thread(read_all, reader) == b"True True\n"

    asyncio.run(main())


def test_who_stops_waiting_ends_nothing() -> None:
    async def main() -> None:
        async with guest() as one:
            task = asyncio.create_task(run(one, TREE))
            while await sleepers(one) < 3:
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.wait([task], timeout=1)
            assert await sleepers(one) == 3
            await run(one, ["sh", "-c", "kill -9 -1"])  # for the thread that reads on

    asyncio.run(main())


def test_files_are_touched_as_the_user_who_is_named() -> None:
    async def main() -> None:
        async with guest() as one:
            descriptor = await one.open("/home/user/a b", os.O_WRONLY | os.O_CREAT, user="user")
            write_all(descriptor, b"hello")
            entry = (await one.file("stat", "/home/user/a b", user="user"))["entry"]
            assert (entry["size"], entry["uid"], entry["kind"]) == (5, one.machine.user_id, "file")
            assert [one["path"] for one in await one.entries("/home", 2, user="user")] == [
                "/home/user",
                "/home/user/a b",
            ]
            for call, arguments in {"open": ("/root/x", os.O_RDONLY, 0), "make_directories": ("/usr/x",)}.items():
                with pytest.raises(PermissionError if call == "open" else OSError):
                    await one.file(call, *arguments, user="user")
            await one.file("rename", "/home/user/a b", "/home/user/deep/er/b", user="user")
            await one.file("remove", "/home/user/deep", user="user")
            assert await one.entries("/home/user", 9, user="user") == []

    asyncio.run(main())


def test_what_cannot_be_started_says_why() -> None:
    async def main() -> None:
        async with guest() as one:
            for argv, cwd, error in (
                (["no-such-program"], "/", FileNotFoundError),
                (["true"], "/no", NotADirectoryError),
            ):
                with pytest.raises(error):
                    await one.spawn(argv, (0, 1, 2), env={}, cwd=cwd, user="user")
            with pytest.raises(KeyError):
                await one.spawn(["true"], (0, 1, 2), env={}, cwd="/", user="nobody")

    asyncio.run(main())


def test_its_end_ends_everything_in_it_and_whoever_waits_is_told() -> None:
    async def main() -> None:
        one = await Guest.start(Machine(disk_mb=16))
        started, reader, _ = await begin(one, TREE)
        await asyncio.to_thread(os.read, reader, 100)
        inside = processes_of(one)
        assert len(inside) >= 5
        await one.close()
        os.close(reader)
        assert not one.alive
        assert [pid for pid in inside if Path(f"/proc/{pid}").exists()] == []
        with pytest.raises(GuestGone):
            await started.ended
        with pytest.raises(GuestGone):
            await one.file("stat", "/", user="user")
        await one.close()

    asyncio.run(main())


OWNER = """
import asyncio, os, signal
from sandboxio_contract.emulation import Guest, Machine
async def main():
    one = await Guest.start(Machine(disk_mb=16))
    null = os.open(os.devnull, os.O_RDWR)
    await one.spawn(["sleep", "600"], (null, null, null), env={}, cwd="/", user="user")
    print(one.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


def test_a_killed_emulator_leaves_no_process() -> None:
    done = subprocess.run([sys.executable, "-c", OWNER], capture_output=True, check=False, timeout=60)
    holder = Path("/proc", done.stdout.decode().strip())
    end = time.monotonic() + 10
    while holder.exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert not holder.exists()
