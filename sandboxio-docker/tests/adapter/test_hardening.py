"""What a `DockerConfig` changes of a container: asked for in types, sent, labelled, read back, in the receipts."""

from typing import Any

import anyio
import pytest
from sandboxio import creation
from sandboxio.calls import PortCalls
from sandboxio.coverage import check_plan
from sandboxio.errors import CapabilityNotSupported, ConfigurationError, PolicyNotEnforced
from sandboxio.isolation import IsolationTier
from sandboxio.planning import Enforcement, Plan
from sandboxio.policy import NetworkPolicy, Resources
from sandboxio.redaction import Redactor
from sandboxio.target import parse_target, resolve_config
from sandboxio_docker import facts as facts_module
from sandboxio_docker.backend import DockerBackend
from sandboxio_docker.config import CAPABILITIES, DockerConfig
from sandboxio_docker.hardening import LABEL, Hardening, tmpfs_mebibytes
from sandboxio_docker.info import BASELINE
from sandboxio_docker.planning import make_plan

from .scripted_engine import CONTAINER, INFO, Asked, ScriptedEngine
from .specs import probed, spec_of
from .test_odd_answers import inspected

RUNTIMES = {"runc": (), "runsc": ("--platform=ptrace",), "runsc-open": ("--network=none", "--ignore-cgroups")}
TMPFS = "rw,nosuid,nodev,exec,mode=1777,size=131072k"


def container_of(plan: Plan) -> Any:
    return plan.parameters["container"]


def item(plan: Plan, policy: str) -> Enforcement:
    found = plan[policy]
    assert isinstance(found, Enforcement)
    return found


def test_an_unknown_field_is_refused_naming_the_known_ones() -> None:
    unknown: dict[str, Any] = {"readonly": True}
    with pytest.raises(ConfigurationError, match="readonly") as caught:
        DockerConfig(**unknown)
    assert "read_only" in caught.value.hint
    with pytest.raises(ConfigurationError, match="readonly") as caught:
        resolve_config(parse_target("docker://image?readonly=1"), DockerConfig, None)
    assert "read_only" in caught.value.hint


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("capabilities", ("SYS_ADMIN",), "CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID"),
        ("capabilities", ("ALL",), "CHOWN"),
        ("capabilities", ("chown",), "CHOWN"),
        ("capabilities", ("CAP_CHOWN",), "CHOWN"),
        ("capabilities", "CHOWN", "tuple"),
        ("capabilities", ("SETUID", "SETGID"), "KILL"),
        ("user", "", "uid:gid"),
        ("user", "a b", "uid:gid"),
        ("user", "a:b:c", "uid:gid"),
        ("user", str(2**31), str(2**31 - 1)),
        ("user", 1000, "string"),
        ("read_only", "yes", "bool"),
        ("runtime", "", "letters"),
        ("runtime", "../runsc", "letters"),
        ("network_pool", "10.0.0.1/8", "host bits"),
        ("network_pool", "10.0.0.0/30", "/29"),
        ("network_pool", "fd00::/48", "IPv4"),
        ("network_pool", "8.8.0.0/16", "private"),
        ("network_pool", "0.0.0.0/0", "private"),
        ("network_pool", "127.0.0.0/16", "private"),
        ("network_pool", "169.254.0.0/16", "private"),
    ],
)
def test_a_value_that_means_nothing_or_too_much_is_refused(field: str, value: Any, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        DockerConfig(**{field: value})


def test_capabilities_of_somebody_who_has_none_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="only root"):
        DockerConfig(capabilities=("CHOWN",), user="1000")
    assert DockerConfig(capabilities=("CHOWN",), user="root").capabilities == ("CHOWN",)
    image = {"id": "sha256:1", "workdir": "", "user": "agent", "volumes": ()}
    with pytest.raises(ConfigurationError, match="agent") as caught:
        make_plan(spec_of(capabilities=("CHOWN",)), probed(image=image))
    assert 'user="root"' in caught.value.hint
    make_plan(spec_of(capabilities=("CHOWN",), user="root"), probed(image=image))


def test_scalar_fields_are_parameters_of_the_dsn_and_capabilities_are_not() -> None:
    dsn = "docker://python:3.12-slim?read_only=1&user=1000:1000&runtime=runsc&network_pool=10.9.0.0/16"
    assert resolve_config(parse_target(dsn), DockerConfig, None) == DockerConfig(
        template="python:3.12-slim", read_only=True, user="1000:1000", runtime="runsc", network_pool="10.9.0.0/16"
    )
    with pytest.raises(ConfigurationError, match="capabilities"):
        resolve_config(parse_target("docker://python?capabilities=CHOWN"), DockerConfig, None)


def test_only_what_is_given_back_is_sent() -> None:
    assert "CapAdd" not in container_of(make_plan(spec_of(), probed()))["HostConfig"]
    plan = make_plan(spec_of(capabilities=("KILL", "CHOWN", "KILL")), probed())
    host = container_of(plan)["HostConfig"]
    assert (host["CapDrop"], host["CapAdd"]) == (["ALL"], ["CHOWN", "KILL"])
    assert "all capabilities dropped but CHOWN, KILL" in item(plan, "isolation").mechanism
    assert Hardening(tuple(CAPABILITIES)).mask == 0xFB


def test_a_user_of_its_own_gets_a_working_directory_that_it_can_write_to() -> None:
    plan = make_plan(spec_of(user="1000:1000"), probed())
    container = container_of(plan)
    assert container["User"] == "1000:1000"
    assert not container["NetworkDisabled"]
    assert plan.parameters["make_workdir"] is True
    assert "user 1000:1000" in item(plan, "isolation").mechanism
    assert make_plan(spec_of(user="root"), probed()).parameters["make_workdir"] is False
    assert make_plan(spec_of(), probed()).parameters["make_workdir"] is False
    own = {"id": "sha256:1", "workdir": "/app", "user": "agent", "volumes": ()}
    assert make_plan(spec_of(), probed(image=own)).parameters["make_workdir"] is False
    assert make_plan(spec_of(), probed(image={**own, "workdir": ""})).parameters["make_workdir"] is True


def test_a_read_only_root_has_two_places_that_hold_the_disk_cap_together() -> None:
    image = {"id": "sha256:1", "workdir": "/app", "user": "", "volumes": ()}
    plan = make_plan(spec_of(read_only=True), probed(image=image))
    host = container_of(plan)["HostConfig"]
    assert host["ReadonlyRootfs"] is True
    assert host["Tmpfs"] == {"/tmp": TMPFS, "/work": TMPFS}
    assert plan.cwd == "/work"
    assert plan.parameters["workdir"] == "/work"
    assert not container_of(plan)["NetworkDisabled"]
    assert plan.parameters["watch_disk_bytes"] is None
    disk = item(plan, "disk")
    assert (disk.requested, disk.enforced_by) == (256, "provider")
    assert "memory" in disk.residuals[0]
    assert "read-only root" in item(plan, "isolation").mechanism


def test_what_is_held_in_memory_is_at_most_half_of_it() -> None:
    with pytest.raises(ConfigurationError, match="half the memory") as caught:
        make_plan(spec_of(read_only=True, resources=Resources(disk_mb=300)), probed())
    assert "disk_mb=256" in caught.value.hint
    assert "memory_mb=600" in caught.value.hint
    plan = make_plan(spec_of(read_only=True, resources=Resources(disk_mb=1)), probed())
    assert "size=512k" in container_of(plan)["HostConfig"]["Tmpfs"]["/work"]
    check_plan(plan, plan.spec)
    assert item(make_plan(spec_of(resources=Resources(disk_mb=300)), probed()), "disk").requested == 300


def test_a_runtime_that_the_engine_does_not_have_is_refused_naming_those_it_has() -> None:
    with pytest.raises(ConfigurationError, match="runc, runsc, runsc-open"):
        make_plan(spec_of(runtime="kata"), probed(runtimes=RUNTIMES))
    make_plan(spec_of(runtime="kata"), BASELINE)


def test_a_runtime_that_drops_caps_is_refused() -> None:
    with pytest.raises(CapabilityNotSupported, match="ignore-cgroups"):
        make_plan(spec_of(runtime="runsc-open"), probed(runtimes=RUNTIMES))


@pytest.mark.parametrize("runtime", ["runc", None])
def test_runc_by_its_name_is_a_container(runtime: str | None) -> None:
    plan = make_plan(spec_of(runtime=runtime), probed(runtimes=RUNTIMES))
    assert plan.tier is IsolationTier.CONTAINER
    assert container_of(plan)["HostConfig"]["Runtime"] == (runtime or "")


def test_gvisor_is_a_tier_of_its_own_with_a_dated_source() -> None:
    plan = make_plan(spec_of(runtime="runsc"), probed(runtimes=RUNTIMES))
    assert plan.tier is IsolationTier.GVISOR
    assert container_of(plan)["HostConfig"]["Runtime"] == "runsc"
    isolation = item(plan, "isolation")
    assert (isolation.requested, isolation.enforced_by) == ("gvisor", "runtime")
    assert "gvisor.dev" in isolation.source
    assert any("not equivalent to a virtual machine" in residual for residual in isolation.residuals)
    check_plan(plan, plan.spec)


def test_without_an_agent_nothing_can_show_that_it_is_gvisor() -> None:
    unfit = facts_module.unfit(probed(runtimes=RUNTIMES), "no python3")
    with pytest.raises(CapabilityNotSupported, match="gVisor"):
        make_plan(spec_of(runtime="runsc", accept_vsock=True), unfit)


def test_a_pool_shows_in_the_receipt() -> None:
    allow = NetworkPolicy(egress="allow")
    plan = make_plan(spec_of(network=allow, network_pool="10.9.0.0/16"), probed())
    assert "a /29 of 10.9.0.0/16" in item(plan, "network.egress").mechanism
    assert plan.parameters["network_pool"] == "10.9.0.0/16"


EVERYTHING: dict[str, Any] = {
    "capabilities": ("CHOWN", "KILL"),
    "user": "root",
    "read_only": True,
    "runtime": "runsc",
}


def test_the_label_tells_whoever_connects_what_was_asked_for() -> None:
    chosen = Hardening.of(DockerConfig(**EVERYTHING))
    assert Hardening.from_labels(chosen.label()) == chosen
    assert Hardening().label() == {}
    assert Hardening.from_labels({}) == Hardening()
    for unreadable in ("", "[]", "{", '{"new": 1}', '{"capabilities": 1}'):
        assert Hardening.from_labels({LABEL: unreadable}) is None


@pytest.mark.parametrize(
    ("places", "size"),
    [
        ({"/tmp": "rw,size=512k", "/work": "size=1536k"}, 2),
        ({"/tmp": "size=1048576"}, 1),
        ({"/tmp": "size=512k"}, 0.5),
        ({"/tmp": "rw"}, None),
        ({"/tmp": "size=0"}, None),
        ({"/tmp": "size=50%"}, None),
        ({"/tmp": "size=1k,size=9k"}, None),
        ({}, 0),
    ],
)
def test_the_size_of_memory_file_systems_is_read_exactly(places: dict[str, str], size: float | None) -> None:
    assert tmpfs_mebibytes(places) == size


def answer_for(chosen: DockerConfig, name: str, **host: Any) -> dict[str, Any]:
    """Return how an honest engine describes such a container, but for ``host``."""
    asked = Hardening.of(chosen)
    answer = inspected(name)
    answer["Config"]["Labels"] |= asked.label()
    answer["Config"]["User"] = asked.user
    shaped = {**asked.host_config(256), "Runtime": asked.runtime or "runc"}
    answer["HostConfig"] |= {**shaped, **{key: value for key, value in host.items() if key != "User"}}
    if "User" in host:
        answer["Config"]["User"] = host["User"]
    return answer


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("config", "host"),
    [
        ({"capabilities": ("CHOWN",)}, {"CapAdd": None}),
        ({"capabilities": ("CHOWN",)}, {"CapAdd": ["CHOWN", "SYS_ADMIN"]}),
        ({"capabilities": ("CHOWN",)}, {"CapDrop": None}),
        ({"user": "1000"}, {"User": ""}),
        ({"user": "1000"}, {"User": "0"}),
        ({"read_only": True}, {"ReadonlyRootfs": False}),
        ({"read_only": True}, {"Tmpfs": {"/tmp": TMPFS, "/work": TMPFS, "/etc": TMPFS}}),
        ({"runtime": "runsc"}, {"Runtime": "runc"}),
        ({"runtime": "runsc"}, {"Runtime": "runsc-open"}),
        ({"runtime": "crun"}, {"Runtime": "runc"}),
        ({}, {"Tmpfs": {"/tmp": TMPFS}}),
        ({}, {"ReadonlyRootfs": True}),
        ({}, {"CapAdd": ["CAP_CHOWN"]}),
    ],
)
async def test_an_engine_that_does_something_else_is_convicted(
    backend: DockerBackend, engine: ScriptedEngine, config: dict[str, Any], host: dict[str, Any]
) -> None:
    spec = spec_of(**config)
    plan = make_plan(spec, probed(runtimes={**RUNTIMES, "crun": ()}))
    assert isinstance(spec.config, DockerConfig)
    engine.answer("GET", "/json", 200, answer_for(spec.config, plan.create_id))
    honest = await backend.observe(CONTAINER)
    assert honest is not None
    assert honest.applied["isolation"] == item(plan, "isolation").requested
    engine.answer("GET", "/json", 200, answer_for(spec.config, plan.create_id, **host))
    seen = await backend.observe(CONTAINER)
    assert seen is not None
    assert "weakened by" in str(seen.applied["isolation"])


@pytest.mark.anyio
async def test_capabilities_are_recognised_with_the_prefix_that_newer_engines_add(
    backend: DockerBackend, engine: ScriptedEngine
) -> None:
    config = DockerConfig(capabilities=("CHOWN", "KILL"))
    engine.answer("GET", "/json", 200, answer_for(config, "sbx-1", CapAdd=["CAP_KILL", "CAP_CHOWN"]))
    seen = await backend.observe(CONTAINER)
    assert seen is not None
    assert seen.applied["isolation"] == "container"


@pytest.mark.anyio
async def test_a_size_that_the_engine_left_out_is_no_disk_cap(backend: DockerBackend, engine: ScriptedEngine) -> None:
    answer = answer_for(DockerConfig(read_only=True), "sbx-1")
    engine.answer("GET", "/json", 200, answer)
    seen = await backend.observe(CONTAINER)
    assert seen is not None
    assert seen.applied["disk"] == 256
    answer["HostConfig"]["Tmpfs"]["/tmp"] = "rw,mode=1777"
    seen = await backend.observe(CONTAINER)
    assert seen is not None
    assert seen.applied["disk"] is None


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("config", "ignored"),
    [
        ({"read_only": True}, {"ReadonlyRootfs": False, "Tmpfs": None}),
        ({"user": "1000"}, {"User": ""}),
        ({"capabilities": ("CHOWN",)}, {"CapAdd": ["ALL"]}),
        ({"runtime": "runsc"}, {"Runtime": "runc"}),
    ],
)
async def test_what_an_engine_ignores_destroys_the_container_before_it_is_started(
    backend: DockerBackend, engine: ScriptedEngine, config: dict[str, Any], ignored: dict[str, Any]
) -> None:
    spec = spec_of(**config)
    assert isinstance(spec.config, DockerConfig)
    answer = answer_for(spec.config, spec.create_id, **ignored)
    answer["Config"]["Labels"] = {
        name: value for name, value in answer["Config"]["Labels"].items() if "meta" not in name
    }

    def look(_: Asked) -> tuple[int, Any]:
        return (404, {"message": "No such container"}) if engine.asked("DELETE") else (200, answer)

    engine.do("GET", "/containers/.*/json$", look)
    engine.answer("GET", "/containers/json", 200, [])
    engine.answer("GET", "/info", 200, {**INFO, "Runtimes": {"runc": {}, "runsc": {}}})
    with pytest.raises(PolicyNotEnforced, match=r"weakened by|disk="), anyio.fail_after(20):
        await creation.create(PortCalls(backend, Redactor(())), spec, lambda _: None)
    assert [asked.path for asked in engine.asked("DELETE")] == [f"/containers/{CONTAINER}"]
    assert not engine.asked("POST", "/start")
