"""What a `DockerConfig` changes, on a real engine: seen from inside, and from outside by the SDK's own client."""

import re
from ipaddress import IPv4Network
from typing import Any

import anyio
import docker
import pytest
from sandboxio.errors import ConfigurationError, CreationError, ResourceLimitExceeded
from sandboxio.policy import NetworkPolicy, Resources
from sandboxio.port import Command
from sandboxio_docker.backend import DockerBackend
from sandboxio_docker.config import CAPABILITIES, SWITCH_USER, DockerConfig
from sandboxio_docker.pool import host_routes

from .real_engine import Running, finish, inspect, planned, running
from .specs import spec_of

pytestmark = [pytest.mark.docker, pytest.mark.anyio]

PYTHON, BUSYBOX, USER = "sandboxio-test/python", "sandboxio-test/busybox", "sandboxio-test/user"
ALLOW = NetworkPolicy(egress="allow")
both_transports = pytest.mark.parametrize("image", [PYTHON, BUSYBOX], ids=["agent", "exec"])


def of(image: str, **config: Any) -> dict[str, Any]:
    return {"spec": spec_of(image, accept_vsock=True, **config), "forced_exec": image == BUSYBOX}


async def capabilities_in(sandbox: Running, **fields: Any) -> set[str]:
    out, _, _ = await sandbox.run("grep", "-E", "^Cap(Eff|Prm|Bnd|Amb)", "/proc/self/status", **fields)
    return set(out.decode().split()[1::2])


@both_transports
async def test_root_has_what_was_given_back_and_nothing_else(image: str) -> None:
    async with running(**of(image, capabilities=tuple(CAPABILITIES))) as sandbox:
        assert await capabilities_in(sandbox) == {f"{0xFB:016x}", "0" * 16}
        assert (await sandbox.run("sh", "-c", "touch f && chown 12:34 f && stat -c %u:%g f"))[0] == b"12:34\n"
        assert (await sandbox.run("mknod", "n", "c", "1", "3"))[2].code != 0
    async with running(**of(image)) as sandbox:
        assert await capabilities_in(sandbox) == {"0" * 16}
        assert (await sandbox.run("sh", "-c", "touch f && chown 12:34 f"))[2].code != 0


async def test_a_command_of_another_user_is_started_bounded_and_ended_exactly() -> None:
    family = "import os, time\nfor _ in range(2):\n if os.fork() == 0: os.setsid()\nprint('ready', flush=True); time.sleep(60)"
    async with running(**of(PYTHON, capabilities=SWITCH_USER)) as sandbox:
        bystander = await sandbox.session.start(Command(("sh", "-c", "read line"), cwd="/", stdin=True))
        assert (await sandbox.run("id", "-u", user="1000"))[0] == b"1000\n"
        assert await capabilities_in(sandbox, user="1000") == {f"{0xE0:016x}", "0" * 16}  # the first is what bounds
        driver = await sandbox.session.start(Command(("python3", "-c", family), cwd="/", user="1000"))
        assert await driver.receive() is not None
        assert await driver.kill() == "tree"
        left = await sandbox.run("sh", "-c", "cat /proc/[0-9]*/status 2>/dev/null | grep -c '^Uid:.1000'")
        assert left[0] == b"0\n"
        await bystander.close_stdin()
        assert (await finish(bystander))[2].code == 1


async def test_without_the_three_the_fix_is_named() -> None:
    async with running(**of(PYTHON, capabilities=("CHOWN",))) as sandbox:
        with pytest.raises(ConfigurationError, match="1000") as caught:
            await sandbox.run("true", user="1000")
        assert str(SWITCH_USER) in caught.value.hint


async def test_the_engine_switches_users_itself_where_there_is_no_agent() -> None:
    async with running(**of(BUSYBOX)) as sandbox:
        assert (await sandbox.run("id", "-u", user="1000"))[0] == b"1000\n"
        driver = await sandbox.session.start(Command(("sleep", "60"), cwd="/", user="1000"))
        assert await driver.kill() == "sandbox"


@both_transports
@pytest.mark.parametrize("read_only", [False, True])
async def test_a_sandbox_of_another_user_can_work_and_be_nobody_else(image: str, read_only: bool) -> None:
    async with running(**of(image, user="1234:1234", read_only=read_only)) as sandbox:
        assert inspect(sandbox.id)["Config"]["User"] == "1234:1234"
        out, _, ended = await sandbox.run("sh", "-c", "id -u; id -g; pwd; echo kept > here; cat here; echo t > /tmp/t")
        assert (out, ended.code) == (b"1234\n1234\n/work\nkept\n", 0)
        assert (await sandbox.run("sh", "-c", "echo x > /etc/x"))[2].code != 0
        with pytest.raises(ConfigurationError, match="'0'") as caught:
            await sandbox.run("true", user="0")
        assert caught.value.hint


async def test_a_user_by_its_name_has_its_home() -> None:
    async with running(**of(PYTHON, user="nobody")) as sandbox:
        assert (await sandbox.run("sh", "-c", "id -un; echo $HOME"))[0] == b"nobody\n/nonexistent\n"


@both_transports
@pytest.mark.parametrize("user", ["no-such-user", "0:no-such-group"])
async def test_a_user_that_the_image_does_not_have_is_named(image: str, user: str) -> None:
    with pytest.raises(ConfigurationError, match="no-such") as caught:
        async with running(**of(image, user=user)):
            pass
    assert "/etc/passwd" in caught.value.hint


@pytest.mark.parametrize("image", [PYTHON, BUSYBOX, USER])
async def test_a_read_only_root_leaves_two_places_to_write_that_are_bounded(image: str) -> None:
    caps = Resources(disk_mb=20)
    async with running(**of(image, read_only=True, resources=caps)) as sandbox:
        host = inspect(sandbox.id)["HostConfig"]
        assert host["ReadonlyRootfs"]
        assert set(host["Tmpfs"]) == {"/tmp", "/work"}
        assert sandbox.cwd == "/work"
        for place in ("/etc/x", "/usr/x", "/var/x", "/x"):
            assert (await sandbox.run("sh", "-c", f"echo x > {place}"))[2].code != 0
        script = "printf '#!/bin/sh\\necho ran\\n' > s && chmod +x s && ./s && mkdir /tmp/d && echo x > /tmp/d/x"
        assert (await sandbox.run("sh", "-c", script))[0] == b"ran\n"
        fill = "for place in /tmp /work; do head -c 30000000 /dev/zero > $place/big; wc -c < $place/big; done"
        sizes = [int(word) for word in (await sandbox.run("sh", "-c", fill))[0].split()]
        assert all(9 * 2**20 < size <= 10 * 2**20 for size in sizes)
        assert len(sizes) == 2


async def test_localhost_resolves_on_a_read_only_root_and_files_and_code_work() -> None:
    async with running(**of(PYTHON, read_only=True)) as sandbox:
        assert not inspect(sandbox.id)["Config"].get("NetworkDisabled")
        show = "import socket, os; print(socket.gethostbyname('localhost'), os.listdir('/sys/class/net'))"
        assert (await sandbox.run("python3", "-c", show))[0] == b"127.0.0.1 ['lo']\n"
        out, _, _ = await sandbox.run("python3", "{code}", code=b"import tempfile; print(tempfile.gettempdir())")
        assert out == b"/tmp\n"


async def test_a_full_memory_file_system_is_not_more_memory_than_the_cap() -> None:
    """Both full, and the memory cap twice that: a program that needs the rest of it still runs."""
    caps = Resources(memory_mb=64)
    async with running(**of(PYTHON, read_only=True, resources=caps)) as sandbox:
        fill = "head -c 60000000 /dev/zero > /tmp/big; head -c 60000000 /dev/zero > /work/big; wc -c < /work/big"
        assert (await sandbox.run("sh", "-c", fill))[0] == b"16777216\n"
        assert (await sandbox.run("python3", "-c", "print(len(bytearray(4 << 20)))"))[0] == b"4194304\n"


async def test_a_second_session_finds_the_same_working_directory() -> None:
    async with running(**of(USER, read_only=True)) as sandbox:
        further = await DockerBackend(DockerConfig(accept_vsock=True)).open(sandbox.id)
        again = Running(sandbox.backend, sandbox.plan, sandbox.id, further, sandbox.seen)
        assert (await again.run("pwd"))[0] == b"/work\n"
        await further.aclose()


async def test_runc_by_its_name_is_taken() -> None:
    async with running(**of(PYTHON, runtime="runc")) as sandbox:
        assert inspect(sandbox.id)["HostConfig"]["Runtime"] == "runc"
        assert sandbox.seen.applied["isolation"] == "container"


def subnets(sandbox: Running) -> list[str]:
    client: Any = docker.APIClient(version="auto")
    try:
        found = client.inspect_network(sandbox.plan.create_id)
    finally:
        client.close()
    return [config["Subnet"] for config in found["IPAM"]["Config"]]


@pytest.fixture
def pool() -> IPv4Network:
    """A /28 that nothing here uses: room for two."""
    taken = host_routes()
    candidates = IPv4Network("100.127.0.0/16").subnets(new_prefix=28)
    return next(one for one in candidates if not any(one.overlaps(network) for network in taken))


async def test_a_pool_gives_each_sandbox_a_network_until_it_is_used_up(pool: IPv4Network) -> None:
    spec = {"network": ALLOW, "network_pool": str(pool)}
    async with running(**of(PYTHON, **spec)) as one:
        async with running(**of(PYTHON, **spec)) as two:
            held = {*subnets(one), *subnets(two)}
            assert held == {str(subnet) for subnet in pool.subnets(new_prefix=29)}
            third = of(PYTHON, **spec)["spec"]
            with pytest.raises(CreationError, match=re.escape(str(pool))) as caught:
                await one.backend.provision(await planned(one.backend, third))
            assert "larger pool" in caught.value.hint
        with anyio.fail_after(20):
            async with running(**of(PYTHON, **spec)) as three:
                assert held == {*subnets(one), *subnets(three)}


async def test_a_route_of_this_machine_is_left_alone() -> None:
    routes = [route for route in host_routes() if route.prefixlen <= 29 and route.is_private]
    assert routes, "the engine's own bridge has one"
    inside = IPv4Network((int(routes[0].network_address), 29))
    spec = of(PYTHON, network=ALLOW, network_pool=str(inside))["spec"]
    backend = DockerBackend(DockerConfig())
    with pytest.raises(CreationError, match="route"):
        await backend.provision(await planned(backend, spec))


async def test_a_disk_that_can_hold_no_more_is_a_limit_that_is_named() -> None:
    import sandboxio

    config = DockerConfig(template=PYTHON, read_only=True)
    async with sandboxio.create(config, resources=Resources(disk_mb=2)) as sandbox:
        with pytest.raises(ResourceLimitExceeded) as caught:
            await sandbox.files.write("big", bytes(2 << 20))
        assert caught.value.limit == "disk_mb"
        await sandbox.files.write("small", b"x")
