"""A real engine behind a real sshd, over both transports, and what happens to its sandboxes when their owner dies."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from sandboxio.calls import PortCalls
from sandboxio.errors import BackendUnavailable
from sandboxio.port import Command, HasFiles
from sandboxio.redaction import Redactor
from sandboxio_docker.backend import DockerBackend
from sandboxio_docker.config import DockerConfig

from .real_engine import running
from .specs import spec_of
from .ssh_ground import Sshd, sshd

pytestmark = [pytest.mark.docker, pytest.mark.ssh, pytest.mark.anyio]

PYTHON = "sandboxio-test/python"
both_transports = pytest.mark.parametrize("forced_exec", [False, True], ids=["agent", "exec"])
OWNER = """
import anyio, os, sandboxio, signal, sys
from sandboxio_docker.config import DockerConfig

async def main():
    sandbox = await sandboxio.create(DockerConfig(template="sandboxio-test/python", host=sys.argv[1]), timeout=120)
    child = os.fork() if sys.argv[2] == "fork" else 0
    if sys.argv[2] == "fork" and child == 0:
        signal.pause()
    print(child, sandbox.id, flush=True)
    await anyio.sleep(60)

anyio.run(main)
"""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    with sshd(tmp_path) as started:
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        yield started


@both_transports
async def test_commands_input_and_code_through_ssh(server: Sshd, forced_exec: bool) -> None:
    spec = spec_of(PYTHON, host=server.host, accept_vsock=True)
    async with running(spec, forced_exec=forced_exec) as sandbox:
        # `cat` ends with its input alone: the half-closed connection says so all the way to the engine.
        out, _, ended = await sandbox.run("cat", stdin=b"over ssh" * 50_000)
        assert (out, ended.code) == (b"over ssh" * 50_000, 0)
        out, err, ended = await sandbox.run("sh", "-c", "echo out; echo err >&2; exit 3")
        assert (out, err, ended.code) == (b"out\n", b"err\n", 3)
        out, _, _ = await sandbox.run("sh", "-c", "dd if=/dev/zero bs=1000000 count=20 2>/dev/null")
        assert len(out) == 20_000_000


async def test_files_and_the_end_of_one_command_through_ssh(server: Sshd) -> None:
    async with running(spec_of(PYTHON, host=server.host)) as sandbox:
        assert isinstance(sandbox.session, HasFiles)
        driver = await sandbox.session.start(Command(("sleep", "600"), cwd="/"))
        with anyio.move_on_after(0.2):
            await driver.receive()
        assert await driver.kill() == "tree"
        assert (await sandbox.run("true"))[2].code == 0


async def test_many_at_once_are_not_turned_away(server: Sshd) -> None:
    """Sshd drops logins at random while ten others are under way (MaxStartups)."""

    async def one() -> None:
        async with running(spec_of(PYTHON, host=server.host, timeout=120)) as sandbox:
            assert (await sandbox.run("echo", "hi"))[0] == b"hi\n"

    async with anyio.create_task_group() as group:
        for _ in range(12):
            group.start_soon(one)


async def failure_of(server: Sshd) -> BackendUnavailable:
    backend = DockerBackend(DockerConfig(host=server.host))
    with pytest.raises(BackendUnavailable) as caught, PortCalls(backend, Redactor(())).mapped():
        await backend.probe(spec_of())
    return caught.value


async def test_a_host_whose_key_nobody_accepted_is_not_spoken_to(server: Sshd) -> None:
    server.forget_host_key()
    failed = await failure_of(server)
    assert "Host key verification failed" in failed.message
    assert f"ssh -p {server.port} {server.user}@127.0.0.1" in failed.hint


async def test_a_host_whose_key_changed_is_not_spoken_to(server: Sshd) -> None:
    server.change_host_key()
    failed = await failure_of(server)
    assert "Host key verification failed" in failed.message
    assert "ssh-keygen -R" in failed.hint


async def test_a_login_that_would_take_a_password_is_not_asked_for(server: Sshd) -> None:
    (server.folder / "user_key.pub").write_text("")
    failed = await failure_of(server)
    assert "Permission denied (publickey" in failed.message
    assert "BatchMode=yes" in failed.hint


async def test_a_server_that_is_away_is_an_error_with_sshs_words(server: Sshd) -> None:
    server.port = 1
    failed = await failure_of(server)
    assert "Connection refused" in failed.message


@pytest.mark.parametrize("how", ["alone", "fork"])
async def test_a_killed_owner_leaves_nothing_behind(server: Sshd, how: str) -> None:
    """TRD-06; with a live forked child, which holds the connections open, only the reaper is left, and it goes through ssh."""
    command = [sys.executable, "-c", OWNER, server.host, how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        child, sandbox = owner.stdout.readline().split()
        assert await exists(sandbox)
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        try:
            with anyio.fail_after(60):
                while await exists(sandbox):
                    await anyio.sleep(0.1)
        finally:
            if how == "fork":
                os.kill(int(child), signal.SIGKILL)


async def exists(sandbox: str) -> bool:
    return await DockerBackend(DockerConfig()).observe(sandbox) is not None
