"""Connecting to a sandbox of another process, giving one up, and who ends it then."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Mapping
from typing import Any

import anyio
import docker
import pytest
import sandboxio
from docker.errors import APIError
from sandboxio.errors import (
    CapabilityNotSupported,
    ConnectError,
    ExecutionTimeout,
    PolicyNotEnforced,
    ResourceLimitExceeded,
    SandboxGone,
)
from sandboxio.planning import Absent, Enforcement
from sandboxio.policy import NetworkPolicy, Resources
from sandboxio_docker import labels

from .other_owners import agent_of, gone, imitation, is_there, owned, remove
from .real_engine import inspect

pytestmark = [pytest.mark.docker, pytest.mark.anyio]

PYTHON = "docker://sandboxio-test/python"
MINIMAL = "docker://sandboxio-test/python-minimal?accept_vsock=1"
BUSYBOX = "docker://sandboxio-test/busybox?accept_vsock=1"
weakly = pytest.mark.filterwarnings("ignore::sandboxio.WeakEnforcementWarning")  # the residual that was accepted


@weakly
@pytest.mark.parametrize("target", [PYTHON, MINIMAL, BUSYBOX])
async def test_another_process_uses_a_sandbox_and_ends_it(target: str) -> None:
    async with owned(target, metadata={"tenant": "a"}) as owner:
        owner.tell('["sh", "-c", "echo theirs > /work/file"]')
        async with sandboxio.connect(
            target,
            owner.id,
            network=NetworkPolicy(),
            resources=Resources(cpu=1, memory_mb=512, disk_mb=1024, pids=256),
            require_isolation=sandboxio.IsolationTier.CONTAINER,
            metadata={"tenant": "a"},
        ) as sandbox:
            assert sandbox.cwd == "/work"
            assert (await sandbox.run("cat file; pwd; echo err >&2; exit 3")).stdout == "theirs\n/work\n"
            await sandbox.files.write("mine", b"\0\xff")
            assert await sandbox.files.read("mine") == b"\0\xff"
            async with sandbox.stream(["cat"]) as process:
                await process.send(b"there and back")
                await process.close_stdin()
                assert b"".join([chunk.data async for chunk in process]) == b"there and back"
            egress = sandbox._lease.plan["network.egress"]
            assert isinstance(egress, Enforcement)
            assert (egress.requested, egress.evidence, egress.strength) == ("deny", "attested", "interface")
            assert bool(egress.residuals) == (target != PYTHON)
        await gone(owner.id)


async def test_a_second_agent_is_closed_to_commands_and_filters_as_the_first_does() -> None:
    async with owned() as owner:
        sandbox = await sandboxio.connect(PYTHON, owner.id)
        report = agent_of(sandbox)
        assert report.pid != 1
        assert report.memory_closed
        assert (report.seccomp, report.vsock, report.io_uring, report.foreign) == ("on", *["refused"] * 3)
        assert (report.capabilities, report.no_new_privileges, report.interfaces) == (0, True, ("lo",))
        status = (await sandbox.run(["cat", "/proc/self/status"])).stdout
        fields = dict(line.split(":\t", 1) for line in status.splitlines())
        assert (fields["CapEff"], fields["NoNewPrivs"], fields["Seccomp"]) == ("0" * 16, "1", "2")
        await sandbox.kill()


async def test_a_timeout_of_a_second_agents_command_ends_the_sandbox() -> None:
    """TMO-04: the agent may be anybody's, so its word that a tree is gone is none."""
    async with owned() as owner:
        sandbox = await sandboxio.connect(PYTHON, owner.id)
        assert sandbox.info()["kill"] == "sandbox"
        with pytest.raises(ExecutionTimeout, match="only be ended with the whole sandbox"):
            await sandbox.run("(trap '' TERM; setsid sleep 51 & sleep 52) ; wait", timeout=0.5)
        await gone(owner.id, 3)
        with pytest.raises(SandboxGone):
            await sandbox.run(["true"])
        await sandbox.kill()


async def test_a_second_agents_commands_that_end_by_themselves_cost_nothing() -> None:
    async with owned() as owner:
        one, two = [await sandboxio.connect(PYTHON, owner.id) for _ in range(2)]
        assert (await one.run("sleep 50 > /dev/null 2>&1 &")).ok
        async with one.stream(["echo", "streamed"]) as process:
            assert [chunk.data async for chunk in process] == [b"streamed\n"]
        assert "sleep 50" in (await two.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).stdout
        assert owner.tell('["echo", "on"]') == [0, "on\n"]
        await one.detach()
        await two.kill()


async def test_a_sandbox_of_this_process_gets_a_second_handle() -> None:
    async with sandboxio.create(PYTHON) as owner:
        async with sandboxio.connect(PYTHON, owner.id) as sandbox:
            assert (await sandbox.run(["true"])).ok
            await sandbox.detach()  # which gives up the second handle, not what the first one owns
        assert (await owner.run(["true"])).ok
    await gone(owner.id)


@weakly
@pytest.mark.parametrize("target", [PYTHON, BUSYBOX], ids=["by its agent", "by its reaper"])
async def test_an_owner_that_dies_takes_the_sandbox_along_although_another_is_connected(target: str) -> None:
    async with owned(target) as owner:
        sandbox = await sandboxio.connect(target, owner.id)
        if target == PYTHON:
            os.kill(owner.reaper, signal.SIGKILL)
        async with sandbox.stream(["sleep", "50"]) as process:
            owner.kill()
            with pytest.raises(SandboxGone) as caught:
                await process.wait()
            assert caught.value.reason == "killed"
        await gone(owner.id, 5)
        await sandbox.kill()


async def test_code_that_kills_the_second_agent_loses_the_connection_and_not_the_sandbox() -> None:
    async with owned() as owner:
        sandbox = await sandboxio.connect(PYTHON, owner.id)
        pid = agent_of(sandbox).pid
        assert owner.tell(json.dumps(["sh", "-c", f"kill -9 {pid}; kill -9 1; true"]))[0] == 0
        with pytest.raises(ConnectError, match="the sandbox lives") as caught:
            await sandbox.run(["true"])
        assert "connect() again" in caught.value.hint
        again = await sandboxio.connect(PYTHON, owner.id)
        assert (await again.run(["true"])).ok
        await again.kill()
        await sandbox.kill()


async def test_code_that_stops_the_second_agent_can_not_keep_a_command_beyond_its_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SBX_TEARDOWN_GRACE", "3")
    async with owned() as owner:
        sandbox = await sandboxio.connect(PYTHON, owner.id)
        pid = agent_of(sandbox).pid
        began = time.monotonic()
        with pytest.raises(ExecutionTimeout, match="only be ended with the whole sandbox"):
            await sandbox.run(f"kill -STOP {pid}; sleep 60", timeout=1)
        assert time.monotonic() - began < 8
        await gone(owner.id, 3)
        await sandbox.kill()


@pytest.mark.parametrize("how", ["exits", "is killed"])
async def test_a_sandbox_that_was_given_up_outlives_its_owner(how: str) -> None:
    async with owned() as owner:
        assert owner.tell('["sh", "-c", "sleep 55 & echo kept > /work/file"]')[0] == 0
        assert owner.tell("detach") == "detached"
        if how == "exits":
            assert owner.process.stdin is not None
            owner.process.stdin.close()
            owner.process.wait()
            owner.process.stdin = None
        else:
            owner.kill()
        await anyio.sleep(1.5)  # thirty times what an owner's end takes to end a sandbox
        async with sandboxio.connect(PYTHON, owner.id) as sandbox:
            assert (await sandbox.run(["cat", "file"])).stdout == "kept\n"
            assert "sleep\x0055" in (await sandbox.run("cat /proc/[0-9]*/cmdline")).stdout
        await gone(owner.id)


@pytest.mark.parametrize("target", [PYTHON, MINIMAL])
async def test_the_lifetime_of_what_was_given_up_needs_neither_owner_nor_reaper(target: str) -> None:
    """TMO-06."""
    async with owned(target, timeout=8) as owner:
        began = time.monotonic()
        attack = "for s in $(seq 1 64); do kill -$s 1 2>/dev/null; done; (sleep 1; kill -STOP 1; kill -9 -1) & true"
        owner.tell(json.dumps(["sh", "-c", attack]))
        owner.tell("detach")
        owner.kill()
        os.kill(owner.reaper, signal.SIGKILL)
        await anyio.sleep(2)
        assert is_there(owner.id)
        await gone(owner.id, 8 - (time.monotonic() - began) + 2)
        assert time.monotonic() - began > 4


@weakly
async def test_the_exec_transport_refuses_to_give_up_a_sandbox_and_keeps_it() -> None:
    async with owned(BUSYBOX) as owner:
        said = owner.tell("detach")
        assert said["error"] == "CapabilityNotSupported"
        assert "python3" in said["hint"]
        assert owner.tell('["echo", "on"]') == [0, "on\n"]
        async with sandboxio.connect(BUSYBOX, owner.id) as sandbox:
            await sandbox.detach()  # it owns nothing
        assert is_there(owner.id)
        owner.kill()
        await gone(owner.id, 5)


@pytest.mark.parametrize("target", [MINIMAL, BUSYBOX])
async def test_a_hole_that_its_maker_accepted_is_accepted_again_or_refused(target: str) -> None:
    async with owned(target) as owner:
        with pytest.raises(PolicyNotEnforced, match="vsock") as caught:
            await sandboxio.connect("docker://", owner.id)
        assert "accept_vsock" in caught.value.hint
        assert inspect(owner.id)["ExecIDs"] is None
        assert owner.tell('["echo", "on"]') == [0, "on\n"]


async def test_a_connected_writer_is_held_to_the_disk_cap_although_the_owner_is_idle() -> None:
    async with owned(resources={"disk_mb": 20}) as owner:
        sandbox = await sandboxio.connect(PYTHON, owner.id)
        # Else its owner's reaper may be the first, and here somebody killed the sandbox.
        os.kill(owner.reaper, signal.SIGKILL)
        with pytest.raises(ResourceLimitExceeded) as caught:
            await sandbox.run("for i in 1 2 3 4 5 6; do head -c 9000000 /dev/zero > f$i; done; sleep 50")
        assert caught.value.limit == "disk_mb"
        await sandbox.kill()


async def paused(api: Any, container_id: str) -> None:
    """Have a container paused; on a busy machine runc may give up before the kernel has frozen it."""
    for _ in range(5):
        with contextlib.suppress(APIError):
            api.pause(container_id)
            return
        await anyio.sleep(0.5)
    api.pause(container_id)


async def test_a_paused_sandbox_is_refused_and_stays_paused() -> None:
    async with owned() as owner:
        with contextlib.closing(docker.APIClient(version="auto")) as client:
            api: Any = client
            await paused(api, owner.id)
            with pytest.raises(ConnectError, match="paused"):
                await sandboxio.connect(PYTHON, owner.id)
            assert inspect(owner.id)["State"]["Status"] == "paused"
            api.unpause(owner.id)


async def test_neither_a_prefix_nor_a_name_is_an_id() -> None:
    async with owned(metadata={"tenant": "a"}) as owner:
        for wrong in (owner.id[:12], owner.create_id, owner.id.upper(), "0" * 64):
            with pytest.raises(ConnectError, match="no sandbox of sandboxio"):
                await sandboxio.connect(PYTHON, wrong)
        for metadata in ({"tenant": "b"}, {"tenant": "a", "more": ""}):
            with pytest.raises(ConnectError, match="other metadata"):
                await sandboxio.connect(PYTHON, owner.id, metadata=metadata)
        assert inspect(owner.id)["ExecIDs"] is None


IMITATIONS: dict[str, tuple[Mapping[str, Any], Mapping[str, str]]] = {
    "capabilities": ({"CapDrop": []}, {}),
    "a mount": ({"Binds": ["/proc:/host:ro"]}, {}),
    "no seccomp": ({"SecurityOpt": ["no-new-privileges:true", "seccomp=unconfined"]}, {}),
    "the host's network": ({"NetworkMode": "host"}, {}),
    "no memory cap": ({"Memory": 0, "MemorySwap": 0}, {}),
    "swap": ({"MemorySwap": 1024 * 2**20}, {}),
    "no process ceiling": ({"PidsLimit": 0}, {}),
    "no disk cap": ({"Ulimits": []}, {}),
    "no end": ({}, {labels.EXPIRES: "never"}),
    "an end far away": ({}, {labels.EXPIRES: "99999999999"}),
    "another's name": ({}, {labels.CREATE_ID: "sbx-other"}),
    "an end that was": ({}, {labels.EXPIRES: "1"}),
}


@pytest.mark.parametrize("what", IMITATIONS)
async def test_a_container_that_imitates_our_labels_is_refused_untouched(what: str) -> None:
    with imitation(*IMITATIONS[what], ["sleep", "60"]) as made:
        with pytest.raises((ConnectError, PolicyNotEnforced)) as caught:
            await sandboxio.connect("docker://", made)
        assert caught.value.hint
        assert inspect(made)["ExecIDs"] is None
        assert is_there(made)


@weakly
@pytest.mark.parametrize(("program", "evidence"), [(["sleep", "60"], "documented"), (["sleep", "3600"], "unverified")])
async def test_what_no_first_process_ends_is_said_so(program: list[str], evidence: str) -> None:
    """All that the engine shows can be imitated; what is claimed of the rest is no more than what it shows."""
    with imitation({}, {}, program) as made:
        async with sandboxio.connect("docker://", made) as sandbox:
            items = {item.policy: item for item in sandbox.policy}
            lifetime = items["lifetime"]
            assert isinstance(lifetime, Enforcement)
            assert lifetime.evidence == evidence
            assert isinstance(items["network.allow"], Absent)
            assert isinstance(items["secrets"], Absent)
        await gone(made)


async def test_detach_is_refused_while_no_reaper_can_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from sandboxio_docker.reaper import Reaper, ReaperUnavailable

    def fail(reaper: Reaper, name: str) -> None:
        raise ReaperUnavailable("no process can be had")

    async with sandboxio.create(PYTHON) as sandbox:
        monkeypatch.setattr(Reaper, "detach", fail)
        with pytest.raises(sandboxio.BackendUnavailable, match="reaper"):
            await sandbox.detach()
        monkeypatch.undo()
        assert (await sandbox.run(["true"])).ok
    await gone(sandbox.id)


async def test_a_sandbox_that_ended_can_not_be_given_up() -> None:
    sandbox = await sandboxio.create(PYTHON)
    remove(sandbox.id)
    with pytest.raises((SandboxGone, CapabilityNotSupported)):
        await sandbox.detach()
    await sandbox.kill()
