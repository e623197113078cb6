"""The synchronous facade: the same surface, the same errors, one loop in a thread, nothing left behind."""

import asyncio
import gc
import inspect
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sandboxio
import trio
from sandboxio import ConfigurationError, ExecutionTimeout, PathNotFound, ProviderError, SandboxGone
from sandboxio.api import connect, create
from sandboxio.files import FileReader, Files, FileWriter
from sandboxio.loop_thread import Hold, LoopThread, SharedThread, Submitted
from sandboxio.port import Chunk, Exit
from sandboxio.process import Process
from sandboxio.sandbox import Sandbox
from sandboxio.sync import (
    SyncFileReader,
    SyncFiles,
    SyncFileWriter,
    SyncProcess,
    SyncSandbox,
    connect_sync,
    create_sync,
)
from sandboxio.sync.creating import _end_all
from sandboxio.testing import FakeBackend

from .stub import Program, StubBackend, raising, stalling

FACADES = [
    (Sandbox, SyncSandbox),
    (Process, SyncProcess),
    (Files, SyncFiles),
    (FileReader, SyncFileReader),
    (FileWriter, SyncFileWriter),
]
APART = {"open", "finish", "abandon", "discarded_bytes"}
"""How `open_read` and `open_write` begin and end; `Process.discarded_bytes` is an attribute there."""


@pytest.fixture(autouse=True)
def no_thread_left() -> "object":
    yield
    gc.collect()
    deadline = time.monotonic() + 5
    while sync_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sync_threads() == []


def sync_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "sandboxio-sync"]


def public(cls: type) -> dict[str, object]:
    return {name: value for name, value in vars(cls).items() if not name.startswith("_") and name not in APART}


@pytest.mark.parametrize(("asynchronous", "synchronous"), FACADES, ids=lambda cls: cls.__name__)
def test_the_surface_is_the_same(asynchronous: type, synchronous: type) -> None:
    """SYN-01: every public name, with the same parameters."""
    assert public(asynchronous).keys() == public(synchronous).keys()
    for name, ours in public(asynchronous).items():
        theirs = public(synchronous)[name]
        assert isinstance(ours, property) == isinstance(theirs, property), name
        if callable(ours) and callable(theirs):
            assert inspect.signature(ours).parameters == inspect.signature(theirs).parameters, name
            assert not inspect.iscoroutinefunction(theirs)


def test_create_takes_the_same_arguments() -> None:
    """SYN-01."""
    assert inspect.signature(create).parameters == inspect.signature(create_sync).parameters
    assert inspect.signature(connect).parameters == inspect.signature(connect_sync).parameters


def test_the_same_attributes(stub: StubBackend, target: str) -> None:
    async def of_the_other() -> set[str]:
        async with sandboxio.create(target) as sandbox:
            return {name for name in vars(sandbox) if not name.startswith("_")}

    with create_sync(target) as sandbox:
        assert {name for name in vars(sandbox) if not name.startswith("_")} == asyncio.run(of_the_other())
        assert repr(sandbox).startswith("<Sandbox ")


def test_run_stream_and_files(stub: StubBackend, target: str) -> None:
    stub.programs["say"] = lambda command: Program([Chunk("stdout", b"hi"), Chunk("stderr", b"oh")], Exit(3))
    with create_sync(target) as sandbox:
        result = sandbox.run(["say"])
        assert (result.exit_code, result.stdout, result.stderr) == (3, "hi", "oh")
        with sandbox.stream(["say"]) as process:
            assert [chunk.data for chunk in process] == [b"hi", b"oh"]
            assert process.wait() == 3
            assert process.returncode == 3
        with sandbox.stream(["say"]) as process:
            process.send(b"in")
            process.close_stdin()
            assert process.wait() == 3
            assert process.discarded_bytes == 4
    assert stub.sandboxes == {}
    assert stub.session.drivers[-1].received == b"in"


def test_what_was_given_up_lives_on_and_is_connected_to(stub: StubBackend, target: str) -> None:
    with create_sync(target) as sandbox:
        sandbox.detach()
        with pytest.raises(ConfigurationError, match="given up"):
            sandbox.run(["true"])
    assert list(stub.sandboxes) == [sandbox.id]
    with pytest.raises(sandboxio.ConnectError):
        connect_sync(target, sandbox.id, metadata={"tenant": "another"})
    with connect_sync(target, sandbox.id) as again:
        assert again.run(["true"]).ok
    assert stub.sandboxes == {}


def test_a_kill_after_detach_is_no_silent_success(stub: StubBackend, target: str) -> None:
    with create_sync(target) as sandbox:
        sandbox.detach()
    with pytest.raises(ConfigurationError, match="given up"):
        sandbox.kill()
    assert list(stub.sandboxes) == [sandbox.id]


def test_the_interpreters_end_spares_what_was_given_up(stub: StubBackend, target: str) -> None:
    kept, killed = create_sync(target), create_sync(target)
    kept.detach()
    _end_all()
    assert list(stub.sandboxes) == [kept.id]
    killed.kill()


def test_errors_keep_class_and_cause(stub: StubBackend, target: str) -> None:
    """SYN-01, ERR-01."""
    native = RuntimeError("of the provider")
    with create_sync(target) as sandbox:
        stub.gates.at("start", "before", raising(native))
        with pytest.raises(sandboxio.SandboxError) as caught:
            sandbox.run(["true"])
        assert caught.value.__cause__ is native or isinstance(caught.value.__cause__, ProviderError)


def test_a_deadline_holds(stub: StubBackend, target: str) -> None:
    """TMO-03."""
    stub.programs["forever"] = lambda command: Program([Chunk("stdout", b"x")], hangs=True)
    with create_sync(target) as sandbox:
        with pytest.raises(ExecutionTimeout) as caught:
            sandbox.run(["forever"], timeout=0.1)
        assert caught.value.stdout == "x"


def test_what_was_killed_is_gone(target: str) -> None:
    sandbox = create_sync(target)
    sandbox.kill()
    sandbox.kill()
    for use in (
        lambda: sandbox.run(["true"]),
        lambda: sandbox.files.read("x"),
        lambda: sandbox.stream(["true"]).wait(),
    ):
        with pytest.raises(SandboxGone):
            use()


def test_one_thread_serves_all_and_ends_with_the_last(target: str) -> None:
    first, second = create_sync(target), create_sync(target)
    assert len(sync_threads()) == 1
    first.kill()
    assert second.run(["true"]).ok
    second.kill()
    assert sync_threads() == []


def test_a_failed_create_leaves_no_thread(stub: StubBackend, target: str) -> None:
    stub.gates.at("provision", "before", raising(RuntimeError("no")))
    with pytest.raises(sandboxio.SandboxError):
        create_sync(target)
    assert sync_threads() == []


def test_many_threads_use_one_sandbox(stub: StubBackend, target: str) -> None:
    """SYN-01."""
    with create_sync(target) as sandbox, ThreadPoolExecutor(16) as pool:
        assert all(result.ok for result in pool.map(sandbox.run, [["true"]] * 100))


def test_many_threads_make_sandboxes(stub: StubBackend, target: str) -> None:
    def whole(_: int) -> bool:
        with create_sync(target) as sandbox:
            return sandbox.run(["true"]).ok

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(whole, range(100)))
    assert stub.sandboxes == {}


def test_inside_a_running_loop_it_names_the_other_form(target: str) -> None:
    with create_sync(target) as sandbox:
        uses: list[tuple[Callable[[], object], str]] = [
            (lambda: create_sync(target), "await sandboxio.create"),
            (lambda: sandbox.run(["true"]), r"await sandbox\.run"),
            (lambda: sandbox.files.read("x"), r"await files\.read"),
            (sandbox.kill, r"await sandbox\.kill"),
        ]

        async def use() -> None:
            for act, form in uses:
                with pytest.raises(ConfigurationError, match=form):
                    act()

        asyncio.run(use())
        trio.run(use)

        async def beside() -> None:
            assert (await asyncio.to_thread(sandbox.run, ["true"])).ok
            assert (await asyncio.get_running_loop().run_in_executor(None, lambda: sandbox.run(["true"]))).ok

        asyncio.run(beside())

        async def beside_trio() -> None:
            assert (await trio.to_thread.run_sync(lambda: sandbox.run(["true"]))).ok

        trio.run(beside_trio)


def interrupt_soon(after: float = 0.1) -> None:
    threading.Timer(after, lambda: os.kill(os.getpid(), signal.SIGINT)).start()


def test_ctrl_c_ends_the_commands_tree_then_is_raised(stub: StubBackend, target: str) -> None:
    """TMO-04."""
    stub.programs["forever"] = lambda command: Program(hangs=True)
    with create_sync(target) as sandbox:
        interrupt_soon()
        with pytest.raises(KeyboardInterrupt):
            sandbox.run(["forever"])
        assert [driver.kills for driver in stub.session.drivers] == [1]
        assert sandbox.run(["true"]).ok


class OutOfTime(Exception):
    """What a signal's handler raises, as task queues and test runners do for their time limits."""


@pytest.fixture
def out_of_time_soon() -> Iterator[Callable[[], None]]:
    def handler(number: int, frame: object) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGUSR1, handler)
    yield lambda: threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
    signal.signal(signal.SIGUSR1, before)


def test_what_a_signals_handler_raises_ends_the_commands_tree(
    stub: StubBackend, target: str, out_of_time_soon: Callable[[], None]
) -> None:
    """TMO-04."""
    stub.programs["forever"] = lambda command: Program(hangs=True)
    with create_sync(target) as sandbox:
        out_of_time_soon()
        with pytest.raises(OutOfTime):
            sandbox.run(["forever"])
        assert [driver.kills for driver in stub.session.drivers] == [1]
        assert sandbox.run(["true"]).ok


def test_what_a_signals_handler_raises_while_it_is_made_leaves_nothing(
    stub: StubBackend, target: str, out_of_time_soon: Callable[[], None]
) -> None:
    """TRD-05: also where another sandbox keeps the loop alive."""
    with create_sync(target) as other:
        stub.gates.at("open", "committed", stalling)
        out_of_time_soon()
        with pytest.raises(OutOfTime):
            create_sync(target)
        assert list(stub.sandboxes) == [other.id]
        stub.gates.clear()


def test_ctrl_c_while_it_is_made_leaves_nothing(stub: StubBackend, target: str, short_grace: float) -> None:
    """TRD-05."""
    for call in ("probe", "provision", "observe", "open"):
        stub.gates.at(call, "committed", stalling)
        interrupt_soon()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sandboxio.SandboxWarning)
            with pytest.raises(KeyboardInterrupt):
                create_sync(target)
        stub.gates.clear()
    deadline = time.monotonic() + 5
    while stub.sandboxes and time.monotonic() < deadline:
        time.sleep(0.01)
    assert stub.sandboxes == {}


def test_ctrl_c_between_the_end_and_the_return_leaves_nothing(
    stub: StubBackend, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TRD-05: the sandbox is there, its maker never hears of it."""
    from sandboxio.sync.waiting import Waiter

    whole = Waiter.call

    def interrupted(self: Waiter, form: str, work: object) -> object:
        monkeypatch.undo()
        whole(self, form, work)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(Waiter, "call", interrupted)
    with pytest.raises(KeyboardInterrupt):
        create_sync(target)
    assert stub.sandboxes == {}


def test_a_callback_that_exits_does_not_end_the_others(stub: StubBackend, target: str) -> None:
    def leave(line: str) -> None:
        raise SystemExit(3)

    with create_sync(target) as sandbox:
        with pytest.raises(SystemExit):
            create_sync(target, on_progress=leave)
        assert sandbox.run(["true"]).ok


def test_a_forgotten_sandbox_warns(target: str) -> None:
    def forget() -> None:
        create_sync(target)
        gc.collect()

    with pytest.warns(ResourceWarning, match="never killed"):
        forget()


def test_files_and_commands_keep_their_sandbox(sbx_fake: FakeBackend) -> None:
    """Nobody kills these, so the lifetime does: they warn when they are forgotten, and not before."""

    def use(warned: list[warnings.WarningMessage]) -> None:
        files = create_sync("fake://").files
        gc.collect()
        files.write("a", b"1")
        with files.open_read("a") as reader:
            assert b"".join(reader) == b"1"
        streamed = create_sync("fake://").stream(["true"])
        gc.collect()
        with streamed as process:
            assert process.wait() == 0
        assert warned == []

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        use(warned)
        gc.collect()
    assert ["was never killed" in str(one.message) for one in warned] == [True, True]
    for left in sbx_fake.alive:
        left.end("lifetime")


OPENED: dict[str, Callable[[Any], Any]] = {
    "stream": lambda sandbox: sandbox.stream(["sleep", "9"]),
    "open_read": lambda sandbox: sandbox.files.open_read("/a"),
    "open_write": lambda sandbox: sandbox.files.open_write("/a"),
}


@pytest.mark.parametrize("opened", OPENED)
@pytest.mark.parametrize("error", [None, ValueError("the block's own")])
def test_a_kill_in_a_block_leaves_it_as_it_does_in_asynchronous_code(
    opened: str, error: Exception | None, sbx_fake: FakeBackend
) -> None:
    """Also where the loop ends with that sandbox: what was opened is closed in it."""

    async def asynchronous() -> None:
        async with sandboxio.create("fake://") as sandbox:
            await sandbox.files.write("/a", b"x" * 100)
            async with OPENED[opened](sandbox):
                await sandbox.kill()
                if error is not None:
                    raise error

    def synchronous() -> None:
        with create_sync("fake://") as sandbox:
            sandbox.files.write("/a", b"x" * 100)
            with OPENED[opened](sandbox):
                sandbox.kill()
                if error is not None:
                    raise error

    assert outcome(synchronous) == outcome(lambda: asyncio.run(asynchronous()))
    assert sbx_fake.alive == []


def test_a_signals_handler_kills_while_another_sandbox_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs in the thread that it interrupts, and would wait for that for ever."""
    shared = SharedThread("sandboxio-sync")
    holds = [shared.hold(), shared.hold()]

    class Interrupted(Hold):
        def __init__(self, owner: SharedThread, thread: LoopThread) -> None:
            holds[0].release()  # in the middle of `hold`
            holds[0].release()
            super().__init__(owner, thread)

    monkeypatch.setattr("sandboxio.loop_thread.Hold", Interrupted)
    beginning = threading.Thread(target=lambda: holds.append(shared.hold()), daemon=True)
    beginning.start()
    beginning.join(10)
    assert len(holds) == 3
    holds[1].release()
    assert len(sync_threads()) == 1, "the last one holds it"
    holds[2].release()


def outcome(act: Callable[[], None]) -> object:
    try:
        act()
    except (SandboxGone, ValueError) as error:
        return type(error)
    return None


def test_kills_from_many_threads_leave_one_record(target: str) -> None:
    for _ in range(10):
        queue = sandboxio.QueueSink()
        sandbox = create_sync(target, audit=sandboxio.AuditConfig(sinks=(queue,)))
        with ThreadPoolExecutor(4) as pool:
            for killing in [pool.submit(sandbox.kill) for _ in range(4)]:
                killing.result()
        assert [event.event for event in queue.drain()] == ["create", "kill"]


def test_what_is_no_function_is_told_no_progress(target: str) -> None:
    for wrong in (3, "print", 0):
        with pytest.raises(ConfigurationError, match="on_progress= takes a function, not"):
            create_sync(target, on_progress=wrong)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_a_forked_child_is_told(target: str) -> None:
    with create_sync(target) as sandbox:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if not child:
            code = 1
            try:
                sandbox.run(["true"])
            except ConfigurationError:
                with create_sync(target) as own:
                    code = 0 if own.run(["true"]).ok else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert sandbox.run(["true"]).ok


def test_work_that_came_too_late_is_cancelled_work() -> None:
    """SYN-01: another thread's kill stops the loop; a call that is on its way then must neither hang nor fail oddly."""
    thread = LoopThread("too-late")
    late: list[Submitted[None]] = []

    async def submits_at_its_end() -> None:
        try:
            begun.set()
            await asyncio.sleep(60)
        finally:
            late.append(thread.submit(forever))

    async def forever() -> None:
        await asyncio.sleep(60)

    begun = threading.Event()
    thread.submit(submits_at_its_end)
    assert begun.wait(10)
    thread.stop()
    late.append(thread.submit(forever))
    late[-1].cancel()
    for one in late:
        with pytest.raises(asyncio.CancelledError):
            one.ended.result(timeout=5)


def test_a_forked_childs_own_sandbox_is_killed_when_it_ends(target: str, stub: StubBackend) -> None:
    """TRD-01: that of the process that forked is in its memory, too, and not its own to end."""
    with create_sync(target) as sandbox:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if not child:
            code = 1
            try:
                own = create_sync(target)
                _end_all()
                code = 0 if sandbox.id in stub.sandboxes and own.id not in stub.sandboxes else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert sandbox.run(["true"]).ok


AT_EXIT = """
import pathlib, sys
sys.path.insert(0, {tests!r})
import sandboxio
from core_stub import registered
stub = registered()
sandbox = sandboxio.create_sync(f"{{stub.info.name}}://")
class Told(dict):
    def pop(self, *args):
        print("destroyed", flush=True)
        return super().pop(*args)
stub.sandboxes = Told(stub.sandboxes)
{end}
"""


@pytest.mark.parametrize(
    "end", ["", "sys.exit(3)", "raise ValueError", "import os, signal; os.kill(os.getpid(), signal.SIGINT)"]
)
def test_what_is_alive_is_killed_when_the_interpreter_ends(end: str, tmp_path: "object") -> None:
    """TRD-01."""
    from pathlib import Path

    tests = Path(str(tmp_path))
    (tests / "core_stub").symlink_to(Path(__file__).parent / "stub")
    program = AT_EXIT.format(tests=str(tests), end=end)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert "destroyed" in done.stdout, done.stderr


def test_interrupts_are_pythons_own() -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_missing_file_keeps_its_class(stub: StubBackend, target: str) -> None:
    with create_sync(target) as sandbox:
        stub.programs["sh"] = lambda command: Program(exit=Exit(44))
        with pytest.raises(PathNotFound):
            sandbox.files.read("nope")
        assert not sandbox.files.exists("nope")
