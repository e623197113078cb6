"""Connecting where code has changed what a connection starts with, and connections that are given up half-way."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread
import docker
import pytest
import sandboxio
from sandboxio import ConnectError, ExecutionTimeout
from sandboxio_contract.ground.docker import DockerGround
from sandboxio_contract.ground.wire import Call, Place
from sandboxio_docker import session

from .other_owners import gone, imitation, is_there, owned

pytestmark = [
    pytest.mark.docker,
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::sandboxio.WeakEnforcementWarning"),  # accept_vsock, for busybox
]

PYTHON = "docker://sandboxio-test/python"
BUSYBOX = "docker://sandboxio-test/busybox?accept_vsock=1"
ANY = "docker://?accept_vsock=1"
REPLACE = """
set -e
python=$(readlink -f "$(command -v python3)")
place=$(command -v python3)
rm "$place"
printf '%s\\n' "$1" | sed "s|@PYTHON@|$python|" > "$place"
chmod 755 "$place"
"""
FORGED = """#!/bin/sh
lie='from sandboxio_agent import supervisor
supervisor.Supervisor.kill_all = lambda self: True'
end='main(t,lambda:h+s+t,f>0)'
exec @PYTHON@ -I -S -c "${4%"$end"}$lie
$end"
"""
"""An agent that says of every tree that it is gone."""


def replaced(program: str) -> str:
    """Return the order to another owner that puts ``program`` in python3's place."""
    return json.dumps(["sh", "-c", REPLACE, "sh", program])


@pytest.mark.parametrize(
    "program",
    ["#!/bin/tampered", "#!/bin/sh\nexit 0", "#!/bin/sh\nsleep 100", "#!/bin/sh\necho no frame; sleep 100"],
    ids=["does not run", "ends at once", "says nothing", "says something else"],
)
async def test_a_sandbox_whose_python_was_replaced_is_an_error_and_lives_on(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TRD-01, CON-01: whoever connects is told, and what its owner has there goes on."""
    monkeypatch.setattr(session, "BOOT_TIMEOUT", 1.5)
    async with owned() as owner:
        assert owner.tell(replaced(program))[0] == 0
        with pytest.raises(ConnectError, match="no second agent") as caught:
            await sandboxio.connect(PYTHON, owner.id)
        assert "create another" in caught.value.hint
        assert is_there(owner.id)
        assert owner.tell('["echo", "on"]') == [0, "on\n"]


async def test_an_agent_that_lies_of_an_end_is_not_believed() -> None:
    """TMO-04: over a connection everything ends with the sandbox, whatever the agent says of itself."""
    async with owned() as owner:
        assert owner.tell(replaced(FORGED))[0] == 0
        sandbox = await sandboxio.connect(PYTHON, owner.id)
        assert sandbox.info()["kill"] == "sandbox"
        with pytest.raises(ExecutionTimeout, match="only be ended with the whole sandbox"):
            await sandbox.run(["sleep", "50"], timeout=0.5)
        await gone(owner.id, 3)
        await sandbox.kill()


async def test_what_a_connection_over_exec_does_it_does_as_the_images_user() -> None:
    """A command may have put anything on the path: as root it could do what the image's user can't."""
    with imitation({}, {}, ["sleep", "60"], image="sandboxio-test/user") as made:
        async with sandboxio.connect(ANY, made) as sandbox:
            assert sandbox.info()["transport"] == "exec"
            assert sandbox.cwd == "/"  # where there was no other, and this user may make none
            assert (await sandbox.run(["ls", "/work"])).exit_code != 0
            await sandbox.files.write("/tmp/written/mine", b"1")
            await sandbox.files.mkdir("/tmp/made")
            owners = await sandbox.run("stat -c %u /tmp/written /tmp/written/mine /tmp/made; id -u")
            assert owners.stdout.split() == ["1000"] * 4
            with pytest.raises(sandboxio.SandboxError):
                await sandbox.files.mkdir("/etc/made")


def observed(call: Call) -> bool:
    return call.method == "GET" and call.path.endswith("/json") and call.path.startswith("/containers/")


def watched(call: Call) -> bool:
    return call.path.endswith("/wait")


def made(call: Call) -> bool:
    return call.path.startswith("/containers/") and call.path.endswith("/exec")


def started(call: Call) -> bool:
    return call.path.startswith("/exec/") and call.path.endswith("/start")


def looked_at(call: Call) -> bool:
    return call.path.startswith("/exec/") and call.path.endswith("/json")


MOMENTS: dict[str, tuple[Callable[[Call], bool], ...]] = {
    PYTHON: (observed, watched, made, started),
    BUSYBOX: (observed, watched, made, started, looked_at),
}


@pytest.mark.parametrize("target", MOMENTS, ids=["agent", "exec"])
async def test_a_connect_that_is_given_up_leaves_nothing_running_and_harms_nothing(target: str) -> None:
    async with owned(target) as owner:
        before = await anyio.to_thread.run_sync(processes, owner.id)
        for matches in MOMENTS[target]:
            for place in ("before send", "after commit"):
                await given_up(target, owner.id, matches, place)
                with anyio.fail_after(20):
                    while await anyio.to_thread.run_sync(processes, owner.id) != before:
                        await anyio.sleep(0.05)
        assert owner.tell('["echo", "on"]') == [0, "on\n"]
        async with sandboxio.connect(target, owner.id) as sandbox:
            assert (await sandbox.run(["echo", "still"])).stdout == "still\n"


async def given_up(target: str, sandbox_id: str, matches: Callable[[Call], bool], place: Place) -> None:
    """Cancel a connect when one of its requests is on its way."""
    with contextlib.closing(DockerGround(target)) as ground, ground.spied() as spied:
        wire: Any = spied.wire
        gate = wire.gate(matches, place)

        async def connect() -> None:
            await sandboxio.connect(spied.dsn, sandbox_id)

        async with anyio.create_task_group() as group:
            group.start_soon(connect)
            assert await anyio.to_thread.run_sync(gate.reached.wait, 10)
            group.cancel_scope.cancel()
        gate.open()


async def test_a_connect_that_is_given_up_at_any_time_leaves_nothing_running() -> None:
    async with owned() as owner:
        before = await anyio.to_thread.run_sync(processes, owner.id)
        for hundredths in range(0, 25, 4):
            connected: list[sandboxio.Sandbox] = []
            with anyio.move_on_after(hundredths / 100):
                connected.append(await sandboxio.connect(PYTHON, owner.id))
            for one in connected:
                await one.detach()  # not given up: a sandbox that is still attached is its caller's to end
            with anyio.fail_after(20):
                while await anyio.to_thread.run_sync(processes, owner.id) != before:
                    await anyio.sleep(0.05)
        assert owner.tell('["echo", "on"]') == [0, "on\n"]


def processes(sandbox_id: str) -> list[str]:
    """Return the programs that run in a container."""
    with contextlib.closing(docker.APIClient(version="auto")) as api:
        client: Any = api
        return sorted(line[-1][:60] for line in client.top(sandbox_id)["Processes"])
