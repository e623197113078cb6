"""`fake://`: scripted answers under the real core, a clock of its own, failures on demand."""

import gc
import os
import threading
from pathlib import Path

import anyio
import pytest
import sandboxio
from sandboxio import (
    CapabilityNotSupported,
    ConfigurationError,
    ExecutionTimeout,
    FileSystemError,
    IsADirectory,
    NetworkPolicy,
    NetworkPolicyViolation,
    NotADirectory,
    PathExists,
    PathNotFound,
    ResourceLimitExceeded,
    Resources,
    SandboxError,
    SandboxGone,
)
from sandboxio.port import HasTrees
from sandboxio.testing import Answer, FakeBackend, Hold, current, use
from sandboxio.testing.backend import FakeError
from sandboxio.testing.clock import EPOCH

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.anyio


async def test_scripted_answers(sbx_fake: FakeBackend) -> None:
    sbx_fake.on(["pytest", "-q"], Answer("1 passed\n"))
    sbx_fake.on("make check", Answer(stderr="no rule\n", exit_code=2))
    sbx_fake.on_code("print(6 * 7)", Answer("42\n"))
    async with sandboxio.create("fake://") as sandbox:
        assert (await sandbox.run(["pytest", "-q"])).stdout == "1 passed\n"
        assert (await sandbox.run("make check")).exit_code == 2
        assert (await sandbox.run_code("print(6 * 7)")).stdout == "42\n"
    assert sbx_fake.alive == []


async def test_the_newest_script_goes_first_and_answers_go_in_order(sbx_fake: FakeBackend) -> None:
    sbx_fake.on(["flaky"], Answer("old"))
    sbx_fake.on(["flaky"], Answer(exit_code=1), Answer("ok"))
    async with sandboxio.create("fake://") as sandbox:
        assert [(await sandbox.run(["flaky"])).exit_code for _ in range(3)] == [1, 0, 0]


async def test_what_was_not_scripted_names_the_fix(sbx_fake: FakeBackend) -> None:
    async with sandboxio.create("fake://") as sandbox:
        with pytest.raises(ConfigurationError, match=r"no answer for 'ls -l'[\s\S]*fake\.on"):
            await sandbox.run("ls -l")


async def test_programs_that_need_no_script(sbx_fake: FakeBackend) -> None:
    async with sandboxio.create("fake://", env={"A": "1"}, secrets={"B": "hidden"}) as sandbox:
        assert (await sandbox.run(["echo", "a b"])).stdout == "a b\n"
        assert (await sandbox.run(["env"])).stdout == "A=1\nB=hidden\n"
        assert (await sandbox.run(["pwd"], cwd="sub")).stdout == "/work/sub\n"
        assert (await sandbox.run(["true"])).ok
        assert (await sandbox.run(["false"])).exit_code == 1
        assert (await sandbox.run(["sleep", "x"])).exit_code == 1


async def test_commands_are_recorded_with_the_policy_in_force(sbx_fake: FakeBackend) -> None:
    network = NetworkPolicy(allow=("packages.example",))
    async with sandboxio.create("fake://", network=network, resources=Resources(memory_mb=256)) as sandbox:
        await sandbox.run(["true"])
    [started] = sbx_fake.commands
    assert started.command.argv == ("true",)
    receipts = {receipt.policy: receipt for receipt in started.policy}
    assert getattr(receipts["network.egress"], "requested", None) == "deny"
    assert getattr(receipts["network.allow"], "requested", None) == ("packages.example",)
    assert getattr(receipts["memory"], "requested", None) == 256


async def test_core_is_the_real_one(sbx_fake: FakeBackend) -> None:
    """NET-06, CAP-02: refused by core, before the provider hears of it."""
    with pytest.raises(CapabilityNotSupported):
        await sandboxio.create("fake://", network=NetworkPolicy(egress="learn"))
    with pytest.raises(ConfigurationError):
        await sandboxio.create("fake://", timeout=0)
    assert sbx_fake.gates.calls == []


async def test_time_is_virtual(sbx_fake: FakeBackend) -> None:
    sbx_fake.on(["build"], Answer("built", takes=1200))
    async with sandboxio.create("fake://", timeout=3600) as sandbox:
        assert sandbox.created_at == EPOCH
        before = anyio.current_time()
        assert (await sandbox.run(["build"])).stdout == "built"
        assert (await sandbox.run(["sleep", "600"])).ok
        assert anyio.current_time() - before < 60
        assert sbx_fake.clock.now == EPOCH + 1800
        sbx_fake.clock.advance(1800)
        with pytest.raises(SandboxGone, match="lifetime"):
            await sandbox.run(["true"])


async def test_a_command_that_outlasts_its_timeout_hangs_until_core_ends_it(sbx_fake: FakeBackend) -> None:
    """TMO-03."""
    sbx_fake.on(["slow"], Answer("began", takes=60))
    sbx_fake.on(["stuck"], Answer("began", hangs=True))
    async with sandboxio.create("fake://") as sandbox:
        for command in ("slow", "stuck"):
            with pytest.raises(ExecutionTimeout) as caught:
                await sandbox.run([command], timeout=0.1)
            assert caught.value.stdout == "began"
        assert [driver.kills for driver in sbx_fake.alive[0].drivers] == [1, 1]


async def test_failures_on_demand(sbx_fake: FakeBackend) -> None:
    sbx_fake.on(["greedy"], Answer("half", exit_code=137, limit="memory_mb"))
    sbx_fake.on(["curl"], NetworkPolicyViolation("blocked"))
    async with sandboxio.create("fake://", resources=Resources(memory_mb=300)) as sandbox:
        with pytest.raises(ResourceLimitExceeded) as exceeded:
            await sandbox.run(["greedy"])
        assert (exceeded.value.limit, exceeded.value.value) == ("memory_mb", 300)
        with pytest.raises(NetworkPolicyViolation):
            await sandbox.run(["curl"])
        native = FakeError("503")
        sbx_fake.fail("start", native, native)
        for _ in range(2):
            with pytest.raises(SandboxError) as caught:
                await sandbox.run(["true"])
            assert caught.value.__cause__ is native
        assert (await sandbox.run(["true"])).ok
        sbx_fake.alive[0].end("memory_mb")
        with pytest.raises(ResourceLimitExceeded):
            await sandbox.run(["true"])


async def test_a_sandbox_that_ends_takes_its_commands_along(sbx_fake: FakeBackend) -> None:
    sbx_fake.on(["stuck"], Answer(hangs=True))
    async with sandboxio.create("fake://") as sandbox, anyio.create_task_group() as group:

        async def end() -> None:
            await anyio.sleep(0.05)
            sbx_fake.alive[0].end("unknown")

        group.start_soon(end)
        with pytest.raises(SandboxGone):
            await sandbox.run(["stuck"])


async def test_a_test_may_stand_at_every_gate(sbx_fake: FakeBackend) -> None:
    """TRD-05: cancelled while the provider has made it and not answered yet."""
    hold = Hold()
    sbx_fake.gates.at("provision", "committed", hold)
    async with anyio.create_task_group() as group:

        async def make() -> None:
            await sandboxio.create("fake://")

        group.start_soon(make)
        await hold.reached.wait()
        group.cancel_scope.cancel()
        hold.release.set()
    assert len(sbx_fake.sandboxes) == 1
    assert sbx_fake.alive == []


async def test_streams(sbx_fake: FakeBackend) -> None:
    sbx_fake.on(["chat"], Answer("hello", hangs=True))
    async with sandboxio.create("fake://") as sandbox:
        async with sandbox.stream(["chat"]) as process:
            await process.send(b"hi")
            await process.close_stdin()
            assert (await anext(process)).data == b"hello"
        [driver] = sbx_fake.alive[0].drivers
        assert (driver.received, driver.stdin_closed, driver.kills) == (b"hi", True, 1)


async def test_files(sbx_fake: FakeBackend, tmp_path: Path) -> None:
    """FIL-01."""
    async with sandboxio.create("fake://", resources=Resources(disk_mb=1)) as sandbox:
        assert isinstance(sandbox._lease.session, HasTrees)
        files = sandbox.files
        await files.write("a/b.txt", "text")
        assert await files.read("/work/a/b.txt") == b"text"
        await files.mkdir("a/c")
        assert [entry.path for entry in await files.ls("a")] == ["/work/a/b.txt", "/work/a/c"]
        assert (await files.stat("a")).is_dir
        with pytest.raises(PathExists):
            await files.mkdir("a")
        with pytest.raises(PathNotFound):
            await files.mkdir("x/y")
        with pytest.raises(IsADirectory):
            await files.read("a")
        with pytest.raises(IsADirectory):
            await files.write("a", "")
        with pytest.raises(NotADirectory):
            await files.ls("a/b.txt")
        with pytest.raises(NotADirectory):
            await files.read("a/b.txt/c")
        with pytest.raises(FileSystemError, match="not empty"):
            await files.remove("a")
        with pytest.raises(ResourceLimitExceeded, match="disk_mb"):
            await files.write("big", bytes(2 * 1024 * 1024))
        assert not await files.exists("big")
        await files.remove("a", recursive=True)
        with pytest.raises(PathNotFound):
            await files.remove("a")

        (tmp_path / "tree" / "sub").mkdir(parents=True)
        (tmp_path / "tree" / "sub" / "file").write_bytes(b"\0x")
        (tmp_path / "tree" / "link").symlink_to("sub/file")
        await files.upload(tmp_path / "tree", "up")
        assert (await files.stat("up/link")).is_symlink
        assert await files.read("up/link") == b"\0x"
        await files.download("up", tmp_path / "down")
        assert (tmp_path / "down" / "link").readlink() == Path("sub/file")
        assert (tmp_path / "down" / "sub" / "file").read_bytes() == b"\0x"


async def test_links_in_files(sbx_fake: FakeBackend) -> None:
    async with sandboxio.create("fake://") as sandbox:
        tree = sbx_fake.alive[0].tree
        await sandbox.files.write("/work/dir/file", "x")
        tree.link("/work/up", "dir/../dir")
        tree.link("/work/root", "/work/dir/file")
        tree.link("/work/broken", "nowhere")
        tree.link("/work/loop", "loop")
        assert await sandbox.files.read("up/file") == b"x"
        assert await sandbox.files.read("root") == b"x"
        assert await sandbox.files.read("/../work/root") == b"x"
        assert not await sandbox.files.exists("broken")
        assert not await sandbox.files.exists("loop")
        assert {entry.path: entry.size for entry in await sandbox.files.ls()}["/work/loop"] == 0
        await sandbox.files.remove("up")
        assert await sandbox.files.exists("dir/file")
        with pytest.raises(FileSystemError):
            await sandbox.files.remove("/", recursive=True)


async def test_list_and_kill(sbx_fake: FakeBackend) -> None:
    made = await sandboxio.create("fake://", metadata={"tenant_id": "t1"})
    other = await sandboxio.create("fake://", metadata={"tenant_id": "t2"})
    [listed] = await sandboxio.list_managed("fake://", labels={"tenant_id": "t1"})
    assert (listed.sandbox_id, listed.backend, listed.created_at) == (made.id, "fake", EPOCH)
    await sandboxio.kill_managed("fake://", made.id)
    with pytest.raises(SandboxGone):
        await made.run(["true"])
    assert [sandbox.sandbox_id for sandbox in sbx_fake.alive] == [other.id]
    await made.kill()
    await other.kill()


async def test_it_says_that_it_is_simulated(sbx_fake: FakeBackend) -> None:
    assert (await sandboxio.backend_info("fake://")).simulated
    plan = await sandboxio.plan("fake://")
    assert {item.mechanism for item in plan.enforcements()} == {"simulated: nothing runs"}


def test_fakes_are_apart() -> None:
    with use(FakeBackend()) as first:
        assert current() is first
        with use(FakeBackend()) as second:
            assert current() is second
        assert current() is first


def test_a_sandbox_that_a_test_leaves_alive_fails_it(pytester: pytest.Pytester) -> None:
    """TRD-07."""
    pytester.makepyfile(
        """
        import anyio, sandboxio
        async def make():
            await sandboxio.create("fake://")
        def test_leaves(sbx_fake):
            anyio.run(make)
        """
    )
    result = pytester.runpytest_subprocess("-W", "ignore::ResourceWarning", "-p", "no:sandboxio_contract")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*left sandboxes alive: fake-0001*"])


AT_ONCE = 200


def held() -> tuple[int, int, int]:
    gc.collect()
    return len(os.listdir("/proc/self/fd")), threading.active_count(), len(gc.get_objects())


async def test_a_thousand_lives_and_two_hundred_at_once_leave_nothing_behind(sbx_fake: FakeBackend) -> None:
    """TRD-07: no descriptor, no thread, no task, and no object that grows with the number of sandboxes."""

    async def live() -> None:
        async with sandboxio.create("fake://") as sandbox:
            assert (await sandbox.run(["true"])).ok

    async def many(cycles: int, at_once: int) -> None:
        for _ in range(cycles):
            await live()
        async with anyio.create_task_group() as group:
            for _ in range(at_once):
                group.start_soon(live)
        # What the fake itself remembers for its test is not meant.
        sbx_fake.sandboxes.clear()
        sbx_fake.commands.clear()
        sbx_fake.gates.calls.clear()

    before = threading.active_count()
    await many(100, AT_ONCE)
    descriptors, _, objects = held()
    await many(1000, AT_ONCE)
    after = held()
    assert after[0] <= descriptors
    # A loop keeps idle workers for ten seconds: how many worked at the same time is up to the machine.
    assert after[1] <= before + AT_ONCE
    assert after[2] - objects < 1000, "fewer than one object per life"
    assert sbx_fake.alive == []
