"""A runtime that calls itself gVisor has to prove it, and its caps are read back from the host."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sandboxio.agent.report import BootReport
from sandboxio.agent.session import AgentUnfit
from sandboxio.errors import ConfigurationError, PolicyNotEnforced
from sandboxio_docker import gvisor
from sandboxio_docker.config import DockerConfig
from sandboxio_docker.endpoint import Endpoint
from sandboxio_docker.gvisor import confirm, drops_caps
from sandboxio_docker.planning import make_plan
from sandboxio_docker.session import check_report

from .scripted_engine import CONTAINER
from .specs import probed, spec_of
from .test_hardening import answer_for

LOCAL, REMOTE = Endpoint("unix:///run/docker.sock"), Endpoint("tcp://198.51.100.1:2375")
REPORT = BootReport(
    python="3.12.0",
    machine="x86_64",
    pid=1,
    uid=0,
    gid=0,
    uid_map="0 0 4294967295",
    gid_map="0 0 4294967295",
    capabilities=0,
    bounding=0,
    no_new_privileges=True,
    read_only=False,
    kernel_log="<6>[   0.000000] Starting gVisor...\n<6>[   0.176656] Reticulating splines...\n",
    has_ctypes=True,
    subreaper=True,
    dumpable="prctl",
    memory_closed=True,
    descriptors_closed=True,
    seccomp="on",
    vsock="refused",
    io_uring="refused",
    foreign="refused",
    probe_notes="",
    interfaces=("lo",),
    cwd="/work",
    workdir="present",
    has_shell=True,
    hosts="present",
    oom_score=True,
    counters=(),
)
PID = 4711
V1 = {
    "memory/memory.limit_in_bytes": str(512 * 2**20),
    "memory/memory.memsw.limit_in_bytes": str(512 * 2**20),
    "pids/pids.max": "256",
    "cpu/cpu.cfs_quota_us": "100000",
    "cpu/cpu.cfs_period_us": "100000",
}
V2 = {
    "memory.max": str(512 * 2**20),
    "memory.swap.max": "0",
    "pids.max": "256",
    "cpu.max": "100000 100000",
}


def running() -> dict[str, Any]:
    answer = answer_for(DockerConfig(runtime="runsc"), "sbx-1")
    answer["State"]["Pid"] = PID
    return answer


class Host:
    """Files as the kernel of a host with control groups of one version has them."""

    def __init__(self, root: Path, version: int) -> None:
        self.group = f"docker/{CONTAINER}" if version == 1 else f"system.slice/docker-{CONTAINER}.scope"
        self.root, self.version = root, version
        controllers = ["memory", "pids", "cpu"] if version == 1 else [""]
        lines = [f"{number}:{name}:/{self.group}" for number, name in enumerate(controllers)]
        self.write(root / "proc" / str(PID) / "cgroup", "\n".join(lines) + "\n")
        for name, value in (V1 if version == 1 else V2).items():
            self.set(name, value)

    def set(self, name: str, value: str) -> None:
        controller, _, file = name.rpartition("/")
        self.write(self.root / "cgroup" / controller / self.group / file, value)

    def write(self, file: Path, text: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def host(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setattr(gvisor, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(gvisor, "PROC", tmp_path / "proc")
    return Host(tmp_path, request.param)


def test_it_is_believed_when_inside_and_host_agree(host: Host) -> None:
    confirm(running(), REPORT, LOCAL)


def test_runc_has_nothing_to_prove() -> None:
    confirm(answer_for(DockerConfig(), "sbx-1"), replace(REPORT, kernel_log=""), REMOTE)
    confirm(answer_for(DockerConfig(runtime="runc"), "sbx-1"), replace(REPORT, kernel_log=""), REMOTE)


@pytest.mark.parametrize("log", ["", "[    0.000000] Linux version 6.1.0", "Starting"])
def test_a_kernel_that_does_not_say_so_is_not_gvisor(host: Host, log: str) -> None:
    with pytest.raises(PolicyNotEnforced, match="not gVisor"):
        confirm(running(), replace(REPORT, kernel_log=log), LOCAL)


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("memory/memory.limit_in_bytes", "9223372036854771712", "memory"),
        ("memory/memory.memsw.limit_in_bytes", str(1024 * 2**20), "memory.swap"),
        ("pids/pids.max", "max", "pids"),
        ("pids/pids.max", "257", "pids"),
        ("cpu/cpu.cfs_quota_us", "-1", "cpu"),
        ("memory.max", "max", "memory"),
        ("memory.swap.max", "max", "memory.swap"),
        ("pids.max", "max", "pids"),
        ("cpu.max", "max 100000", "cpu"),
        ("cpu.max", "200000 100000", "cpu"),
    ],
)
def test_a_cap_that_the_host_does_not_have_convicts(host: Host, name: str, value: str, named: str) -> None:
    if ("/" in name) != (host.version == 1):
        return
    host.set(name, value)
    with pytest.raises(PolicyNotEnforced, match=named) as caught:
        confirm(running(), REPORT, LOCAL)
    assert "runsc" in caught.value.hint


def test_a_process_outside_the_containers_group_convicts(host: Host) -> None:
    host.write(host.root / "proc" / str(PID) / "cgroup", "1:memory:/\n2:pids:/\n3:cpu:/\n0::/\n")
    with pytest.raises(PolicyNotEnforced, match="memory"):
        confirm(running(), REPORT, LOCAL)


def test_a_process_that_is_not_there_convicts(host: Host) -> None:
    (host.root / "proc" / str(PID) / "cgroup").unlink()
    with pytest.raises(PolicyNotEnforced, match="memory"):
        confirm(running(), REPORT, LOCAL)


def test_a_release_that_lets_commands_speak_in_the_agents_name_is_refused(host: Host) -> None:
    with pytest.raises(PolicyNotEnforced, match="descriptors"):
        confirm(running(), replace(REPORT, descriptors_closed=False), LOCAL)


@pytest.mark.parametrize("hole", ["memory_closed", "descriptors_closed"])
def test_an_agent_that_is_open_to_commands_is_unfit(hole: str) -> None:
    seen: dict[str, Any] = {hole: False}
    with pytest.raises(AgentUnfit):
        check_report(replace(REPORT, **seen), make_plan(spec_of(), probed()))


def test_elsewhere_than_on_the_engines_machine_it_is_refused() -> None:
    with pytest.raises(PolicyNotEnforced, match="own machine"):
        confirm(running(), REPORT, REMOTE)


@pytest.mark.parametrize(
    ("arguments", "drops"),
    [
        (("--ignore-cgroups",), True),
        (("-ignore-cgroups",), True),
        (("--platform=ptrace", "--ignore-cgroups=true"), True),
        (("--ignore-cgroups=false",), False),
        (("--platform=systrap",), False),
        ((), False),
    ],
)
def test_the_option_that_drops_caps_is_recognised(arguments: tuple[str, ...], drops: bool) -> None:
    assert drops_caps(arguments) is drops


@pytest.mark.parametrize(
    ("config", "seen", "named"),
    [
        ({}, {"capabilities": 1}, "capabilities"),
        ({}, {"bounding": 1 << 21}, "capabilities"),
        ({}, {"no_new_privileges": False}, "privileges"),
        ({"capabilities": ("CHOWN",)}, {"capabilities": 0, "bounding": 0}, "not 0x1"),
        ({"capabilities": ("CHOWN",)}, {"capabilities": 3, "bounding": 3}, "not 0x1"),
        ({"user": "1000"}, {}, "user id 0"),
        ({"user": "1000"}, {"uid": 1001}, "user id 1001"),
        ({"user": "agent"}, {"uid": 0}, "user id 0"),
        ({"read_only": True}, {"read_only": False}, "written"),
        ({"runtime": "runsc"}, {"has_ctypes": False}, "ctypes"),
    ],
)
def test_what_does_not_hold_inside_convicts(config: dict[str, Any], seen: dict[str, Any], named: str) -> None:
    plan = make_plan(spec_of(**config), probed())
    with pytest.raises(PolicyNotEnforced, match=named):
        check_report(replace(REPORT, **seen), plan)


@pytest.mark.parametrize(
    ("config", "seen"),
    [
        ({}, {}),
        ({"capabilities": ("CHOWN",)}, {"capabilities": 1, "bounding": 1}),
        ({"user": "1000:1000"}, {"uid": 1000}),
        ({"user": "agent"}, {"uid": 1000}),
        ({"user": "root"}, {}),
        ({"read_only": True}, {"read_only": True}),
    ],
)
def test_what_holds_inside_is_believed(config: dict[str, Any], seen: dict[str, Any]) -> None:
    check_report(replace(REPORT, **seen), make_plan(spec_of(**config), probed()))


def test_a_working_directory_that_the_user_cannot_write_to_is_named() -> None:
    plan = make_plan(spec_of(read_only=True, user="1000"), probed())
    with pytest.raises(ConfigurationError, match="/work"):
        check_report(replace(REPORT, read_only=True, uid=1000, workdir="not writable"), plan)
