"""`run`: deadlines, output, stdin, caps, and what a kill really ends."""

import time
from collections.abc import AsyncIterator

import anyio
import pytest
import sandboxio
from sandboxio import (
    ConfigurationError,
    ConnectError,
    ExecutionError,
    ExecutionTimeout,
    OrphanedSandboxWarning,
    ResourceLimitExceeded,
    Sandbox,
    SandboxGone,
)
from sandboxio.port import Chunk, Command, Exit, Killed

from .stub import BUSY, Hold, Program, StubBackend, raising, stalling

pytestmark = pytest.mark.anyio


class NativeError(Exception):
    """What a provider's SDK raises."""


@pytest.fixture
async def sandbox(stub: StubBackend, target: str) -> AsyncIterator[Sandbox]:
    made = await sandboxio.create(target, secrets={"TOKEN": "s3cr3t-value"})
    yield made
    stub.gates.clear()
    await made.kill()


def printing(*pieces: bytes, ended: Exit | None = None, hangs: bool = False) -> Program:
    return Program([Chunk("stdout", piece) for piece in pieces], ended or Exit(0), hangs=hangs)


async def test_a_run_returns_what_was_printed(stub: StubBackend, sandbox: Sandbox) -> None:
    stub.programs["both"] = lambda command: Program([Chunk("stdout", b"out\n"), Chunk("stderr", b"err\n")], Exit(3))
    result = await sandbox.run(["both"])
    assert (result.exit_code, result.stdout, result.stderr, result.ok) == (3, "out\n", "err\n", False)


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ((b"caf\xc3", b"\xa9\n"), "café\n"),
        ((b"\xf0", b"\x9f", b"\x98", b"\x80"), "😀"),
        ((b"\xc3",), "\ufffd"),
    ],
)
async def test_a_character_split_across_chunks_is_whole(
    stub: StubBackend, sandbox: Sandbox, pieces: tuple[bytes, ...], text: str
) -> None:
    """ENC-01."""
    stub.programs["print"] = lambda command: printing(*pieces)
    result = await sandbox.run(["print"])
    assert result.stdout == text
    assert result.stdout_bytes == b"".join(pieces)


async def test_each_stream_is_decoded_by_itself(stub: StubBackend, sandbox: Sandbox) -> None:
    """ENC-01 case 4."""
    stub.programs["print"] = lambda command: Program([Chunk("stdout", b"\xc3"), Chunk("stderr", b"\xa9")])
    result = await sandbox.run(["print"])
    assert (result.stdout, result.stderr) == ("\ufffd", "\ufffd")


async def test_nothing_printed_is_empty_text(sandbox: Sandbox) -> None:
    """ENC-08."""
    result = await sandbox.run(["true"])
    assert (result.stdout, result.stderr, result.stdout_bytes) == ("", "", b"")


@pytest.mark.parametrize(("limit", "kept", "truncated"), [(5, b"01234", True), (10, b"0123456789", False)])
async def test_output_beyond_the_bound_is_dropped_and_the_exit_code_is_true(
    stub: StubBackend, sandbox: Sandbox, limit: int, kept: bytes, truncated: bool
) -> None:
    """CAP-08."""
    stub.programs["print"] = lambda command: printing(b"0123", b"456789", ended=Exit(4))
    result = await sandbox.run(["print"], max_output=limit)
    assert (result.stdout_bytes, result.stdout_truncated, result.exit_code) == (kept, truncated, 4)
    assert not result.stderr_truncated


@pytest.mark.parametrize("limit", [0, -1, 2**30 + 1, True, 1.5, None])
async def test_a_bound_for_output_that_is_none_is_refused(sandbox: Sandbox, limit: int) -> None:
    with pytest.raises(ConfigurationError, match="max_output"):
        await sandbox.run(["true"], max_output=limit)


async def test_its_own_timeout_ends_the_tree_and_carries_what_was_printed(stub: StubBackend, sandbox: Sandbox) -> None:
    """TMO-03, OUT-07."""
    stub.programs["part"] = lambda command: printing(b"part\n", hangs=True)
    with pytest.raises(ExecutionTimeout) as caught:
        await sandbox.run(["part"], timeout=0.1)
    assert caught.value.stdout == "part\n"
    assert stub.session.drivers[0].kills == 1
    assert (await sandbox.run(["true"])).ok


async def test_a_timeout_of_none_inherits_the_sandboxs(stub: StubBackend, target: str) -> None:
    """TMO-02; the lifetime is the same moment, and wins."""
    async with sandboxio.create(target, timeout=0.5) as sandbox:
        stub.programs["part"] = lambda command: printing(b"part\n", hangs=True)
        with pytest.raises(SandboxGone) as caught:
            await sandbox.run(["part"], timeout=None)
    assert caught.value.reason == "lifetime"
    assert caught.value.stdout_bytes == b"part\n"


async def test_the_lifetime_wins_over_a_longer_timeout_and_stays(stub: StubBackend, target: str) -> None:
    """TMO-05."""
    async with sandboxio.create(target, timeout=0.5) as sandbox:
        with pytest.raises(SandboxGone, match="lifetime"):
            await sandbox.run(["hang"], timeout=60)
        started = len(stub.session.drivers)
        for operation in (sandbox.run(["true"]), sandbox.files.read("x"), sandbox.run_code("1")):
            with pytest.raises(SandboxGone, match="lifetime"):
                await operation
        with pytest.raises(SandboxGone, match="lifetime"):
            async with sandbox.stream(["true"]):
                pass
        assert len(stub.session.drivers) == started


async def test_the_callers_scope_is_a_cancellation_and_nothing_else(stub: StubBackend, sandbox: Sandbox) -> None:
    with anyio.move_on_after(0.1) as scope:
        await sandbox.run(["hang"], timeout=60)
    assert scope.cancelled_caught
    assert stub.session.drivers[0].kills == 1


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True, "5", 86_401, 10**400])
async def test_a_timeout_that_bounds_nothing_is_refused_and_nothing_runs(
    stub: StubBackend, sandbox: Sandbox, timeout: float
) -> None:
    """TMO-01."""
    with pytest.raises(ConfigurationError):
        await sandbox.run(["true"], timeout=timeout)
    with pytest.raises(ConfigurationError):
        sandbox.stream(["true"], timeout=timeout)
    assert stub.session.drivers == []


async def test_the_provider_gets_the_budget_and_two_seconds_as_a_backstop(stub: StubBackend, sandbox: Sandbox) -> None:
    await sandbox.run(["true"], timeout=20)
    assert stub.session.drivers[0].command.timeout == pytest.approx(22)


async def test_a_driver_that_always_has_something_meets_its_deadline(stub: StubBackend, sandbox: Sandbox) -> None:
    stub.programs["yes"] = lambda command: Program([Chunk("stdout", b"y\n" * 100)], endless=True)
    started = time.monotonic()
    with pytest.raises(ExecutionTimeout) as caught:
        await sandbox.run(["yes"], timeout=0.2, max_output=1000)
    assert time.monotonic() - started < 20  # the command itself is endless
    assert len(caught.value.stdout_bytes) == 1000


@pytest.mark.parametrize("answer", ["leader", "sandbox"])
async def test_where_not_the_tree_alone_ended_the_sandbox_goes(
    stub: StubBackend, sandbox: Sandbox, answer: Killed
) -> None:
    stub.programs["hang"] = lambda command: Program(hangs=True, killed=answer)
    with pytest.raises(ExecutionTimeout):
        await sandbox.run(["hang"], timeout=0.05)
    assert stub.sandboxes == {}
    with pytest.raises(SandboxGone, match="processes"):
        await sandbox.run(["true"])


async def test_a_command_that_dies_with_the_sandbox_has_no_exit_code_of_its_own(
    stub: StubBackend, sandbox: Sandbox
) -> None:
    """TMO-02: where a kill takes the sandbox, the neighbour hears so, even before the kill was answered."""
    stub.session.facts["kill"] = "sandbox"
    stub.programs["hang"] = lambda command: Program(exit=Exit(137), hangs=True, killed="sandbox")

    async def all_die() -> None:
        for driver in stub.session.drivers:
            driver.end()
        await anyio.sleep(0.05)

    stub.gates.at("kill", "committed", all_die)

    async def neighbour() -> None:
        with pytest.raises(SandboxGone, match="processes"):
            await sandbox.run(["hang"])

    async with anyio.create_task_group() as group:
        group.start_soon(neighbour)
        with pytest.raises(ExecutionTimeout):
            await sandbox.run(["hang"], timeout=0.05)


async def test_a_tree_that_could_be_ended_alone_after_all_leaves_the_sandbox_as_it_was(
    stub: StubBackend, sandbox: Sandbox
) -> None:
    """Where it is not known beforehand, the answer of the kill decides."""
    stub.session.facts["kill"] = "sandbox"
    with pytest.raises(ExecutionTimeout) as caught:
        await sandbox.run(["hang"], timeout=0.05)
    assert "whole sandbox" not in caught.value.message
    assert (await sandbox.run(["true"])).ok


@pytest.mark.parametrize("error", [NativeError("no"), ConnectError("lost")])
async def test_a_kill_that_fails_ends_the_sandbox_and_replaces_no_error(
    stub: StubBackend, sandbox: Sandbox, error: Exception
) -> None:
    stub.gates.at("kill", "before", raising(error))
    with pytest.raises(ExecutionTimeout):
        await sandbox.run(["hang"], timeout=0.05)
    assert stub.sandboxes == {}


async def test_a_kill_that_stalls_ends_the_sandbox_within_the_grace(
    stub: StubBackend, sandbox: Sandbox, short_grace: float
) -> None:
    stub.gates.at("kill", "before", stalling)
    started = time.monotonic()
    with pytest.raises(ExecutionTimeout):
        await sandbox.run(["hang"], timeout=0.05)
    assert time.monotonic() - started < 0.05 + short_grace + BUSY
    assert stub.sandboxes == {}


async def test_a_tree_that_cannot_be_ended_at_all_is_said_once(
    stub: StubBackend, sandbox: Sandbox, short_grace: float
) -> None:
    stub.gates.at("kill", "before", stalling)
    stub.gates.at("destroy", "before", stalling)
    with pytest.warns(OrphanedSandboxWarning) as caught, pytest.raises(ExecutionTimeout):
        await sandbox.run(["hang"], timeout=0.05)
    assert len(caught) == 1
    assert sandbox.id in str(caught[0].message)


async def test_a_start_that_is_cancelled_in_flight_is_ended(stub: StubBackend, sandbox: Sandbox) -> None:
    hold = Hold()
    stub.gates.at("start", "answer", hold)
    async with anyio.create_task_group() as group:
        group.start_soon(sandbox.run, ["hang"])
        await hold.reached.wait()
        group.cancel_scope.cancel()
        hold.release.set()
    assert [driver.kills for driver in stub.session.drivers] == [1]
    assert len(stub.sandboxes) == 1


async def test_a_start_that_never_answers_ends_the_sandbox(
    stub: StubBackend, sandbox: Sandbox, short_grace: float
) -> None:
    stub.gates.at("start", "committed", stalling)
    with pytest.raises(ExecutionTimeout):
        await sandbox.run(["hang"], timeout=0.05)
    assert stub.sandboxes == {}


async def test_a_start_that_fails_is_reported_and_nothing_is_killed(stub: StubBackend, sandbox: Sandbox) -> None:
    stub.gates.at("start", "before", raising(ConfigurationError("no directory /nope")))
    with pytest.raises(ConfigurationError, match="/nope"):
        await sandbox.run(["true"], cwd="/nope")
    assert "kill" not in stub.calls
    assert (await sandbox.run(["true"])).ok


@pytest.mark.parametrize("call", ["start", "receive", "wait"])
async def test_an_adapters_unknown_exception_is_an_error_of_the_command_and_not_the_end_of_the_sandbox(
    stub: StubBackend, sandbox: Sandbox, call: str
) -> None:
    stub.gates.at(call, "before", raising(NativeError("boom")))
    with pytest.raises(ExecutionError, match="boom"):
        await sandbox.run(["true"])
    assert (await sandbox.run(["true"])).ok


async def test_a_sandbox_that_goes_away_carries_the_partial_output(stub: StubBackend, sandbox: Sandbox) -> None:
    stub.programs["part"] = lambda command: printing(b"part\n", hangs=True)
    reads = 0

    async def second_fails() -> None:
        nonlocal reads
        reads += 1
        if reads == 2:
            raise SandboxGone("removed by somebody", reason="unknown")

    stub.gates.at("receive", "before", second_fails)
    with pytest.raises(SandboxGone, match="removed by somebody") as caught:
        await sandbox.run(["part"])
    assert (caught.value.reason, caught.value.stdout) == ("unknown", "part\n")


async def test_a_cap_that_ended_the_sandbox_is_named_with_its_value(stub: StubBackend, sandbox: Sandbox) -> None:
    stub.gates.at("wait", "before", raising(SandboxGone("removed", reason="disk_mb")))
    stub.programs["part"] = lambda command: printing(b"part\n")
    with pytest.raises(ResourceLimitExceeded) as caught:
        await sandbox.run(["part"])
    assert (caught.value.limit, caught.value.value, caught.value.stdout) == ("disk_mb", 1024, "part\n")
    with pytest.raises(ResourceLimitExceeded):
        await sandbox.run(["true"])


async def test_a_cap_that_ended_the_command_is_named_with_its_value_and_result(
    stub: StubBackend, sandbox: Sandbox
) -> None:
    """CAP-05."""
    stub.programs["eat"] = lambda command: printing(b"mm", ended=Exit(137, 9, limit="memory_mb"))
    stub.programs["near"] = lambda command: Program(exit=Exit(0, limits_hit=("memory_mb",)))
    with pytest.raises(ResourceLimitExceeded) as caught:
        await sandbox.run(["eat"])
    assert (caught.value.limit, caught.value.value) == ("memory_mb", 512)
    assert caught.value.result is not None
    assert caught.value.result.exit_code == 137
    assert caught.value.stdout == "mm"
    assert (await sandbox.run(["near"])).limits_hit == ("memory_mb",)


async def test_a_lost_connection_to_a_sandbox_that_lives_stays_a_connect_error(
    stub: StubBackend, sandbox: Sandbox
) -> None:
    stub.gates.at("receive", "before", raising(ConnectError("reset")))
    with pytest.raises(ConnectError, match="reset"):
        await sandbox.run(["true"])


async def test_a_lost_connection_to_a_sandbox_that_is_gone_is_sandbox_gone(stub: StubBackend, sandbox: Sandbox) -> None:
    async def lose() -> None:
        stub.sandboxes.clear()
        raise ConnectError("reset")

    stub.gates.at("receive", "before", lose)
    with pytest.raises(SandboxGone, match="reset"):
        await sandbox.run(["true"])


async def test_stdin_is_fed_and_ended(stub: StubBackend, sandbox: Sandbox) -> None:
    await sandbox.run(["true"], stdin="é")
    driver = stub.session.drivers[0]
    assert (driver.received, driver.stdin_closed, driver.command.stdin) == ("é".encode(), True, True)


async def test_an_empty_stdin_is_ended_too(stub: StubBackend, sandbox: Sandbox) -> None:
    """STD-02: zero bytes."""
    hold = Hold()

    async def until_closed() -> None:
        await hold.release.wait()

    async def closed() -> None:
        hold.release.set()

    stub.gates.at("close_stdin", "committed", closed)
    stub.gates.at("wait", "before", until_closed)
    with anyio.fail_after(30):
        await sandbox.run(["true"], stdin=b"")
    assert stub.session.drivers[0].stdin_closed


async def test_a_command_that_does_not_read_its_stdin_ends_all_the_same(stub: StubBackend, sandbox: Sandbox) -> None:
    stub.programs["head"] = lambda command: Program([Chunk("stdout", b"x")], reads=4)
    with anyio.fail_after(30):
        result = await sandbox.run(["head"], stdin=b"0123456789")
    assert result.stdout == "x"


async def test_a_command_that_never_reads_its_stdin_meets_its_deadline(stub: StubBackend, sandbox: Sandbox) -> None:
    stub.programs["deaf"] = lambda command: Program(hangs=True, reads=0)
    with pytest.raises(ExecutionTimeout):
        await sandbox.run(["deaf"], stdin=b"x" * 100, timeout=0.1)
    assert stub.session.drivers[0].kills == 1


async def test_feeding_that_fails_ends_the_run(stub: StubBackend, sandbox: Sandbox) -> None:
    stub.gates.at("send", "before", raising(NativeError("pipe broke")))
    with anyio.fail_after(30), pytest.raises(ExecutionError, match="pipe broke"):
        await sandbox.run(["hang"], stdin=b"x")
    assert stub.session.drivers[0].kills == 1


async def test_secrets_reach_the_environment_and_no_repr(stub: StubBackend, sandbox: Sandbox) -> None:
    await sandbox.run(["true"], env={"A": "1"})
    command = stub.session.drivers[0].command
    assert command.env == {"A": "1", "TOKEN": "s3cr3t-value"}
    assert "s3cr3t" not in repr(command)
    assert "s3cr3t" not in repr(sandbox)
    assert "s3cr3t" not in repr(sandbox.policy)


async def test_a_failed_commands_message_shows_stderr_without_secrets_and_the_output_is_unaltered(
    stub: StubBackend, sandbox: Sandbox
) -> None:
    stub.programs["leak"] = lambda command: Program([Chunk("stderr", b"bad token s3cr3t-value\n")], Exit(1))
    result = await sandbox.run(["leak"])
    with pytest.raises(ExecutionError) as caught:
        result.raise_for_status()
    assert "bad token ***" in str(caught.value)
    assert "s3cr3t-value" in result.stderr
    assert "s3cr3t" not in repr(result)


async def test_an_image_without_a_shell_refuses_a_string_and_takes_a_list(stub: StubBackend, sandbox: Sandbox) -> None:
    """EXE-07."""
    stub.programs["sh"] = lambda command: Program([Chunk("stderr", b"sh: not found\n")], Exit(127, started=False))
    with pytest.raises(ConfigurationError, match="no POSIX shell"):
        await sandbox.run("echo hi")
    assert (await sandbox.run(["true"])).ok


async def test_a_missing_program_of_a_list_is_127(stub: StubBackend, sandbox: Sandbox) -> None:
    """EXE-06."""
    stub.programs["nope"] = lambda command: Program([Chunk("stderr", b"nope: not found\n")], Exit(127, started=False))
    result = await sandbox.run(["nope"])
    assert (result.exit_code, result.stdout) == (127, "")
    assert "nope" in result.stderr


async def test_a_missing_interpreter_is_named(stub: StubBackend, sandbox: Sandbox) -> None:
    stub.programs["python3"] = lambda command: Program(exit=Exit(127, started=False))
    with pytest.raises(ConfigurationError, match="python3"):
        await sandbox.run_code("print(1)")


async def test_code_travels_beside_argv(stub: StubBackend, sandbox: Sandbox) -> None:
    """FS-03."""
    stub.programs["python3"] = lambda command: printing(b"ok")
    code = "x = '" + "a" * 140_000 + "'"
    assert (await sandbox.run_code(code)).stdout == "ok"
    command: Command = stub.session.drivers[0].command
    assert command.code == code.encode()
    assert sum(len(part) for part in command.argv) < 1000


@pytest.mark.parametrize("language", ["touch /tmp/pwn #", "", "PYTHON", "python3; id", 5])
async def test_an_unknown_language_is_refused_before_any_call(
    stub: StubBackend, sandbox: Sandbox, language: str
) -> None:
    """EXE-02."""
    with pytest.raises(ConfigurationError):
        await sandbox.run_code("print(1)", language=language)
    assert stub.session.drivers == []


async def test_a_context_needs_a_backend_that_keeps_state(sandbox: Sandbox) -> None:
    with pytest.raises(sandboxio.CapabilityNotSupported):
        await sandbox.run_code("1", context="a")
