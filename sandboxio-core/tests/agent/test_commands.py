"""Starting commands: what goes in, and how they end."""

import os
import signal
import sys
from pathlib import Path

import anyio
import pytest
from sandboxio.errors import ConfigurationError
from sandboxio.port import Chunk, Exit

from .harness import IS_ROOT, PATIENCE, Local, finished, read_line, running

pytestmark = pytest.mark.anyio


async def test_stdout_and_stderr_come_apart_and_the_exit_status_is_exact(agent: Local) -> None:
    result = await agent.run("sh", "-c", r"printf 'a\0\377'; printf b >&2; exit 7")
    assert (result.stdout, result.stderr, result.exit) == (b"a\0\xff", b"b", Exit(7))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGPIPE])
async def test_a_command_ended_by_a_signal_says_so(agent: Local, number: signal.Signals) -> None:
    result = await agent.run("sh", "-c", f"kill -{int(number)} $$")
    assert result.exit == Exit(128 + number, number)


async def test_a_file_larger_than_allowed_convicts_the_command_of_the_disk_cap(agent: Local) -> None:
    result = await agent.run("sh", "-c", "ulimit -f 1; exec head -c 100000 /dev/zero > big")
    assert result.exit == Exit(128 + signal.SIGXFSZ, signal.SIGXFSZ, "disk_mb")


async def test_a_missing_program_is_127_with_the_text_in_stderr_and_nothing_in_stdout(agent: Local) -> None:
    result = await agent.run("no-such-program", "x")
    assert result.exit == Exit(127, started=False)
    assert result.stdout == b""
    assert b"no-such-program: No such file or directory" in result.stderr


@pytest.mark.parametrize("content", ["", "\0\1binary"])
async def test_a_program_that_cannot_be_executed_is_126(agent: Local, tmp_path: Path, content: str) -> None:
    program = tmp_path / "program"
    program.write_text(content)
    program.chmod(0o755 if content else 0o644)
    result = await agent.run(str(program))
    assert result.exit == Exit(126, started=False)
    assert (b"Exec format error" if content else b"Permission denied") in result.stderr
    assert result.stdout == b""


async def test_arguments_too_long_for_the_kernel_are_126(agent: Local) -> None:
    result = await agent.run("true", *(["x" * 100_000] * 40))
    assert result.exit == Exit(126, started=False)
    assert b"Argument list too long" in result.stderr


async def test_arguments_and_variables_arrive_as_they_are(agent: Local, tmp_path: Path) -> None:
    argv = ["", "two\nlines", "ünï", "\udcff", "a=b", "x" * 100_000, "'\"$(id)"]
    env = {"EMPTY": "", "LINES": "a\nb=c", "ÜNÏ": "ü\udcfe"}
    code = "import os,sys; sys.stdout.buffer.write(ascii((sys.argv[1:], dict(os.environ), os.getcwd())).encode())"
    result = await agent.run(sys.executable, "-c", code, *argv, env=env)
    got, environment, cwd = eval(result.stdout)
    assert got == argv
    assert {name: environment[name] for name in env} == env
    assert environment["PATH"] == os.environ["PATH"], "the agent's own environment comes first"
    assert cwd == str(tmp_path)


async def test_the_program_is_looked_for_in_the_path_of_the_command(agent: Local, tmp_path: Path) -> None:
    (tmp_path / "hello").write_text("#!/bin/sh\necho from the path")
    (tmp_path / "hello").chmod(0o755)
    assert (await agent.run("hello", env={"PATH": f"/nowhere:{tmp_path}"})).stdout == b"from the path\n"
    assert (await agent.run("hello", env={"PATH": "/nowhere"})).exit.code == 127


async def test_a_missing_working_directory_is_named(agent: Local) -> None:
    with pytest.raises(ConfigurationError, match="/no/such/place"):
        await agent.run("true", cwd="/no/such/place")
    assert (await agent.run("pwd", cwd="/usr")).stdout == b"/usr\n"


async def test_an_unknown_user_is_named(agent: Local) -> None:
    with pytest.raises(ConfigurationError, match="no-such-user"):
        await agent.run("true", user="no-such-user")


@pytest.mark.skipif(not IS_ROOT, reason="only root can switch users")
@pytest.mark.parametrize("user", ["nobody", "65534", "65534:65534"])
async def test_a_command_can_run_as_another_user(agent: Local, user: str) -> None:
    result = await agent.run("sh", "-c", "id -u; id -g; echo $HOME; cat /proc/self/oom_score_adj", cwd="/", user=user)
    assert result.stdout.split() == [b"65534", b"65534", b"/nonexistent", b"500"]
    driver = await agent.start("sleep", "600", cwd="/", user=user)
    assert await driver.kill() == "tree"


@pytest.mark.skipif(not IS_ROOT, reason="only root can switch users")
async def test_the_working_directory_is_entered_as_the_user(agent: Local, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(ConfigurationError, match=r"closed.*Permission denied"):
        await agent.run("true", cwd=str(closed), user="nobody")


@pytest.mark.parametrize(
    "argv,env",
    [((), {}), (("",), {}), (("a\0b",), {}), (("a",), {"A": "\0"}), (("a",), {"A=B": ""}), (("a",), {"": ""})],
)
async def test_what_no_process_can_be_given_is_refused(
    agent: Local, argv: tuple[str, ...], env: dict[str, str]
) -> None:
    with pytest.raises(ConfigurationError):
        await agent.run(*argv, env=env)


@pytest.mark.parametrize("size", [0, 10, 70_000, 3_000_000])
async def test_code_of_any_size_is_read_by_a_path(agent: Local, size: int) -> None:
    code = b"#" * size + b"\nimport sys; print(len(sys.argv), sys.argv[1])"
    assert (await agent.run(sys.executable, "{code}", "x", code=code)).stdout == b"2 x\n"
    assert (await agent.run("sh", "{code}", code=b"#" * size + b"\necho $0")).stdout.startswith(b"/proc/self/fd/")


async def test_a_command_without_stdin_reads_its_end_at_once(agent: Local) -> None:
    assert (await agent.run("cat")).exit.code == 0


async def test_stdin_is_delivered_whole_and_ends_when_it_is_closed(agent: Local) -> None:
    driver = await agent.start("sha256sum", stdin=True)
    data = os.urandom(1_500_000)
    with anyio.fail_after(PATIENCE):
        await driver.send(data)
        await driver.close_stdin()
        await driver.close_stdin()
        result = await finished(driver)
    import hashlib

    assert result.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


async def test_sending_waits_for_a_command_that_does_not_read(agent: Local) -> None:
    driver = await agent.start("sh", "-c", "read line; cat | wc -c", stdin=True)
    data = bytes(2_000_000)
    with anyio.move_on_after(0.3) as scope:
        await driver.send(data)
    assert scope.cancelled_caught
    assert await driver.kill() == "tree"


async def test_data_for_a_command_that_closed_its_stdin_is_dropped(agent: Local) -> None:
    driver = await agent.start("sh", "-c", "exec <&-; echo closed; sleep 600", stdin=True)
    await read_line(driver)
    with anyio.fail_after(PATIENCE):
        await driver.send(bytes(2_000_000))
        await driver.send(b"more")
    assert await driver.kill() == "tree"


async def test_data_for_a_command_that_ended_is_dropped(agent: Local) -> None:
    driver = await agent.start("true", stdin=True)
    with anyio.fail_after(PATIENCE):
        await driver.send(bytes(2_000_000))
        assert (await finished(driver)).exit == Exit(0)
        await driver.send(b"more")


async def test_a_command_leads_its_own_session_with_default_signals_and_three_descriptors(agent: Local) -> None:
    code = """
import os, signal
odd = [s for s in signal.valid_signals() if signal.getsignal(s) == signal.SIG_IGN and s not in (signal.SIGPIPE, signal.SIGXFSZ)]
status = open('/proc/self/status').read()
ignored = int(status.split('SigIgn:')[1].split()[0], 16)
print(os.getsid(0) == os.getpid() == os.getpgid(0), odd, signal.pthread_sigmask(0, ()), sorted(os.listdir('/proc/self/fd'))[:3], len(os.listdir('/proc/self/fd')))
"""
    result = await agent.run(sys.executable, "-c", code)
    assert result.stdout == b"True [] set() ['0', '1', '2'] 4\n", result


async def test_two_hundred_commands_at_once(agent: Local) -> None:
    results: list[bytes] = []

    async def one(number: int) -> None:
        results.append((await agent.run("sh", "-c", f"echo {number}")).stdout)

    async with anyio.create_task_group() as group:
        for number in range(200):
            group.start_soon(one, number)
    assert sorted(results) == sorted(b"%d\n" % number for number in range(200))


async def test_a_cancelled_start_leaves_nothing(agent: Local, tmp_path: Path) -> None:
    before = set(os.listdir("/proc"))
    for delay in (0, 0.001, 0.002, 0.004, 0.008):
        with anyio.move_on_after(delay):
            await agent.start("sh", "-c", "sleep 601", code=bytes(5_000_000))
    assert (await agent.run("echo", "on")).stdout == b"on\n"
    assert running("sleep 601", before) == []


async def test_output_before_the_program_could_be_executed_is_impossible(agent: Local) -> None:
    driver = await agent.start("/")
    assert isinstance(await driver.receive(), Chunk)
    assert await driver.receive() is None
    assert (await driver.wait()).started is False


async def test_nothing_of_a_command_reaches_the_next(agent: Local, tmp_path: Path) -> None:
    look = "import os; print(sorted(os.environ), os.getcwd(), sorted(os.listdir('/proc/self/fd')), os.getpgrp() == os.getpid())"
    first = await agent.run(sys.executable, "-c", look)
    driver = await agent.start(
        sys.executable, "{code}", env={"SECRET": "x"}, cwd="/usr", stdin=True, code=look.encode()
    )
    assert b"SECRET" in (await finished(driver)).stdout
    with pytest.raises(ConfigurationError):
        await agent.run("true", cwd="/no/such/place")
    await agent.run("no-such-program")
    for _ in range(5):
        assert await agent.run(sys.executable, "-c", look) == first


@pytest.mark.skipif(not IS_ROOT, reason="only root can switch users")
async def test_users_take_turns(agent: Local) -> None:
    for user in ("nobody", None, "nobody", None):
        result = await agent.run("id", "-u", cwd="/", user=user)
        assert result.stdout == (b"65534\n" if user else b"0\n")


@pytest.mark.skipif(not IS_ROOT, reason="only root can switch users")
async def test_another_user_has_streams_code_signals_and_exit_codes_of_its_own(agent: Local) -> None:
    said = await agent.run("sh", "-c", "echo out >/dev/stdout; echo err >/dev/stderr", cwd="/", user="nobody")
    assert (said.stdout, said.stderr) == (b"out\n", b"err\n")
    code = b"import os, signal; print(os.getuid(), signal.getsignal(signal.SIGTERM), os.nice(0) >= 10)"
    ran = await agent.run("/usr/bin/python3", "{code}", cwd="/", user="nobody", code=code)
    assert (ran.stdout, ran.stderr) == (b"65534 0 True\n", b"")
    for argv, status in ((("no-such-program",), 127), (("/etc/passwd",), 126)):
        refused = await agent.run(*argv, cwd="/", user="nobody")
        assert (refused.exit.code, refused.exit.started, refused.stdout) == (status, False, b"")
        assert argv[0].encode() in refused.stderr
