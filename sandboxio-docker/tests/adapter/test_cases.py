"""Cases from public bug reports, on a real engine; each docstring names those that it holds."""

import contextlib
import gc
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
import sandboxio
from sandboxio import (
    BackendUnavailable,
    ConfigurationError,
    ConnectError,
    ExecutionTimeout,
    Resources,
    Sandbox,
    SandboxError,
    SandboxGone,
)
from sandboxio_contract.ground.docker import DockerGround

pytestmark = [
    pytest.mark.docker,
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::sandboxio.WeakEnforcementWarning"),  # accept_vsock, for busybox
]

PYTHON = "docker://sandboxio-test/python"
BUSYBOX = "docker://sandboxio-test/busybox?accept_vsock=1"
both = pytest.mark.parametrize("target", [PYTHON, BUSYBOX], ids=["agent", "exec"])

LOST = (ConnectError, SandboxGone, BackendUnavailable)
FORKS = """
import os, time
made = 0
try:
    while made < 600:
        if os.fork() == 0:
            time.sleep(100)
            os._exit(0)
        made += 1
except OSError as error:
    print(made, error.errno, flush=True)
time.sleep(100)
"""


@both
async def test_parallel_commands_keep_their_own_output(target: str) -> None:
    """CON-01, OUT-05."""
    async with sandboxio.create(target, timeout=120) as sandbox:
        found = await gathered([partial(output, sandbox, ["echo", str(n)]) for n in range(60)])
        assert found == [f"{n}\n" for n in range(60)]
    made = await gathered([partial(opened, target) for _ in range(5)])
    try:
        calls = [partial(output, one, ["echo", one.id, str(n)]) for one in made for n in range(20)]
        assert await gathered(calls) == [f"{one.id} {n}\n" for one in made for n in range(20)]
    finally:
        await gathered([one.kill for one in made])


async def test_no_output_is_ever_lost() -> None:
    """OUT-05: five hundred times."""
    async with sandboxio.create(PYTHON, timeout=120) as sandbox:
        assert {await output(sandbox, ["echo", "hello"]) for _ in range(500)} == {"hello\n"}


@both
async def test_the_end_of_the_output_is_not_the_end_of_the_command(target: str) -> None:
    """OUT-05."""
    async with sandboxio.create(target, timeout=60) as sandbox:
        result = await sandbox.run(["sh", "-c", "echo early; exec >&- 2>&-; sleep 2; exit 7"], timeout=20)
        assert (result.exit_code, result.stdout) == (7, "early\n")
        assert result.duration >= 2
        with pytest.raises(ExecutionTimeout):
            await sandbox.run(["sh", "-c", "exec >/dev/null 2>&1; sleep 30"], timeout=1)


@both
async def test_idle_streams_hold_up_neither_commands_nor_the_kill(target: str) -> None:
    """CON-04: more of them than there are worker threads."""
    async with anyio.create_task_group() as group:
        sandbox = await sandboxio.create(target, timeout=120)
        for _ in range(45):
            await group.start(idle, sandbox)
        assert await output(sandbox, ["echo", "x"], timeout=5) == "x\n"
        began = time.monotonic()
        await sandbox.kill()
        assert time.monotonic() - began <= 5
        group.cancel_scope.cancel()


@both
async def test_a_lifetime_is_not_lengthened_by_a_timeout_in_it(target: str) -> None:
    """TMO-05."""
    began = time.monotonic()
    async with sandboxio.create(target, timeout=8) as sandbox:
        await anyio.sleep(max(0.0, began + 5 - time.monotonic()))
        with pytest.raises((ExecutionTimeout, SandboxGone)):
            await sandbox.run(["sleep", "30"], timeout=1)
        ground = DockerGround(PYTHON)
        try:
            with anyio.fail_after(began + 8 + 5 - time.monotonic()):
                while await anyio.to_thread.run_sync(ground.exists, sandbox.id):
                    await anyio.sleep(0.2)
        finally:
            ground.close()
        with pytest.raises(SandboxGone):
            await sandbox.run(["true"])


async def test_a_kill_ends_a_sandbox_with_a_fork_bomb_in_it() -> None:
    """RES-04: at the ceiling `fork` fails with EAGAIN, and `kill()` takes no longer than a kill may."""
    async with sandboxio.create(PYTHON, timeout=120, resources=Resources(pids=64)) as sandbox:
        async with sandbox.stream(["python3", "-c", FORKS]) as bomb:
            count, number = (await bomb.__anext__()).data.split()
            assert int(count) < 64
            assert int(number) == 11
            began = time.monotonic()
            await sandbox.kill()
            assert time.monotonic() - began <= 5


async def test_links_mounts_and_what_looks_like_an_engines_own_path() -> None:
    """FS-05, FS-07, FS-09: an absolute link in a path is followed inside, and a file system in memory is one place."""
    async with sandboxio.create(PYTHON, timeout=60) as sandbox:
        files = sandbox.files
        await sandbox.run("ln -s /run linked; ln -s t l; printf t-content > t; ln -s loop loop; mkdir -p d/sub")
        await files.write("linked/x", b"1")
        assert await files.read("/run/x") == b"1"
        await files.write("/var/run/y", b"2")  # a link to /run in Debian
        assert await files.read("/run/y") == b"2"
        await files.write("/dev/shm/f", b"3")
        assert await output(sandbox, ["cat", "/dev/shm/f"]) == "3"
        await sandbox.run("printf 4 > /dev/shm/g")
        assert await files.read("/dev/shm/g") == b"4"
        assert await files.read("l") == b"t-content"
        with pytest.raises(sandboxio.IsADirectory):
            await files.read("d")
        with pytest.raises(sandboxio.FileSystemError), anyio.fail_after(10):
            await files.read("loop")


async def test_tools_that_the_code_replaced_or_removed_are_not_relied_on() -> None:
    """GON-04, EXE-07."""
    async with sandboxio.create(PYTHON, timeout=60) as sandbox:
        await sandbox.files.write("real", b"content")
        await sandbox.files.write("noexec.sh", b"#!/bin/sh\necho no\n")
        forged = 'printf "#!/bin/sh\\necho forged\\n" > $tool; chmod 755 $tool'
        script = (
            f"for tool in /usr/bin/find /usr/bin/tar /usr/bin/stat /usr/bin/ls /bin/ls /usr/bin/cat; do {forged}; done"
        )
        await sandbox.run(script + "; rm -f /usr/bin/timeout /bin/kill /usr/bin/kill /usr/bin/pkill")
        assert (await sandbox.run("ls")).stdout == "forged\n"
        assert [Path(entry.path).name for entry in await sandbox.files.ls(".")] == ["noexec.sh", "real"]
        assert await sandbox.files.read("real") == b"content"
        with pytest.raises(ExecutionTimeout):
            await sandbox.run(["sleep", "30"], timeout=1)
        refused = await sandbox.run([f"{sandbox.cwd}/noexec.sh"])
        assert (refused.exit_code, refused.stdout) == (126, "")
        await sandbox.run(["chmod", "000", "/bin/dash", "/bin/bash"])
        assert await output(sandbox, ["python3", "-c", "print(1)"]) == "1\n"
        await sandbox.run(["rm", "-f", "/bin/sh", "/usr/bin/sh"])
        with pytest.raises(ConfigurationError, match="shell"):
            await sandbox.run("echo hi")


@both
async def test_a_connection_that_is_cut_is_no_success(target: str) -> None:
    """GON-05: neither an end of the output like any other, nor a wait for nothing."""
    with contextlib.closing(DockerGround(target)) as ground, ground.spied() as spied:
        async with sandboxio.create(spied.dsn, timeout=60) as sandbox:
            wire: Any = spied.wire
            with anyio.fail_after(30):
                async with sandbox.stream(["sh", "-c", "echo part; sleep 30"]) as process:
                    assert (await process.__anext__()).data == b"part\n"
                    wire.cut()
                    began = time.monotonic()
                    with pytest.raises(LOST):
                        await process.__anext__()
                    assert time.monotonic() - began <= 5


@both
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # docker-py closes none that can't connect
@pytest.mark.filterwarnings("ignore::sandboxio.OrphanedSandboxWarning")  # the engine can't be reached for a kill
async def test_without_its_engine_a_sandbox_runs_nothing(target: str) -> None:
    """GON-05: where no connection can be had any more."""
    with contextlib.closing(DockerGround(target)) as ground:
        with ground.spied() as spied:
            sandbox = await sandboxio.create(spied.dsn, timeout=60)
            wire: Any = spied.wire
        wire.cut()
        try:
            with anyio.fail_after(20), pytest.raises(LOST):
                await sandbox.run(["echo", "x"])
            with anyio.fail_after(20):
                await sandbox.kill()
        finally:
            if await anyio.to_thread.run_sync(ground.exists, sandbox.id):
                await anyio.to_thread.run_sync(ground.lose, sandbox.id)
            del sandbox
            gc.collect()  # here, where the filter for the SDK's sockets still holds


async def test_labels_of_any_length_and_number_come_back_or_are_refused() -> None:
    """LAB-01."""
    many = {f"key{number}": str(number) for number in range(51)}
    odd = {"A.b/c": "v" * 64, "é": "w" * 256, "a\nb": "x" * 70_000, **many}
    with contextlib.closing(DockerGround(PYTHON)) as ground:
        async with sandboxio.create(PYTHON, timeout=60, metadata=odd) as sandbox:
            held = await anyio.to_thread.run_sync(ground.inspect, sandbox.id)
            assert held["Metadata"] == odd
            (listed,) = await sandboxio.list_managed(PYTHON, labels={"A.b/c": "v" * 64})
            assert listed.labels == odd
    for wrong in ({"": "v"}, {"big": "x" * 300_000}):
        with pytest.raises(ConfigurationError, match="metadata"):
            await sandboxio.plan(PYTHON, metadata=wrong)


@both
async def test_a_program_that_wants_a_terminal_ends_at_once(target: str) -> None:
    """STD-03, EXE-06, ENC-08."""
    async with sandboxio.create(target, timeout=60) as sandbox:
        result = await sandbox.run(["sh", "-c", "read -r v; echo rc=$?"], timeout=20)
        assert (result.exit_code, result.stdout) == (0, "rc=1\n")
        assert result.duration < 10
        commands: list[Any] = [["nope-cmd"], ["/etc/passwd"], ["/etc"], "nope-cmd"]
        ended = [await sandbox.run(command) for command in commands]
        assert [one.exit_code for one in ended] == [127, 126, 126, 127]
        assert {one.stdout for one in ended} == {""}
        err = await sandbox.run(["sh", "-c", "echo err >&2"])
        assert (err.stdout, err.stderr) == ("", "err\n")
        drips = await sandbox.run(["sh", "-c", "for n in 1 2 3 4 5; do echo $n; sleep 0.02; done"])
        assert drips.stdout == "1\n2\n3\n4\n5\n"


def test_a_silent_command_outlives_every_inner_limit() -> None:
    """TMO-07: over both transports and on both loops at once, since it takes longer than the SDK's 60 seconds."""
    found: dict[tuple[str, str], object] = {}

    async def silent(loop: str, target: str) -> None:
        try:
            async with sandboxio.create(target, timeout=150) as sandbox:
                found[loop, target] = await output(sandbox, ["sh", "-c", "sleep 65; echo ok"], timeout=100)
        except SandboxError as error:
            found[loop, target] = error

    def run(loop: str) -> None:
        async def all_targets() -> None:
            await gathered([partial(silent, loop, target) for target in (PYTHON, BUSYBOX)])

        anyio.run(all_targets, backend=loop)

    threads = [threading.Thread(target=run, args=(loop,)) for loop in ("asyncio", "trio")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert set(found.values()) == {"ok\n"}


async def output(sandbox: Sandbox, command: list[str], **options: Any) -> str:
    result = await sandbox.run(command, **options)
    assert result.ok, result.stderr
    return result.stdout


async def opened(target: str) -> Sandbox:
    return await sandboxio.create(target, timeout=120)


async def idle(sandbox: Sandbox, *, task_status: Any) -> None:
    try:
        async with sandbox.stream(["sleep", "100"]):
            task_status.started()
            await anyio.sleep_forever()
    except SandboxGone:
        pass


async def gathered(calls: Sequence[Callable[[], Awaitable[Any]]]) -> list[Any]:
    """Make all calls at once and return their answers in order."""
    answers: dict[int, Any] = {}

    async def one(number: int, call: Callable[[], Awaitable[Any]]) -> None:
        answers[number] = await call()

    async with anyio.create_task_group() as group:
        for number, call in enumerate(calls):
            group.start_soon(one, number, call)
    return [answers[number] for number in range(len(calls))]
