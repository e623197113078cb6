"""A session over a program that runs commands elsewhere; here they run on this machine, beside each other."""

import os
import signal
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sandboxio.errors import ConfigurationError, ExecutionError, ResourceLimitExceeded, SandboxGone
from sandboxio.exec_command import ExecCommand
from sandboxio.exec_session import ExecSession, check_names
from sandboxio.port import CODE_PATH, Chunk, Command, Exit, Observation

pytestmark = pytest.mark.anyio


class Program:
    """Runs commands as they are."""

    def __init__(self, folder: Path, argv: Sequence[str] = ("env",)) -> None:
        self.scratch = str(folder)
        self.reserved = ("ENGINE_",)
        self.no_process = ("engine is crowded",)
        self.argv = argv
        self.asked: list[tuple[str, bool]] = []
        self.destroyed: list[str] = []
        self.limit: str | None = None

    def exec_argv(self, sandbox_id: str, names: Iterable[str], *, stdin: bool) -> Sequence[str]:
        self.asked.append((",".join(names), stdin))
        return self.argv

    async def limit_hit(self, sandbox_id: str, since: float) -> str | None:
        return self.limit

    async def observe(self, sandbox_id: str) -> Observation | None:
        return None if self.destroyed else Observation(sandbox_id, "name", "running", {}, 0.0, None, {})

    async def destroy(self, sandbox_id: str) -> None:
        self.destroyed.append(sandbox_id)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


@pytest.fixture
async def session(program: Program) -> AsyncIterator[ExecSession]:
    session = ExecSession(program, "a-sandbox")
    yield session
    await session.aclose()


async def output(command: ExecCommand) -> tuple[bytes, bytes]:
    found = {"stdout": b"", "stderr": b""}
    while chunk := await command.receive():
        found[chunk.stream] += chunk.data
    return found["stdout"], found["stderr"]


async def test_streams_and_exit_code_are_the_commands_own(session: ExecSession) -> None:
    command = await session.start(Command(("sh", "-c", "printf 'a\\036b'; echo err >&2; exit 7")))
    assert await output(command) == (b"a\x1eb", b"err\n")
    assert await command.wait() == Exit(7)


@pytest.mark.parametrize(
    "argv, ended, words",
    [
        (("no-such-program",), Exit(127, started=False), b"no-such-program: not found"),
        (("/etc/passwd",), Exit(126, started=False), b"Permission denied"),
        (("sh", "-c", "exit 127"), Exit(127), b""),
    ],
)
async def test_what_can_t_run_is_told_from_what_exits_so(
    session: ExecSession, argv: tuple[str, ...], ended: Exit, words: bytes
) -> None:
    command = await session.start(Command(argv))
    stdout, stderr = await output(command)
    assert (stdout, words in stderr) == (b"", True)
    assert await command.wait() == ended


async def test_a_program_is_no_builtin_of_the_shell(session: ExecSession) -> None:
    command = await session.start(Command(("echo", r"a\nb")))  # dash's own would make a line of it
    assert (await output(command))[0] == b"a\\nb\n"


async def test_a_background_child_is_not_waited_for_and_lives_on(session: ExecSession, tmp_path: Path) -> None:
    script = "(i=0; while [ $i -lt 100 ]; do i=$((i+1)); echo $i; echo $i > beat; sleep 0.1; done) & echo here; echo $! > child"
    started = time.monotonic()
    command = await session.start(Command(("sh", "-c", script)))
    assert b"here" in (await output(command))[0]
    assert await command.wait() == Exit(0)
    assert time.monotonic() - started < 8
    child = int((tmp_path / "child").read_text())
    try:
        os.kill(child, 0)
    finally:
        os.kill(child, signal.SIGKILL)


async def test_a_missing_directory_is_named_and_ends_nothing(session: ExecSession, program: Program) -> None:
    with pytest.raises(ConfigurationError, match="/no/such"):
        await session.start(Command(("true",), cwd="/no/such"))
    assert program.destroyed == []


async def test_variables_go_by_name(session: ExecSession, program: Program) -> None:
    command = await session.start(
        Command(("sh", "-c", 'printf %s "$LINES2"'), env={"LINES2": "a\nb", "PATH": "/usr/bin:/bin"})
    )
    assert (await output(command))[0] == b"a\nb"
    assert program.asked == [("LINES2,PATH", False)]


async def test_what_a_shell_can_t_name_is_refused(session: ExecSession) -> None:
    for name in ("sp ace", "1A", "A-B", "_sbx_word", "É", "ENGINE_HOST"):
        with pytest.raises(ConfigurationError):
            await session.start(Command(("true",), env={name: "x"}))
    with pytest.raises(ConfigurationError, match="ENGINE_"):
        check_names(["ENGINE_HOST"], "ENGINE_")
    check_names(["HOME", "_", "a1"], "ENGINE_")
    with pytest.raises(ConfigurationError, match="one user"):
        await session.start(Command(("true",), user="root"))


async def test_input_and_answers_take_turns(session: ExecSession, program: Program) -> None:
    command = await session.start(Command(("cat",), stdin=True))
    await command.send(b"ping\n")
    assert await command.receive() == Chunk("stdout", b"ping\n")
    await command.close_stdin()
    assert await command.receive() is None
    assert await command.wait() == Exit(0)
    await command.send(b"late")  # dropped
    assert program.asked == [("", True)]


async def test_code_has_a_path_of_its_own_and_leaves_nothing(session: ExecSession, tmp_path: Path) -> None:
    command = await session.start(Command(("sh", CODE_PATH), code=b"echo $0; wc -c"))
    path, size = (await output(command))[0].split()
    assert (Path(path.decode()).parent, size) == (tmp_path, b"0")
    assert await command.wait() == Exit(0)
    assert list(tmp_path.iterdir()) == []


async def test_code_that_was_cut_on_the_way_is_not_run(tmp_path: Path) -> None:
    cutting = Program(tmp_path, ("sh", "-c", 'head -c 5 | "$@"', "sh"))
    session = ExecSession(cutting, "a-sandbox")
    command = await session.start(Command(("sh", CODE_PATH), code=b"touch here; exit 0"))
    assert (await command.wait()).started is False
    assert not (tmp_path / "here").exists()


async def test_a_cancelled_read_loses_nothing(session: ExecSession) -> None:
    command = await session.start(Command(("sh", "-c", "for i in 1 2 3 4 5 6; do echo $i; sleep 0.05; done")))
    seen = b""
    while True:
        with anyio.move_on_after(0.01):
            chunk = await command.receive()
            if chunk is None:
                break
            seen += chunk.data
    assert seen == b"1\n2\n3\n4\n5\n6\n"


async def test_a_kill_ends_the_sandbox_after_the_stream(session: ExecSession, program: Program) -> None:
    command = await session.start(Command(("sleep", "60")))
    assert await command.kill() == "sandbox"
    assert program.destroyed == ["a-sandbox"]
    assert session.info()["kill"] == "sandbox"
    with pytest.raises(SandboxGone):
        await command.wait()


async def test_a_command_killed_for_a_cap_names_it(session: ExecSession, program: Program) -> None:
    program.limit = "memory_mb"
    for script in ("kill -9 $$", "kill -9 $PPID $$"):  # alone, and with the shell that would have told it
        command = await session.start(Command(("sh", "-c", script)))
        assert await command.wait() == Exit(137, limit="memory_mb")


@pytest.mark.parametrize(
    "script",
    [
        "exit 2",
        "echo 'fork: Resource temporarily unavailable'; exit 126",
        "echo 'Engine is crowded: 11'; exit 126",
    ],
)
async def test_where_nothing_can_be_started_the_ceiling_is_named(tmp_path: Path, script: str) -> None:
    session = ExecSession(Program(tmp_path, ("sh", "-c", script, "sh")), "a-sandbox")
    with pytest.raises(ResourceLimitExceeded) as caught:
        await session.start(Command(("true",)))
    assert caught.value.limit == "pids"


async def test_what_the_program_says_is_in_the_error(tmp_path: Path) -> None:
    session = ExecSession(Program(tmp_path, ("sh", "-c", "echo the engine is upset >&2; exit 1", "sh")), "a-sandbox")
    with pytest.raises(ExecutionError, match="the engine is upset"):
        await session.start(Command(("true",)))


WORD = r"""word=$(tr '\0' '\n' < /proc/$PPID/cmdline | grep -axE '[0-9a-f]{32}')"""


async def test_a_command_that_speaks_in_the_shells_place_is_found_out(session: ExecSession) -> None:
    command = await session.start(Command(("sh", "-c", f"{WORD}; printf '\\036%sx;' $word")))
    with pytest.raises(ExecutionError, match="in the shell's place"):
        await command.wait()


async def test_a_command_may_print_what_all_processes_were_started_with(session: ExecSession) -> None:
    command = await session.start(Command(("sh", "-c", f"{WORD}; echo $word; cat /proc/$PPID/cmdline; exit 3")))
    stdout, _ = await output(command)
    assert stdout.count(stdout[:32]) > 1
    assert await command.wait() == Exit(3)


@given(st.binary(max_size=60), st.integers(1, 9), st.integers(0, 32))
def test_words_are_told_from_output_wherever_a_chunk_ends(noise: bytes, size: int, cut: int) -> None:
    word = b"\x1e" + b"0123456789abcdef" * 2
    said = noise + word[:cut] + b"!"  # the beginning of a word that goes on otherwise
    whole = word + b"started;" + said + word + b"7;late"
    command = ExecCommand.__new__(ExecCommand)
    ExecCommand.__init__(command, None, word, None, "id", set())  # type: ignore[arg-type]
    for start in range(0, len(whole), size):
        if "stdout" in command._open:
            command._take("stdout", whole[start : start + size])
    assert b"".join(chunk.data for chunk in command._chunks) == said
    assert command._said == ["started", "7"]
