"""The adapter on a real engine, over both transports."""

import ctypes
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import docker
import pytest
import sandboxio
from sandboxio.errors import (
    ConfigurationError,
    PolicyNotEnforced,
    ResourceLimitExceeded,
    SandboxGone,
)
from sandboxio.policy import NetworkPolicy, Resources
from sandboxio.port import CODE_PATH, Command, HasFiles, TransportUnfit
from sandboxio_docker.backend import DockerBackend
from sandboxio_docker.config import DockerConfig

from .real_engine import Running, finish, inspect, leftovers, planned, running
from .relay import make_certificates, relay
from .specs import spec_of

pytestmark = [pytest.mark.docker, pytest.mark.anyio]

PYTHON = "sandboxio-test/python"
ALLOW = NetworkPolicy(egress="allow")
both_transports = pytest.mark.parametrize("forced_exec", [False, True], ids=["agent", "exec"])


@pytest.mark.parametrize(
    ("image", "transport", "cwd"),
    [
        ("python", "agent", "/work"),
        ("python-minimal", "agent", "/work"),
        ("user", "agent", "/home/agent"),
        ("busybox", "exec", "/work"),
    ],
)
async def test_every_image_runs_commands(image: str, transport: str, cwd: str) -> None:
    spec = spec_of(f"sandboxio-test/{image}", accept_vsock=True)
    async with running(spec, forced_exec=transport == "exec") as sandbox:
        assert sandbox.session.info()["transport"] == transport
        assert isinstance(sandbox.session, HasFiles) == (transport == "agent")
        out, err, ended = await sandbox.run("sh", "-c", "echo out; echo err >&2; pwd; touch here; exit 3")
        assert (out, err, ended.code) == (f"out\n{cwd}\n".encode(), b"err\n", 3)


async def test_an_image_with_one_static_program_runs_it() -> None:
    spec = spec_of("sandboxio-test/static", accept_vsock=True)
    async with running(spec, forced_exec=True) as sandbox:
        assert sandbox.cwd == "/"
        assert (await sandbox.run("/bin/sleep", "0"))[2].code == 0
        out, err, ended = await sandbox.run("sh", "-c", "echo hi")
        assert (out, ended.code, ended.started) == (b"", 127, False)
        assert b"sh" in err


@both_transports
async def test_failures_to_start_are_exit_codes_with_nothing_in_stdout(forced_exec: bool) -> None:
    async with running(spec_of(PYTHON, accept_vsock=True), forced_exec=forced_exec) as sandbox:
        for argv, code in ((["nope-cmd"], 127), (["/etc/passwd"], 126), (["/etc"], 126)):
            out, err, ended = await sandbox.run(*argv)
            assert (out, ended.code, ended.started) == (b"", code, False)
            assert argv[0].encode() in err
        with pytest.raises(ConfigurationError, match="/nope"):
            await sandbox.run("true", cwd="/nope")
        with pytest.raises(ConfigurationError, match="no-such-user"):
            await sandbox.run("true", user="no-such-user")


@both_transports
async def test_argv_stdin_environment_and_code_arrive_as_they_are(forced_exec: bool) -> None:
    odd = ["a b", "", "$HOME", "`id`", "*", "l1\nl2", "q\"'", "-n", "é🎉"]
    show = "import sys, os, json; print(json.dumps([sys.argv[1:], os.environ.get('ODD'), sys.stdin.read()]))"
    async with running(spec_of(PYTHON, accept_vsock=True), forced_exec=forced_exec) as sandbox:
        out, _, _ = await sandbox.run("python3", "-c", show, *odd, env={"ODD": "a\n=é "}, stdin=b"in\nput")
        assert json.loads(out) == [odd, "a\n=é ", "in\nput"]
        code = "import sys\nprint('é', sys.argv[1:])\nsys.exit(4)".encode()
        out, _, ended = await sandbox.run("python3", CODE_PATH, "x y", code=code)
        assert (out.decode(), ended.code) == ("é ['x y']\n", 4)


@both_transports
async def test_a_background_child_that_holds_the_pipe_is_not_waited_for(forced_exec: bool) -> None:
    async with running(spec_of(PYTHON, accept_vsock=True), forced_exec=forced_exec) as sandbox:
        with anyio.fail_after(30):
            out, _, ended = await sandbox.run("sh", "-c", "while :; do echo x; sleep 0.05; done & echo last; exit 6")
        assert b"last\n" in out
        assert ended.code == 6


@both_transports
async def test_the_engine_has_every_cap(forced_exec: bool) -> None:
    """RES-03."""
    caps = Resources(cpu=0.5, memory_mb=256, disk_mb=100, pids=64)
    spec = spec_of(PYTHON, resources=caps, secrets={"KEY": "s3cret-value"}, accept_vsock=True)
    async with running(spec, forced_exec=forced_exec) as sandbox:
        seen = inspect(sandbox.id)
        host = seen["HostConfig"]
        assert host["Memory"] == host["MemorySwap"] == 256 * 2**20
        assert host["NanoCpus"] == 500_000_000
        assert host["PidsLimit"] == 64
        assert host["ShmSize"] == 64 * 2**20
        assert host["NetworkMode"] == "none"
        assert host["CapDrop"] == ["ALL"]
        assert host["SecurityOpt"] == ["no-new-privileges:true"]
        assert host["AutoRemove"]
        assert host["LogConfig"]["Type"] == "none"
        assert not host["Privileged"]
        assert not host["Binds"]
        assert seen["Mounts"] == []
        limits = {limit["Name"]: (limit["Soft"], limit["Hard"]) for limit in host["Ulimits"]}
        assert limits.pop("sigpending") == (1024, 1024)
        assert limits.pop("msgqueue") == (409_600, 409_600)
        assert limits == {"core": (0, 0), "nofile": (1024, 4096), "fsize": (100 * 2**20, 100 * 2**20)}
        assert seen["Name"] == f"/{sandbox.plan.create_id}"
        assert "s3cret-value" not in json.dumps(seen)
        show = "import os; print(os.environ['KEY'], list(os.listdir('/sys/class/net')))"
        out, _, _ = await sandbox.run("python3", "-c", show, env={"KEY": "s3cret-value"})
        assert out == b"s3cret-value ['lo']\n"
        assert "s3cret-value" not in json.dumps(inspect(sandbox.id))


QUEUE_ALL = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
signal.pthread_sigmask(signal.SIG_BLOCK, {40})
count = 0
while count < 10_000 and libc.sigqueue(os.getpid(), 40, ctypes.c_void_p(0)) == 0:
    count += 1
print(count, flush=True)
signal.pause()
"""


async def test_queued_signals_are_not_used_up_for_the_host() -> None:
    """The kernel counts them by user id, sandboxes and host together; where users are not remapped root's are root's."""
    library = ctypes.CDLL(None, use_errno=True)
    timer = ctypes.c_void_p()
    async with running(spec_of(PYTHON)) as sandbox:
        driver = await sandbox.session.start(Command(("python3", "-c", QUEUE_ALL)))
        chunk = await driver.receive()
        assert chunk is not None
        assert 0 < int(chunk.data) <= 1024
        assert library.timer_create(1, None, ctypes.byref(timer)) == 0, ctypes.get_errno()
        library.timer_delete(timer)


async def test_localhost_resolves_although_the_engine_wrote_no_hosts_file() -> None:
    async with running(spec_of(PYTHON)) as sandbox:
        assert inspect(sandbox.id)["Config"].get("NetworkDisabled")
        out, _, _ = await sandbox.run("python3", "-c", "import socket; print(socket.gethostbyname('localhost'))")
        assert out == b"127.0.0.1\n"


async def test_each_allowed_sandbox_has_a_network_of_its_own_that_goes_with_it() -> None:
    async with running(spec_of(PYTHON, network=ALLOW)) as one, running(spec_of(PYTHON, network=ALLOW)) as two:
        networks = [inspect(sandbox.id)["NetworkSettings"]["Networks"] for sandbox in (one, two)]
        assert [list(joined) for joined in networks] == [[one.plan.create_id], [two.plan.create_id]]
        assert len(leftovers(one.plan.create_id)[1]) == 1
        address = next(iter(networks[1].values()))["IPAddress"]
        reach = f"import socket; socket.create_connection(('{address}', 8000), 1)"
        server = await two.session.start(Command(("python3", "-m", "http.server", "8000"), cwd="/"))
        own = (
            "import socket, time\nfor _ in range(50):\n try: socket.create_connection(('127.0.0.1', 8000), 1); break\n"
        )
        assert (await two.run("python3", "-c", own + " except OSError: time.sleep(0.1)"))[2].code == 0
        assert (await one.run("python3", "-c", reach))[2].code != 0
        assert await server.kill() == "tree"


async def test_a_sandbox_that_was_never_started_goes_at_its_expiry_with_its_network() -> None:
    spec = spec_of(PYTHON, network=ALLOW, timeout=1.0)
    backend = DockerBackend(DockerConfig())
    plan = await planned(backend, spec)
    sandbox_id = await backend.provision(plan)
    with anyio.fail_after(15):
        while leftovers(plan.create_id) != ([], []):
            await anyio.sleep(0.2)
    assert await backend.observe(sandbox_id) is None
    await backend.destroy(sandbox_id)


async def test_labels_come_back_byte_for_byte_and_filters_are_exact() -> None:
    metadata = {"tenant_id": "a", "A.b/c": "v" * 70_000, "é": "🎉", "a\nb": "", "k=v": "x=y,z", "empty": ""}
    async with (
        running(spec_of(PYTHON, metadata=metadata)) as one,
        running(spec_of(PYTHON, metadata={"tenant_id": "ab", "k=v": "other"})) as two,
    ):
        assert dict(one.seen.labels) == metadata
        ours = {one.id, two.id}
        for wanted, expected in (
            ({"tenant_id": "a", "é": "🎉"}, {one.id}),
            ({"tenant_id": "ab"}, {two.id}),
            ({"k=v": "x=y,z"}, {one.id}),
            ({"tenant_id": "a*"}, set[str]()),
            ({}, ours),
        ):
            found = {seen.sandbox_id async for seen in one.backend.list(wanted)}
            assert found & ours == expected
        assert await one.backend.find(one.plan.create_id) == one.id
        assert await one.backend.find(one.id[:12]) is None
        assert await one.backend.observe(one.id[:12]) is None


@both_transports
async def test_a_second_session_is_opened_without_the_first(forced_exec: bool) -> None:
    async with running(spec_of(PYTHON, accept_vsock=True), forced_exec=forced_exec) as sandbox:
        further = await DockerBackend(DockerConfig(accept_vsock=True)).open(sandbox.id)
        again = Running(sandbox.backend, sandbox.plan, sandbox.id, further, sandbox.seen)
        assert (await again.run("sh", "-c", "pwd; echo two > /tmp/two"))[0] == b"/work\n"
        await further.aclose()
        assert (await sandbox.run("cat", "/tmp/two"))[0] == b"two\n"


@both_transports
async def test_the_end_of_the_lifetime_is_named(forced_exec: bool) -> None:
    async with running(spec_of(PYTHON, timeout=3.0, accept_vsock=True), forced_exec=forced_exec) as sandbox:
        with anyio.fail_after(10), pytest.raises(SandboxGone) as caught:
            await sandbox.run("sleep", "30")
        assert caught.value.reason == "lifetime"
        assert sandbox.seen.expires_at is not None
        assert time.time() < sandbox.seen.expires_at + 4


@both_transports
async def test_a_destroyed_sandbox_says_so_to_whoever_waits(forced_exec: bool) -> None:
    async with running(spec_of(PYTHON, accept_vsock=True), forced_exec=forced_exec) as sandbox:
        driver = await sandbox.session.start(Command(("sleep", "30"), cwd="/"))
        await sandbox.backend.destroy(sandbox.id)
        with anyio.fail_after(10), pytest.raises(SandboxGone) as caught:
            await finish(driver)
        assert caught.value.reason == "killed"
        await sandbox.backend.destroy(sandbox.id)


async def test_a_commands_earlier_death_for_want_of_memory_is_not_the_sandboxs() -> None:
    caps = Resources(memory_mb=64)
    async with sandboxio.create(f"docker://{PYTHON}", resources=caps) as sandbox:
        with pytest.raises(ResourceLimitExceeded):
            await sandbox.run_code("held = bytearray(200 << 20)")
        await anyio.sleep(1.2)  # what is judged is the time between the two
        await sandboxio.kill_managed("docker://", sandbox.id)
        with pytest.raises(SandboxGone) as caught:
            await sandbox.run(["true"])
        assert caught.value.reason == "killed"


@both_transports
async def test_a_command_that_dies_for_want_of_memory_is_convicted(forced_exec: bool) -> None:
    spec = spec_of(PYTHON, resources=Resources(memory_mb=64), accept_vsock=True)
    async with running(spec, forced_exec=forced_exec) as sandbox:
        _, _, ended = await sandbox.run("python3", "-c", "held = []\nwhile True: held.append(bytearray(10**7))")
        assert (ended.code, ended.limit) == (137, "memory_mb")
        _, _, killed = await sandbox.run("sh", "-c", "kill -9 $$")
        assert (killed.code, killed.limit) == (137, None)


@both_transports
async def test_too_much_on_the_disk_ends_the_sandbox(forced_exec: bool) -> None:
    spec = spec_of(PYTHON, resources=Resources(disk_mb=20), accept_vsock=True)
    fill = "i=0; while :; do head -c 1000000 /dev/zero > f$i; i=$((i+1)); sleep 0.02; done"
    async with running(spec, forced_exec=forced_exec) as sandbox:
        with anyio.fail_after(30), pytest.raises(SandboxGone) as caught:
            await sandbox.run("sh", "-c", fill)
        assert caught.value.reason == "disk_mb"


async def _until_it_fails(sandbox: Running) -> None:
    while True:
        await sandbox.run("true")


async def test_at_the_ceiling_a_new_command_is_refused_and_the_bomb_can_be_killed() -> None:
    bomb = "import os, time\nwhile True:\n try:\n  os.fork()\n except OSError: time.sleep(0.05)"
    async with running(spec_of(PYTHON, resources=Resources(pids=64))) as sandbox:
        driver = await sandbox.session.start(Command(("python3", "-c", bomb), cwd="/"))
        with anyio.fail_after(20), pytest.raises(ResourceLimitExceeded) as caught:
            await _until_it_fails(sandbox)
        assert caught.value.limit == "pids"
        assert await driver.kill() == "tree"
        assert (await sandbox.run("true"))[2].code == 0


async def test_an_image_without_python_asks_for_the_other_transport_and_that_is_remembered() -> None:
    backend = DockerBackend(DockerConfig())
    backend._engine.register.unfit.clear()
    spec = spec_of("sandboxio-test/busybox", accept_vsock=True)
    plan = await planned(backend, spec)
    assert plan.parameters["transport"] == "agent"
    sandbox_id = await backend.provision(plan)
    with pytest.raises(TransportUnfit, match="python3") as caught:
        await backend.open(sandbox_id, plan)
    await backend.destroy(sandbox_id)
    assert backend.plan(spec, caught.value.facts).parameters["transport"] == "exec"
    assert (await planned(backend, spec)).parameters["transport"] == "exec"
    other = spec_of("sandboxio-test/busybox", accept_vsock=True, read_only=True)  # that may have been why
    assert (await planned(backend, other)).parameters["transport"] == "agent"
    assert leftovers(plan.create_id) == ([], [])


async def test_without_a_filter_deny_is_refused_unless_vsock_is_accepted() -> None:
    with pytest.raises(PolicyNotEnforced) as caught:
        async with running(spec_of("sandboxio-test/python-minimal")):
            pass
    assert "accept_vsock" in caught.value.hint


@pytest.fixture
def empty_image() -> Iterator[str]:
    client: Any = docker.APIClient(version="auto")
    name = f"sandboxio-test/empty-{os.getpid()}"
    client.import_image_from_data(_tar_of_nothing(), repository=name, tag="latest")
    yield name
    client.remove_image(name, force=True)
    client.close()


def _tar_of_nothing() -> bytes:
    import io
    import tarfile

    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("nothing"))
    return held.getvalue()


async def test_an_image_with_neither_python_nor_sleep_is_refused_naming_both(empty_image: str) -> None:
    with pytest.raises(ConfigurationError, match="python3 or sleep"):
        async with running(spec_of(empty_image, accept_vsock=True), forced_exec=True):
            pass


@pytest.fixture
def tcp_host() -> Iterator[str]:
    with relay() as address:
        yield f"tcp://{address}"


@pytest.fixture
def tls_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    make_certificates(tmp_path)
    with relay(tmp_path) as address:
        monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
        monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
        # An authority for the web must not take the place of the engine's own.
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nonexistent/ca.pem")
        yield f"tcp://{address}"


@both_transports
async def test_an_engine_over_tcp_serves_as_well(tcp_host: str, forced_exec: bool) -> None:
    spec = spec_of(PYTHON, host=tcp_host, accept_vsock=True)
    async with running(spec, forced_exec=forced_exec) as sandbox:
        out, _, ended = await sandbox.run("cat", stdin=b"over tcp")
        assert (out, ended.code) == (b"over tcp", 0)


@both_transports
async def test_an_engine_over_tls_serves_as_well(tls_host: str, forced_exec: bool) -> None:
    spec = spec_of(PYTHON, host=tls_host, accept_vsock=True)
    async with running(spec, forced_exec=forced_exec) as sandbox:
        # What comes after the end of the input must not be lost with it: below TLS each side ends for itself.
        out, _, ended = await sandbox.run("sh", "-c", "wc -c; sleep 0.3; echo after", stdin=b"x" * 300_000)
        assert (out, ended.code) == (b"300000\nafter\n", 0)
        out, _, ended = await sandbox.run("sh", CODE_PATH, code=b"echo code")
        assert (out, ended.code) == (b"code\n", 0)
