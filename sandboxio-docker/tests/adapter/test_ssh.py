"""An engine behind ssh: a program per connection, which ends with it, whose words are the error's."""

import gc
import os
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import pytest
from anyio import to_thread
from sandboxio.calls import PortCalls
from sandboxio.errors import BackendUnavailable, SandboxError
from sandboxio.redaction import Redactor
from sandboxio_docker.backend import DockerBackend
from sandboxio_docker.config import DockerConfig
from sandboxio_docker.endpoint import Endpoint
from sandboxio_docker.engine import Engine, connect
from sandboxio_docker.reaper import Reaper, ReaperUnavailable
from sandboxio_docker.reaper.ssh import SshFailed
from sandboxio_docker.ssh import SshStream, connect_ssh
from sandboxio_docker.wire import ask

from .scripted_engine import CONTAINER, ScriptedEngine
from .specs import spec_of
from .ssh_ground import FakeSsh, is_alive

pytestmark = pytest.mark.anyio

HOST = "ssh://me@box"
ENDPOINT = Endpoint(HOST, api_version="1.41")


@pytest.fixture
def ssh(engine: ScriptedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSsh:
    fake = FakeSsh(tmp_path, engine.host.removeprefix("unix://"))
    fake.install()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return fake


@pytest.fixture
def behind(ssh: FakeSsh) -> Iterator[DockerBackend]:
    """A backend whose engine is behind ssh, with connections of its own."""
    backend = DockerBackend(DockerConfig(host=HOST))
    backend._engine = Engine(backend._engine.endpoint)
    yield backend
    if backend._engine._client is not None:
        backend._engine._client[1].close()


async def until_none_lives(ssh: FakeSsh) -> None:
    with anyio.fail_after(30):
        while ssh.living:
            await anyio.sleep(0.01)


async def test_the_receipt_says_what_the_reaper_rests_on(behind: DockerBackend, ssh: FakeSsh) -> None:
    plan = behind.plan(spec_of(), await behind.probe(spec_of()))
    (lifetime,) = [item for item in plan.enforcements() if item.policy == "lifetime"]
    assert any("through ssh" in residual for residual in lifetime.residuals)


async def test_control_calls_share_connections(behind: DockerBackend, ssh: FakeSsh) -> None:
    await behind.probe(spec_of())
    await behind.probe(spec_of())
    assert len(ssh.runs) == 1
    assert behind._engine._client is not None
    await to_thread.run_sync(behind._engine._client[1].close)
    await until_none_lives(ssh)


async def test_an_awaited_answer_comes_through(ssh: FakeSsh) -> None:
    answer = await ask(ENDPOINT, "GET", "/info")
    assert b'"NCPU": 4' in await answer.receive()
    await answer.aclose()
    await until_none_lives(ssh)


async def test_closing_ends_the_program_also_when_the_close_is_cancelled(ssh: FakeSsh) -> None:
    stream = await connect_ssh(ENDPOINT.ssh_command or ())
    (pid,) = ssh.living
    await anyio.aclose_forcefully(stream)
    await until_none_lives(ssh)
    assert not is_alive(pid)


async def test_a_cancelled_connect_leaves_no_program(ssh: FakeSsh) -> None:
    ssh.install("import time; time.sleep(60)")
    with anyio.move_on_after(0.5) as scope:
        await connect_ssh(ENDPOINT.ssh_command or ())
    assert scope.cancelled_caught
    await until_none_lives(ssh)


async def _with_a_child(ssh: FakeSsh, folder: Path) -> tuple[SshStream, int]:
    ssh.install(
        "child = os.fork()\nif child == 0:\n    import time; time.sleep(60)\n"
        f"open({str(folder / 'child')!r}, 'w').write(str(child))"
    )
    stream = await connect_ssh(ENDPOINT.ssh_command or ())
    child = int((folder / "child").read_text())
    return stream, child


async def _ends(pid: int) -> None:
    with anyio.fail_after(30):
        while is_alive(pid):
            await anyio.sleep(0.01)


async def test_what_the_program_started_ends_with_it(ssh: FakeSsh, tmp_path: Path) -> None:
    stream, child = await _with_a_child(ssh, tmp_path)
    await anyio.aclose_forcefully(stream)
    await _ends(child)


async def test_what_the_program_started_ends_also_where_the_program_ended_before(ssh: FakeSsh, tmp_path: Path) -> None:
    stream, child = await _with_a_child(ssh, tmp_path)
    await stream.send_eof()
    await until_none_lives(ssh)
    assert is_alive(child)
    await stream.aclose()
    await _ends(child)


async def test_the_end_of_input_is_passed_on_and_the_rest_still_comes(ssh: FakeSsh, engine: ScriptedEngine) -> None:
    stream = await connect_ssh(ENDPOINT.ssh_command or ())
    await stream.send(b"GET /info HTTP/1.0\r\n\r\n")
    await stream.send_eof()
    received = b"".join([piece async for piece in stream])
    assert received.endswith(b"}")
    await stream.aclose()


async def test_a_connection_that_ssh_loses_is_no_end_of_the_data(ssh: FakeSsh, tmp_path: Path) -> None:
    ssh.install(
        "import signal\n"
        "def lost(*_): sys.stderr.write('Timeout, server box not responding.\\n'); os._exit(255)\n"
        "signal.signal(signal.SIGTERM, lost)"
    )
    stream = await connect_ssh(ENDPOINT.ssh_command or ())
    os.kill(ssh.living[0], 15)
    with pytest.raises(anyio.BrokenResourceError, match="server box not responding"):
        await stream.receive()
    await stream.aclose()


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        ("Host key verification failed.\r\n", "ssh me@box"),
        ("me@box: Permission denied (publickey).\r\n", "ssh -o BatchMode=yes me@box true"),
        ("ssh: Could not resolve hostname box: Name or service not known\r\n", "DOCKER_HOST"),
        ("sh: 1: docker: not found\n", "docker command"),
        ("Got permission denied while trying to connect to the Docker daemon socket", "group"),
        ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is it running?", "start it"),
    ],
)
async def test_a_failure_is_told_in_sshs_own_words_with_the_fix(
    behind: DockerBackend, ssh: FakeSsh, words: str, fix: str
) -> None:
    ssh.fail(words)
    calls = PortCalls(behind, Redactor(()))
    for call in (partial(behind.probe, spec_of()), partial(ask, ENDPOINT, "GET", "/info")):
        with pytest.raises(BackendUnavailable) as caught, calls.mapped():
            await call()
        assert words.strip() in caught.value.message
        assert fix in caught.value.hint
        assert "ssh://me@box" in caught.value.message


async def test_words_of_the_other_side_are_bounded_and_printable(ssh: FakeSsh) -> None:
    ssh.fail("\x1b]0;owned\x07" + "x" * 50_000)
    with pytest.raises(SshFailed) as caught:
        await connect_ssh(ENDPOINT.ssh_command or ())
    assert len(str(caught.value)) < 5000
    assert "\x1b" not in str(caught.value)


async def test_a_shell_that_talks_is_no_engine(behind: DockerBackend, ssh: FakeSsh) -> None:
    ssh.install("os.write(1, b'Welcome to box!\\n')")
    with pytest.raises(BackendUnavailable, match="Welcome to box") as caught, PortCalls(behind, Redactor(())).mapped():
        await behind.probe(spec_of())
    assert "print nothing" in caught.value.hint


async def test_without_the_program_that_is_what_is_said(
    behind: DockerBackend, ssh: FakeSsh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(BackendUnavailable, match="program ssh can't be started") as caught:
        with PortCalls(behind, Redactor(())).mapped():
            await behind.probe(spec_of())
    assert "OpenSSH" in caught.value.hint


async def test_a_server_that_is_busy_with_logins_is_asked_again(ssh: FakeSsh, tmp_path: Path) -> None:
    once = str(tmp_path / "once")
    ssh.install(
        f"if not os.path.exists({once!r}):\n"
        f"    open({once!r}, 'w'); sys.stderr.write('kex_exchange_identification: Connection closed by remote host'); sys.exit(255)"
    )
    await (await connect_ssh(ENDPOINT.ssh_command or ())).aclose()
    assert len(ssh.runs) == 2
    os.unlink(once)
    client = await to_thread.run_sync(connect, ENDPOINT)
    client.close()
    assert len(ssh.runs) == 4


async def test_at_the_end_of_the_process_no_program_is_left_and_nothing_unclosed(ssh: FakeSsh) -> None:
    program = (
        "from sandboxio_docker.engine import Engine\n"
        "from sandboxio_docker.endpoint import Endpoint\n"
        f"engine = Engine(Endpoint({HOST!r}))\n"
        "engine._connected()\n"
    )
    done = await anyio.run_process([sys.executable, "-X", "dev", "-c", program])
    assert done.stderr == b""
    assert len(ssh.runs) == 1
    assert ssh.living == []


async def test_a_forked_child_does_not_end_its_parents_programs(behind: DockerBackend, ssh: FakeSsh) -> None:
    await behind.probe(spec_of())
    stream = await connect_ssh(ENDPOINT.ssh_command or ())
    child = os.fork()
    if child == 0:
        behind._engine._client[1].close()  # type: ignore[index]  # pyright: ignore[reportOptionalSubscript]
        stream._tunnel.end()
        gc.collect()
        os._exit(0)
    await to_thread.run_sync(os.waitpid, child, 0)
    assert len(ssh.living) == 2
    await stream.aclose()


async def test_nothing_of_the_options_can_be_replaced_by_the_address(ssh: FakeSsh) -> None:
    await (await connect_ssh(ENDPOINT.ssh_command or ())).aclose()
    (_, arguments) = ssh.runs[0]
    assert arguments[arguments.index("--") :] == ["--", "box", "docker system dial-stdio"]


async def test_the_reaper_destroys_through_ssh(ssh: FakeSsh, engine: ScriptedEngine) -> None:
    name = "sbx-1"
    labels = {"io.sandboxio.managed": "1", "io.sandboxio.create-id": name}
    engine.answer("GET", "/containers/sbx-1/json", 200, {"Id": CONTAINER, "Config": {"Labels": labels}})
    reaper = Reaper(Endpoint(HOST))
    try:
        await to_thread.run_sync(reaper.expect, name, time.time() - 1)
        with anyio.fail_after(30):
            while not engine.asked("DELETE", CONTAINER):
                await anyio.sleep(0.01)
    finally:
        reaper._drop_link()


@pytest.mark.parametrize("end", ["of the sandbox", "of its owner"])
async def test_what_the_reaper_listens_to_ends_through_ssh_although_the_engine_does_not_end_it(
    ssh: FakeSsh, engine: ScriptedEngine, end: str
) -> None:
    name = "sbx-1"
    labels = {"io.sandboxio.managed": "1", "io.sandboxio.create-id": name}
    seen = {"Id": CONTAINER, "Config": {"Labels": labels}, "State": {"Running": True}}
    engine.answer("GET", f"/containers/{CONTAINER}/json", 200, seen)
    engine.hold("POST", "/attach")
    reaper = Reaper(Endpoint(HOST))
    try:
        await to_thread.run_sync(reaper.expect, name, time.time() + 60)
        reaper.disk(name, 2**30, speaks=True)
        reaper.have(name, CONTAINER)
        with anyio.fail_after(30):
            while not engine.asked("POST", "/attach"):
                await anyio.sleep(0.01)
        assert ssh.living
        if end == "of the sandbox":
            reaper.forget(name)
        else:
            engine.answer("DELETE", "", 404, {"message": "No such container"})
            assert reaper._link is not None
            reaper._link.close()
        await until_none_lives(ssh)
    finally:
        if end == "of the sandbox":
            reaper._drop_link()


async def test_a_reaper_that_ssh_does_not_let_through_arms_nothing(behind: DockerBackend, ssh: FakeSsh) -> None:
    ssh.install(
        "if 'SECRET_LOGIN' not in os.environ: sys.stderr.write('Permission denied (publickey).'); sys.exit(255)"
    )
    os.environ["SECRET_LOGIN"] = "1"
    try:
        await behind.probe(spec_of())
        with pytest.raises(ReaperUnavailable, match="Permission denied") as caught:
            await to_thread.run_sync(Reaper(Endpoint(HOST)).expect, "sbx-1", time.time() + 60)
    finally:
        del os.environ["SECRET_LOGIN"]
    mapped = behind.map_error(caught.value)
    assert isinstance(mapped, SandboxError)
    assert "SSH_AUTH_SOCK" in mapped.hint
