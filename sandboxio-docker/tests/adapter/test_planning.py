"""Any spec gives a complete plan or a mapped error."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sandboxio.coverage import check_plan
from sandboxio.errors import CapabilityNotSupported, ConfigurationError, SandboxError
from sandboxio.planning import Absent, Enforcement, Plan
from sandboxio.policy import NetworkPolicy, Resources
from sandboxio.port import Facts
from sandboxio_docker import facts as facts_module
from sandboxio_docker.config import CAPABILITIES
from sandboxio_docker.info import BASELINE, DEFAULT_TEMPLATE, INFO
from sandboxio_docker.planning import make_plan

from .specs import probed, spec_of

resources = st.builds(
    Resources,
    cpu=st.none() | st.floats(1e-6, 200, allow_nan=False) | st.integers(1, 300).map(lambda cents: cents / 100),
    memory_mb=st.none() | st.integers(1, 100_000),
    disk_mb=st.none() | st.integers(1, 1024 * 1024),
    pids=st.none() | st.integers(1, 32_768),
    gpu=st.none() | st.just("a100"),
)
policies = st.one_of(
    st.builds(
        NetworkPolicy,
        egress=st.sampled_from(["deny", "allow", "learn"]),
        ingress_ports=st.just(()) | st.lists(st.integers(1, 65_535), max_size=2).map(tuple),
        min_strength=st.sampled_from(["interface", "address", "sni", "dns"]),
    ),
    st.just(NetworkPolicy(allow=("api.example.com",))),
)
metadata = st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=50), max_size=4)
facts = st.one_of(
    st.just(BASELINE),
    st.builds(
        probed,
        disk_quota=st.booleans(),
        seccomp=st.booleans(),
        runtime=st.sampled_from(["", "runc", None]),
        runtimes=st.sampled_from([{"runc": ()}, {"runc": (), "runsc": ()}, {"runsc": ("--ignore-cgroups",)}]),
        os=st.sampled_from(["linux", "linux", "windows"]),
        missing_caps=st.sampled_from(["", "", "memory.swap"]),
        image=st.none()
        | st.fixed_dictionaries(
            {
                "id": st.just("sha256:1"),
                "workdir": st.sampled_from(["", "/", "/app"]),
                "user": st.sampled_from(["", "0", "agent"]),
                "volumes": st.sampled_from([(), ("/data",)]),
            }
        ),
    ),
    st.just(facts_module.unfit(probed(), "no python3")),
)

hardening = st.fixed_dictionaries(
    {},
    optional={
        "capabilities": st.lists(st.sampled_from(sorted(CAPABILITIES)), max_size=4).map(
            lambda names: tuple({*names, "KILL"} if "SETUID" in names else names)
        ),
        "user": st.sampled_from(["root", "0"]),
        "read_only": st.booleans(),
        "runtime": st.sampled_from(["runc", "runsc", "kata"]),
        "network_pool": st.just("10.9.0.0/16"),
    },
) | st.fixed_dictionaries({"user": st.sampled_from(["1000", "agent:agent"]), "read_only": st.booleans()})


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(resources, policies, metadata, facts, st.floats(0.5, 86_400), st.booleans(), hardening)
def test_any_spec_gives_a_complete_plan_or_a_mapped_error(
    caps: Resources,
    network: NetworkPolicy,
    labels: dict[str, str],
    known: Facts,
    timeout: float,
    vsock: bool,
    config: dict[str, Any],
) -> None:
    spec = spec_of(
        resources=caps,
        network=network,
        metadata=labels,
        timeout=timeout,
        secrets={"KEY": "s3cret-value"},
        accept_vsock=vsock,
        **config,
    )
    plan = None
    with contextlib.suppress(SandboxError):
        plan = make_plan(spec, known)
        check_plan(plan, spec)
    if plan is None:
        return
    assert "s3cret-value" not in json.dumps(plan.parameters)
    assert all(item.source for item in plan.enforcements())
    assert_hardened(plan)
    container: Any = plan.parameters["container"]
    host = container["HostConfig"]
    assert set(host.get("CapAdd", ())) == set(config.get("capabilities", ()))
    assert ("ReadonlyRootfs" in host) == ("Tmpfs" in host) == config.get("read_only", False)


def assert_hardened(plan: Plan) -> None:
    container: Any = plan.parameters["container"]
    host = container["HostConfig"]
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert host["Memory"] == host["MemorySwap"] > 0
    assert host["NanoCpus"] > 0
    assert host["PidsLimit"] > 0
    assert host["AutoRemove"]
    assert not host["Privileged"]
    assert host["LogConfig"] == {"Type": "none"}
    assert "Env" not in container
    assert "Binds" not in host
    assert container["OpenStdin"] == container["StdinOnce"] == (plan.parameters["transport"] == "agent")
    assert not container["Tty"]
    limits = {limit["Name"]: (limit["Soft"], limit["Hard"]) for limit in host["Ulimits"]}
    assert limits["core"] == (0, 0)
    assert limits["nofile"] == (1024, 4096)
    assert limits["sigpending"] == (1024, 1024)
    assert limits["msgqueue"] == (409_600, 409_600)
    assert ("fsize" in limits) != ("size" in host["StorageOpt"])
    if container["NetworkDisabled"]:
        assert host["NetworkMode"] == "none"
        assert "ReadonlyRootfs" not in host


@given(resources, policies, metadata, facts, st.booleans(), hardening)
def test_what_is_refused_offline_is_refused_when_probed(
    caps: Resources,
    network: NetworkPolicy,
    labels: dict[str, str],
    known: Facts,
    vsock: bool,
    config: dict[str, Any],
) -> None:
    spec = spec_of(resources=caps, network=network, metadata=labels, accept_vsock=vsock, **config)
    try:
        make_plan(spec, BASELINE)
    except SandboxError:
        with pytest.raises(SandboxError):
            make_plan(spec, known)


def test_the_defaults_are_modest_and_concrete() -> None:
    plan = make_plan(spec_of(None), probed())
    asked = {item.policy: item.requested for item in plan.enforcements()}
    assert asked["cpu"] == 1.0
    assert asked["memory"] == 512
    assert asked["memory.swap"] == 0
    assert asked["disk"] == 1024
    assert asked["pids"] == 256
    assert asked["network.egress"] == "deny"
    assert plan.parameters["container"]["Image"] == DEFAULT_TEMPLATE  # type: ignore[index]
    assert plan.parameters["container"]["HostConfig"]["ShmSize"] == 64 * 2**20  # type: ignore[index]
    assert plan.cwd == "/work"


@pytest.mark.parametrize(
    ("resources", "named"),
    [
        (Resources(cpu=4.5), "4"),
        (Resources(memory_mb=9000), "8192"),
        (Resources(cpu=0.001), "0.01"),
        (Resources(memory_mb=4), "32"),
        (Resources(pids=2), "16"),
    ],
)
def test_a_value_outside_the_host_is_refused_naming_the_bound(resources: Resources, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        make_plan(spec_of(resources=resources), probed())


def test_a_cpu_that_the_engine_would_round_is_refused_with_the_value_to_pass() -> None:
    with pytest.raises(ConfigurationError) as caught:
        make_plan(spec_of(resources=Resources(cpu=1 / 3)), probed())
    assert "0.333333333" in caught.value.hint


@pytest.mark.parametrize(
    ("network", "why"),
    [
        (NetworkPolicy(egress="learn"), "not_yet"),
        (NetworkPolicy(allow=("api.example.com",)), "provider"),
        (NetworkPolicy(ingress_ports=(8080,)), "not_yet"),
    ],
)
def test_what_docker_cannot_enforce_is_refused_offline(network: NetworkPolicy, why: str) -> None:
    with pytest.raises(CapabilityNotSupported) as caught:
        make_plan(spec_of(network=network), BASELINE)
    assert caught.value.why == why
    assert caught.value.hint


def test_an_engine_without_cap_support_is_refused() -> None:
    with pytest.raises(CapabilityNotSupported, match=r"memory\.swap"):
        make_plan(spec_of(), probed(missing_caps="memory.swap"))


def test_an_engine_whose_runtime_may_drop_caps_is_refused() -> None:
    with pytest.raises(CapabilityNotSupported, match="runc"):
        make_plan(spec_of(), probed(runtime=None))


def test_an_image_with_volumes_is_refused_since_no_cap_bounds_them() -> None:
    image = {"id": "sha256:1", "workdir": "", "user": "", "volumes": ("/data",)}
    with pytest.raises(CapabilityNotSupported, match="/data"):
        make_plan(spec_of(), probed(image=image))


def test_without_an_agent_deny_needs_vsock_to_be_accepted() -> None:
    unfit = facts_module.unfit(probed(), "no python3")
    with pytest.raises(CapabilityNotSupported) as caught:
        make_plan(spec_of(), unfit)
    assert "accept_vsock" in caught.value.hint
    plan = make_plan(spec_of(accept_vsock=True), unfit)
    egress = plan["network.egress"]
    assert isinstance(egress, Enforcement)
    assert "vsock" in egress.residuals[0]
    assert plan.parameters["container"]["Entrypoint"] == ["sleep"]  # type: ignore[index]


def test_accepting_vsock_shows_in_the_receipt() -> None:
    egress = make_plan(spec_of(accept_vsock=True), probed())["network.egress"]
    assert isinstance(egress, Enforcement)
    assert "vsock" in egress.residuals[0]
    plain = make_plan(spec_of(), probed())["network.egress"]
    assert isinstance(plain, Enforcement)
    assert plain.residuals == ()
    assert plain.strength == "interface"


def test_egress_allow_names_what_stays_reachable() -> None:
    plan = make_plan(spec_of(network=NetworkPolicy(egress="allow")), probed())
    egress = plan["network.egress"]
    assert isinstance(egress, Enforcement)
    assert egress.requested == "allow"
    assert any("169.254.169.254" in residual for residual in egress.residuals)
    assert plan.parameters["network"] is True
    assert plan.parameters["container"]["NetworkDisabled"] is False  # type: ignore[index]


@pytest.mark.parametrize(("user", "disabled"), [("", True), ("0", True), ("agent", False)])
def test_the_network_is_disabled_where_the_agent_can_write_the_hosts_file(user: str, disabled: bool) -> None:
    image = {"id": "sha256:1", "workdir": "", "user": user, "volumes": ()}
    plan = make_plan(spec_of(), probed(image=image))
    assert plan.parameters["container"]["NetworkDisabled"] is disabled  # type: ignore[index]


def test_the_storage_drivers_quota_is_preferred() -> None:
    disk = make_plan(spec_of(), probed(disk_quota=True))["disk"]
    assert isinstance(disk, Enforcement)
    assert disk.enforced_by == "provider"
    watched = make_plan(spec_of(), probed())
    assert watched.parameters["watch_disk_bytes"] == 1024 * 2**20
    disk = watched["disk"]
    assert isinstance(disk, Enforcement)
    assert disk.enforced_by == "sandboxio"
    assert disk.residuals


@pytest.mark.parametrize(("workdir", "cwd"), [("", "/work"), ("/", "/work"), ("/app", "/app")])
def test_the_working_directory_is_the_images_own_unless_that_is_the_root(workdir: str, cwd: str) -> None:
    image = {"id": "sha256:1", "workdir": workdir, "user": "", "volumes": ()}
    assert make_plan(spec_of(), probed(image=image)).cwd == cwd
    assert make_plan(spec_of(), probed(image=None)).cwd is None


def test_secrets_have_a_receipt_only_where_there_are_some() -> None:
    assert isinstance(make_plan(spec_of(), probed())["secrets"], Absent)
    item = make_plan(spec_of(secrets={"B": "value-b", "A": "value-a"}), probed())["secrets"]
    assert isinstance(item, Enforcement)
    assert item.requested == ("A", "B")


def test_everything_declared_observable_has_a_receipt() -> None:
    plan = make_plan(spec_of(), probed())
    assert all(isinstance(plan[policy], Enforcement) for policy in INFO.observable)
