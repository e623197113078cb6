"""An organisation's guards: whatever is no clear yes blocks, and nobody can widen anything."""

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread
import pytest
import sandboxio
from sandboxio import (
    BlockedByGuard,
    ConfigurationError,
    CreateTimeout,
    ExecutionTimeout,
    IsolationTier,
    NetworkPolicy,
    SandboxError,
    extensions,
)
from sandboxio.guards import Allow, Block, ExecRequest, NeedsApproval, isolation_floor, no_egress
from sandboxio.hookspecs import hookimpl
from sandboxio.spec import SandboxSpec
from sandboxio.testing import Answer, FakeBackend

pytestmark = pytest.mark.anyio
SECRET = "s3cr3t-canary-value"


class Guard:
    """Answers both questions by one function."""

    def __init__(self, answer: Callable[[object], object], name: str = "g") -> None:
        self.asked: list[object] = []
        self._answer = answer
        self.name = name

    @hookimpl
    def sandboxio_review_create(self, spec: SandboxSpec) -> object:
        self.asked.append(spec)
        return self._answer(spec)

    @hookimpl
    def sandboxio_review_exec(self, request: ExecRequest) -> object:
        self.asked.append(request)
        return self._answer(request)


class Add(Protocol):
    """Registers a guard for the test."""

    def __call__(self, answer: Callable[[object], object], name: str = "g") -> Guard: ...


def saying(verdict: object) -> Callable[[object], object]:
    def answer(_: object) -> object:
        return verdict

    return answer


def asking(ask: Callable[[], Awaitable[object]]) -> Callable[[object], object]:
    return saying(NeedsApproval("costs money", ask))  # type: ignore[arg-type]


allow, block = saying(Allow()), saying(Block("no"))


async def disapprove() -> bool:
    return False


async def approve_badly() -> bool:
    raise OSError("the desk is closed")


@pytest.fixture
def add() -> Iterator[Add]:
    names: list[str] = []

    def register(answer: Callable[[object], object], name: str = "g") -> Guard:
        guard = Guard(answer, name)
        extensions.register(guard, name)
        names.append(name)
        return guard

    yield register
    for name in names:
        extensions.unregister(name)


def fail(_: object) -> object:
    raise ValueError(f"no idea, {SECRET}")


def never(_: object) -> object:
    time.sleep(1)
    return Allow()


def leave(_: object) -> object:
    raise SystemExit(3)


async def test_an_allowed_operation_goes_on(sbx_fake: FakeBackend, add: Add) -> None:
    guard = add(allow)
    async with sandboxio.create("fake://", env={"A": "1"}, secrets={"TOKEN": SECRET}, timeout=60) as sandbox:
        assert (await sandbox.run(["true"], env={"B": "2"}, cwd="/tmp")).ok
        spec, request = guard.asked
        assert isinstance(spec, SandboxSpec)
        assert isinstance(request, ExecRequest)
        assert (spec.timeout, list(spec.secrets), request.spec) == (60, ["TOKEN"], spec)
        assert (request.sandbox_id, request.argv, request.cwd) == (sandbox.id, ("true",), "/tmp")
        assert request.env == ("A", "B", "TOKEN")
        shown = repr(guard.asked) + str([value.get_secret_value() for value in spec.secrets.values()])
        assert SECRET not in shown
    assert sbx_fake.commands[0].command.env["TOKEN"] == SECRET


class Unshowable:
    """A reason whose text fails."""

    def __str__(self) -> str:
        raise ValueError(SECRET)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (saying(Block("not on Sundays")), "not on Sundays"),
        (saying(None), "NoneType"),
        (saying(True), "bool"),
        (saying("allow"), "str"),
        (fail, "ValueError"),
        (leave, "SystemExit"),
        (never, r"no answer within 0\.2 s"),
        (saying(Block(Unshowable())), "can't be shown"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ],
    ids=["block", "none", "true", "word", "error", "exit", "late", "unshowable"],
)
async def test_what_is_no_clear_yes_blocks(
    answer: Callable[[object], object],
    words: str,
    sbx_fake: FakeBackend,
    add: Add,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SBX_GUARD_TIMEOUT", "0.2")
    sandbox = await sandboxio.create("fake://", secrets={"TOKEN": SECRET})
    sbx_fake.gates.calls.clear()
    add(answer)
    with pytest.raises(BlockedByGuard, match=rf"'g' blocked it[\s\S]*{words}[\s\S]*Fix:") as caught:
        await sandboxio.create("fake://", secrets={"TOKEN": SECRET})
    assert SECRET not in str(caught.value)
    with pytest.raises(BlockedByGuard, match=words) as caught:
        await sandbox.run(["true"])
    assert SECRET not in str(caught.value)
    with pytest.raises(BlockedByGuard):
        await sandbox.run_code("1")
    with pytest.raises(BlockedByGuard):
        async with sandbox.stream(["true"]):
            pass
    assert sbx_fake.gates.calls == []
    await sandbox.kill()


async def test_all_are_asked_in_the_order_of_their_names_and_one_block_wins(sbx_fake: FakeBackend, add: Add) -> None:
    order: list[str] = []

    def noting(name: str, verdict: object) -> Callable[[object], object]:
        def answer(_: object) -> object:
            order.append(name)
            return verdict

        return answer

    async def ask() -> bool:
        raise AssertionError("asked although another blocks")

    add(noting("c", Block("third")), "c")
    add(noting("a", NeedsApproval("first", ask)), "a")
    add(noting("b", Block("second")), "b")
    with pytest.raises(BlockedByGuard, match="second"):
        await sandboxio.create("fake://")
    assert order == ["a", "b", "c"]


@pytest.mark.parametrize("answer", [False, None, 1, "yes"])
async def test_only_true_approves(answer: object, sbx_fake: FakeBackend, add: Add) -> None:
    async def ask() -> object:
        await anyio.sleep(0.01)
        return answer

    add(asking(ask))
    with pytest.raises(BlockedByGuard, match="costs money: it was not approved"):
        await sandboxio.create("fake://")


async def test_an_approval_is_awaited(sbx_fake: FakeBackend, add: Add) -> None:
    async def ask() -> bool:
        await anyio.sleep(0.01)
        return True

    add(asking(ask))
    async with sandboxio.create("fake://") as sandbox:
        assert (await sandbox.run(["true"])).ok


async def test_an_approval_that_fails_blocks(sbx_fake: FakeBackend, add: Add) -> None:
    async def ask() -> bool:
        raise OSError("the desk is closed")

    add(asking(ask))
    with pytest.raises(BlockedByGuard, match="the desk is closed") as caught:
        await sandboxio.create("fake://")
    assert isinstance(caught.value.__cause__, OSError)


class Unprintable:
    def __str__(self) -> str:
        raise ValueError(SECRET)


@pytest.mark.parametrize("ask", [disapprove, approve_badly])
async def test_a_reason_that_can_not_be_shown_blocks(
    ask: Callable[[], Awaitable[bool]], sbx_fake: FakeBackend, add: Add
) -> None:
    for verdict in (NeedsApproval(Unprintable(), ask), Block(Unprintable())):  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        add(saying(verdict))
        with pytest.raises(BlockedByGuard, match="its text can't be shown"):
            await sandboxio.create("fake://")
        extensions.unregister("g")
    assert sbx_fake.sandboxes == []


async def kept_cancellation() -> BaseException:
    """Return a cancellation that is over: trio's can't be made by hand."""
    kept: list[BaseException] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.lowlevel.checkpoint()
        except anyio.get_cancelled_exc_class() as error:
            kept.append(error)
            raise
    return kept[0]


@pytest.mark.parametrize("kind", ["its own", "asyncio's"])
async def test_a_cancellation_that_nobody_asked_for_blocks(kind: str, sbx_fake: FakeBackend, add: Add) -> None:
    """TRD-08: such as that of a future which the asking function shares with others."""
    sandbox = await sandboxio.create("fake://")
    error = await kept_cancellation() if kind == "its own" else asyncio.CancelledError("a future's")
    queue = sandboxio.QueueSink()

    async def ask() -> bool:
        await anyio.lowlevel.checkpoint()
        raise error

    add(asking(ask))
    with pytest.raises(BlockedByGuard, match="costs money: asking failed"):
        await sandbox.run(["true"])
    with pytest.raises(BlockedByGuard, match="costs money: asking failed"):
        await sandboxio.create("fake://", audit=sandboxio.AuditConfig(sinks=(queue,)))
    assert [event.outcome for event in queue.drain()] == [BlockedByGuard.code]
    assert len(sbx_fake.sandboxes) == 1
    assert sbx_fake.commands == []
    await sandbox.kill()


async def test_a_cancellation_while_an_approval_is_awaited_is_one(
    sbx_fake: FakeBackend, add: Add, anyio_backend_name: str
) -> None:
    """TRD-08: also a native one."""
    queue = sandboxio.QueueSink()
    asked = anyio.Event()

    async def ask() -> bool:
        asked.set()
        await anyio.sleep_forever()
        return True

    async def make() -> None:
        await sandboxio.create("fake://", audit=sandboxio.AuditConfig(sinks=(queue,)))

    add(asking(ask))
    async with anyio.create_task_group() as group:
        group.start_soon(make)
        await asked.wait()
        group.cancel_scope.cancel()
    assert [event.outcome for event in queue.drain()] == ["cancelled"]
    if anyio_backend_name == "asyncio":
        asked = anyio.Event()
        task = asyncio.create_task(make())
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [event.outcome for event in queue.drain()] == ["cancelled"]
    assert not sbx_fake.sandboxes


async def test_the_calls_own_deadline_bounds_an_approval(sbx_fake: FakeBackend, add: Add) -> None:
    """TMO-03: no answer is no approval."""
    sandbox = await sandboxio.create("fake://")

    async def never_answer() -> bool:
        await anyio.sleep_forever()
        return True

    add(asking(never_answer))
    with pytest.raises(CreateTimeout):
        await sandboxio.create("fake://", timeout=0.1)
    with pytest.raises(ExecutionTimeout):
        await sandbox.run(["true"], timeout=0.1)
    assert len(sbx_fake.sandboxes) == 1
    assert sbx_fake.commands == []
    await sandbox.kill()


async def test_a_guard_runs_in_a_thread_and_cancellation_passes(sbx_fake: FakeBackend, add: Add) -> None:
    threads: list[str] = []

    def slow(_: object) -> object:
        threads.append(threading.current_thread().name)
        time.sleep(0.3)
        return Allow()

    add(slow)
    with anyio.move_on_after(0.05) as scope:
        await sandboxio.create("fake://")
    assert scope.cancelled_caught
    assert threads != [threading.current_thread().name]


async def test_guards_that_hang_keep_few_threads_and_none_of_the_programs(
    sbx_fake: FakeBackend, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    monkeypatch.setenv("SBX_GUARD_TIMEOUT", "0.1")
    monkeypatch.setattr("sandboxio.guards._questions", threading.Semaphore(2))
    guard = add(lambda _: release.wait(30))
    try:
        for _ in range(5):
            with pytest.raises(BlockedByGuard):
                await sandboxio.create("fake://")
        assert len(guard.asked) == 2
        assert anyio.to_thread.current_default_thread_limiter().borrowed_tokens == 0
    finally:
        release.set()
    assert sbx_fake.sandboxes == []


async def test_it_can_not_change_what_it_sees(sbx_fake: FakeBackend, add: Add) -> None:
    def widen(seen: object) -> object:
        if isinstance(seen, SandboxSpec):
            seen.network.egress = "allow"  # pyright: ignore[reportAttributeAccessIssue]
        return Allow()

    add(widen)
    with pytest.raises(BlockedByGuard):
        await sandboxio.create("fake://")


async def test_files_of_a_sandbox_are_no_commands(sbx_fake: FakeBackend, add: Add) -> None:
    sandbox = await sandboxio.create("fake://")
    guard = add(block)
    await sandbox.files.write("a", b"1")
    assert guard.asked == []
    await sandbox.kill()


async def test_the_isolation_floor(sbx_fake: FakeBackend) -> None:
    """ISO-01."""
    extensions.register(isolation_floor(IsolationTier.CONTAINER), "floor")
    try:
        with pytest.raises(BlockedByGuard, match="require_isolation=CONTAINER or above"):
            await sandboxio.create("fake://")
        with pytest.raises(ConfigurationError):
            await sandboxio.create("fake://", require_isolation=IsolationTier.MICROVM)
        async with sandboxio.create("fake://", require_isolation=IsolationTier.CONTAINER):
            pass
    finally:
        extensions.unregister("floor")


async def test_no_egress(sbx_fake: FakeBackend) -> None:
    extensions.register(no_egress(), "net")
    try:
        for network in (NetworkPolicy(egress="allow"), NetworkPolicy(allow=("192.0.2.1",))):
            with pytest.raises(BlockedByGuard, match="may reach a network"):
                await sandboxio.create("fake://", network=network)
        async with sandboxio.create("fake://"):
            pass
    finally:
        extensions.unregister("net")
    assert len(sbx_fake.sandboxes) == 1


async def test_a_wrong_bound_is_refused(sbx_fake: FakeBackend, add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    add(allow)
    monkeypatch.setenv("SBX_GUARD_TIMEOUT", "0")
    with pytest.raises(ConfigurationError, match="SBX_GUARD_TIMEOUT"):
        await sandboxio.create("fake://")


def test_a_name_is_taken_once() -> None:
    extensions.register(no_egress(), "twice")
    try:
        with pytest.raises(ConfigurationError, match="'twice'"):
            extensions.register(no_egress(), "twice")
    finally:
        extensions.unregister("twice")


def test_what_is_no_plugin_is_refused() -> None:
    class Unknown:
        @hookimpl
        def sandboxio_review_everything(self) -> None: ...

    with pytest.raises(ConfigurationError, match="can't be loaded"):
        extensions.register(Unknown(), "unknown")


@pytest.mark.parametrize("source", ["import no_such_module", "raise SystemExit(1)", "def (", "x = 1"])
async def test_an_installed_plugin_that_can_not_be_loaded_stops_every_creation(
    source: str, sbx_fake: FakeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it would have blocked is not known."""
    (tmp_path / "acme_guard.py").write_text(source)
    info = tmp_path / "acme_guard-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-guard\nVersion: 1.0\n")
    value = "acme_guard" if source != "x = 1" else "acme_guard:missing"
    (info / "entry_points.txt").write_text(f"[{extensions.GROUP}]\nacme = {value}\n")
    monkeypatch.syspath_prepend(tmp_path)  # pyright: ignore[reportUnknownMemberType]
    monkeypatch.setattr(extensions, "_installed", None)
    try:
        with pytest.raises(SandboxError, match=r"the plugin 'acme' can't be loaded[\s\S]*Fix: repair or uninstall it"):
            await sandboxio.create("fake://")
    finally:
        sys.modules.pop("acme_guard", None)
    assert sbx_fake.gates.calls == []


async def test_an_installed_guard_is_asked(
    sbx_fake: FakeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acme_good.py").write_text(
        "from sandboxio.hookspecs import hookimpl\n"
        "from sandboxio.guards import Block\n"
        "@hookimpl\n"
        "def sandboxio_review_create(spec):\n"
        "    return Block('closed')\n"
    )
    info = tmp_path / "acme_good-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-good\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{extensions.GROUP}]\nacme = acme_good\n")
    monkeypatch.syspath_prepend(tmp_path)  # pyright: ignore[reportUnknownMemberType]
    monkeypatch.setattr(extensions, "_installed", None)
    with pytest.raises(BlockedByGuard, match="'acme' blocked it: closed"):
        await sandboxio.create("fake://")
    sbx_fake.on(["x"], Answer())
