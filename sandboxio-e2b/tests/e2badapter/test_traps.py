"""What E2B's users ran into, one lesson each, by the public threads that `TRAPS` names."""

import inspect
import time
from typing import Any

import anyio
import pytest
import sandboxio
from sandboxio import BackendUnavailable, ExecutionTimeout, PolicyNotEnforced, RateLimitError, SandboxError, SandboxGone
from sandboxio_contract.emulation import Request
from sandboxio_contract.ground.wire import Call
from sandboxio_e2b import errors, session

from .emulator.control import Control
from .emulator.emulator import KEY, Emulator
from .emulator.schema import Refused

pytestmark = [
    pytest.mark.network,
    pytest.mark.emulated,
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::sandboxio.SandboxWarning"),
]

TRAPS = {
    "E2B#1881 the SDK's timeouts fire at twice their time": "test_a_stalled_request_is_given_up_in_time",
    "E2B#1128 a call hung for ever": "test_a_stalled_request_is_given_up_in_time",
    "E2B#1034, #1031 a kill and a timeout hit the leader only": "row TMO-04: a deadline takes the sandbox",
    "E2B#500 a command ran on after its timeout": "row TMO-04",
    "E2B#1658 a lost answer made two sandboxes": "test_parameters: the idempotency key",
    "AutoGPT#12774 a cancellation right after the creation leaked it": "row TRD-05",
    "E2B#1005 an exit code skipped the kill": "test_an_exit_code_is_no_exception_and_the_sandbox_ends",
    "E2B#1498 a failing MCP start orphaned it": "not met: mcp= is not used",
    "proliferate#1264, #1280 a pause at the end, and nothing dies": "test_a_paused_one_is_listed_and_ended",
    "mastra#24621 connect() extends the lifetime": "test_connecting_neither_resumes_nor_extends",
    "dust#22223 a lifetime taken for a call's timeout": "test_a_lifetime_and_a_calls_timeout_are_two_numbers",
    "E2B#1381, code-interpreter#147 gone early, and called a timeout": "test_gone_early_is_not_called_a_lifetime",
    "infra#3292, E2B#1587, #1352 streams are silent after a pause": "not met: nothing is paused or reattached",
    "E2B#884, #1104 files lost by pauses": "not met: nothing is paused",
    "E2B#1418 trouble with many calls at once": "test_a_hundred_calls_at_once",
    "code-interpreter#328 an update broke every call": "test_sdk_surface",
    "code-interpreter#278 a kernel that was not interrupted": "not met: no contexts yet",
    "code-interpreter#181, E2B#921 the connection breaks in an answer": "test_faults: cut",
    "E2B#581 the error's own path hid the cause": "test_an_error_keeps_the_providers_own",
    "E2B#505 output cut inside a character": "test_output_is_bytes",
    "E2B#1433, #1248 large uploads buffered, or cut at 60 s": "row FIL-02",
    "infra#1434, E2B#1188 a quota comes as 429": "test_a_quota_is_a_rate_limit_error",
    "E2B#339 exhaustion shows as a timeout": "test_a_timeout_is_not_taken_for_a_cap",
    "CubeSandbox#934, #408; AgentENV#306 other servers lag behind": "test_a_server_that_lacks_something_is_told_of",
    "fc-docs#131 a refused connection looks open": "the contract's probe counts bytes that its canary sent",
    "experiential#151 their TimeoutException is not Python's": "test_every_exception_of_the_sdk_is_mapped",
}


def test_every_trap_is_a_test_or_says_why_not() -> None:
    assert len(TRAPS) == 26
    here = set(globals())
    assert [
        name
        for name in TRAPS.values()
        if name.startswith("test_")
        and name.split(":")[0] not in here | {"test_parameters", "test_faults", "test_sdk_surface"}
    ] == []


def is_start(call: Call) -> bool:
    return call.path == "/process.Process/Start"


async def test_a_stalled_request_is_given_up_in_time(emulator: Emulator, dsn: str) -> None:
    async with sandboxio.create(dsn) as sandbox:
        emulator.faults.strike("stall", is_start)
        started = time.monotonic()
        with pytest.raises((ExecutionTimeout, SandboxGone)):
            await sandbox.run(["true"], timeout=1)
        assert time.monotonic() - started < 8


async def test_an_exit_code_is_no_exception_and_the_sandbox_ends(emulator: Emulator, dsn: str) -> None:
    async with sandboxio.create(dsn) as sandbox:
        assert (await sandbox.run("exit 3")).exit_code == 3
    assert emulator.sights() == {}


async def test_a_paused_one_is_listed_and_ended(emulator: Emulator, dsn: str) -> None:
    sandbox = await sandboxio.create(dsn, metadata={"tenant_id": "a"})
    await sandbox.detach()
    machine = emulator.machine(sandbox.id)
    assert machine is not None
    machine.state = "paused"
    (found,) = await sandboxio.list_managed(dsn, labels={"tenant_id": "a"})
    assert (found.sandbox_id, found.state) == (sandbox.id, "paused")
    with pytest.raises(sandboxio.ConnectError):
        await sandboxio.connect(dsn, sandbox.id)
    assert machine.state == "paused"
    await sandboxio.kill_managed(dsn, sandbox.id)
    assert emulator.sights() == {}


async def test_listing_goes_through_every_page(emulator: Emulator, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulator.control, "page", 2)
    made = [await sandboxio.create(dsn, metadata={"batch": "x&y=ü"}) for _ in range(5)]
    found = await sandboxio.list_managed(dsn, labels={"batch": "x&y=ü"})
    assert {one.sandbox_id for one in found} == {one.id for one in made}
    for one in made:
        await one.kill()


async def test_connecting_neither_resumes_nor_extends(emulator: Emulator, dsn: str) -> None:
    async with sandboxio.create(dsn, timeout=30) as sandbox:
        machine = emulator.machine(sandbox.id)
        assert machine is not None
        end = machine.end
        again = await sandboxio.connect(dsn, sandbox.id)
        assert (await again.run(["echo", "here"])).stdout == "here\n"
        await again.detach()
        assert machine.end == end
        assert not [call for call in emulator.recorder.calls if call.path.endswith(("/connect", "/timeout", "/resume"))]


async def test_a_lifetime_and_a_calls_timeout_are_two_numbers(emulator: Emulator, dsn: str) -> None:
    async with sandboxio.create(dsn, timeout=40) as sandbox:
        emulator.recorder.forget()
        await sandbox.run(["true"], timeout=7)
    (start,) = [one for one in emulator.recorder.exchanges if is_start(one.call)]
    told = int({name.lower(): value for name, value in start.headers.items()}["connect-timeout-ms"])
    assert 7_000 < told < 20_000  # a backstop of envd's own, later than core's clock


async def test_gone_early_is_not_called_a_lifetime(emulator: Emulator, dsn: str) -> None:
    async with sandboxio.create(dsn, timeout=200) as sandbox:
        emulator.end(sandbox.id)
        with pytest.raises(SandboxGone) as raised:
            await sandbox.run(["true"])
    assert raised.value.reason != "lifetime"
    assert "timeout" not in raised.value.message


async def test_a_hundred_calls_at_once(dsn: str) -> None:
    async with sandboxio.create(dsn) as sandbox:
        said: list[str] = []

        async def one(number: int) -> None:
            said.append((await sandbox.run(["echo", str(number)], timeout=60)).stdout.strip())

        async with anyio.create_task_group() as group:
            for number in range(100):
                group.start_soon(one, number)
        assert sorted(map(int, said)) == list(range(100))


async def test_an_error_keeps_the_providers_own(emulator: Emulator, dsn: str) -> None:
    from e2b.exceptions import SandboxException

    emulator.faults.strike("500", lambda call: call == Call("POST", "/v2/sandboxes"))
    with pytest.raises(SandboxError) as raised:
        await sandboxio.create(dsn)
    assert isinstance(raised.value.__cause__, SandboxException)
    assert raised.value.hint


async def test_output_is_bytes(dsn: str) -> None:
    async with sandboxio.create(dsn) as sandbox:
        whole = "\u00e9\u65e5\U0001f389".encode() * 20_000 + b"\xff\xfe\x00"
        result = await sandbox.run(["cat"], stdin=whole)
        assert result.stdout_bytes == whole


async def test_a_quota_is_a_rate_limit_error(emulator: Emulator, dsn: str) -> None:
    emulator.faults.strike("429", lambda call: call == Call("POST", "/v2/sandboxes"), times=None)
    with pytest.raises(RateLimitError, match="number of sandboxes"):
        await sandboxio.create(dsn)
    assert emulator.sights() == {}


async def test_a_timeout_is_not_taken_for_a_cap(dsn: str) -> None:
    async with sandboxio.create(dsn) as sandbox:
        with pytest.raises(ExecutionTimeout) as raised:
            await sandbox.run(["sh", "-c", "echo part; while :; do :; done"], timeout=1)
        assert raised.value.stdout == "part\n"


@pytest.mark.parametrize("order", ["error", "end"])
async def test_a_command_that_envd_ended_is_never_a_success(
    emulator: Emulator, dsn: str, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    monkeypatch.setattr(session, "SOON", -6.0)  # envd's clock before core's
    monkeypatch.setattr(emulator.processes, "deadline_first", order)
    async with sandboxio.create(dsn) as sandbox:
        try:
            result = await sandbox.run(["sleep", "30"], timeout=5)
        except SandboxError:
            return
        assert result.exit_code == 137


@pytest.mark.parametrize("status", [405, 501, 404])
async def test_a_server_that_lacks_something_is_told_of(
    emulator: Emulator, dsn: str, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    answer = Control.answer

    async def lacking(self: Control, request: Request) -> Any:
        if request.method == "POST" and request.path == "/v2/sandboxes":
            raise Refused("no such thing here", status)
        return await answer(self, request)

    monkeypatch.setattr(Control, "answer", lacking)
    with pytest.raises(SandboxError) as raised:
        await sandboxio.create(dsn)
    assert raised.value.hint
    assert emulator.sights() == {}


async def test_a_server_that_keeps_no_network_policy_gives_no_sandbox(
    emulator: Emulator, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Control.create

    async def careless(self: Control, body: Any, key: str | None) -> Any:
        return await make(self, {name: value for name, value in body.items() if name != "network"}, key)

    monkeypatch.setattr(Control, "create", careless)
    with pytest.raises(PolicyNotEnforced):
        await sandboxio.create(dsn)
    assert emulator.sights() == {}


def test_every_exception_of_the_sdk_is_mapped() -> None:
    import connectrpc.errors
    import e2b.exceptions
    import httpx
    from connectrpc.code import Code

    known = [
        one
        for one in vars(e2b.exceptions).values()
        if inspect.isclass(one) and issubclass(one, Exception) and one.__module__ == "e2b.exceptions"
    ]
    unmet = ("Git", "Build", "FileUpload", "Volume", "Secret")
    for one in known:
        if one.__name__.startswith(unmet):
            continue
        mapped = errors.map_error(one("text"))
        assert mapped is not None, one
        assert not isinstance(mapped, TimeoutError)
        assert mapped.hint or isinstance(mapped, SandboxGone)
    for native in (
        httpx.ConnectError("x"),
        httpx.ReadTimeout("x"),
        httpx.RemoteProtocolError("x"),
        connectrpc.errors.ConnectError(Code.INTERNAL, "x"),
        TimeoutError(),
        ConnectionRefusedError(),
    ):
        assert isinstance(errors.map_error(native), (BackendUnavailable, sandboxio.ConnectError)), native
    assert errors.map_error(ZeroDivisionError()) is None


async def test_the_sdks_debug_mode_and_its_addresses_are_not_looked_at(
    emulator: Emulator, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("E2B_DEBUG", "true")
    monkeypatch.setenv("E2B_API_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("E2B_SANDBOX_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("E2B_DOMAIN", "nowhere.example")
    async with sandboxio.create(dsn) as sandbox:
        assert sandbox.id in emulator.sights()
        assert (await sandbox.run(["echo", "real"])).stdout == "real\n"


async def test_a_missing_key_is_named_and_a_wrong_one_is_told(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("E2B_API_KEY")
    with pytest.raises(sandboxio.AuthError, match="E2B_API_KEY"):
        await sandboxio.create(dsn)
    monkeypatch.setenv("E2B_API_KEY", KEY.replace("0", "1"))
    with pytest.raises(sandboxio.AuthError, match="E2B_API_KEY") as raised:
        await sandboxio.create(dsn)
    assert KEY.replace("0", "1") not in str(raised.value)


async def test_what_is_sent_is_sent_once(emulator: Emulator, dsn: str) -> None:
    async with sandboxio.create(dsn) as sandbox:
        emulator.recorder.forget()
        assert (await sandbox.run(["cat"], stdin=b"once")).stdout == "once"
    paths = [call.path.rpartition("/")[2] for call in emulator.recorder.calls]
    assert (paths.count("Start"), paths.count("SendInput"), paths.count("CloseStdin")) == (1, 1, 1)
