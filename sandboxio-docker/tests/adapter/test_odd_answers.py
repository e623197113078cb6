"""What the adapter makes of engines that refuse, stall, warn, or commit and then fail."""

import threading
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from sandboxio.calls import PortCalls
from sandboxio.creation import plan_probed
from sandboxio.errors import (
    BackendUnavailable,
    CapabilityNotSupported,
    ConfigurationError,
    CreationError,
    PolicyNotEnforced,
    RateLimitError,
    SandboxError,
    SandboxGone,
)
from sandboxio.planning import Plan
from sandboxio.policy import NetworkPolicy
from sandboxio.redaction import Redactor
from sandboxio_docker import labels
from sandboxio_docker.backend import DockerBackend
from sandboxio_docker.config import DockerConfig
from sandboxio_docker.engine import LANES, EngineSilent

from .conftest import RecordingReaper
from .scripted_engine import CONTAINER, INFO, Asked, ScriptedEngine
from .specs import probed, spec_of

pytestmark = pytest.mark.anyio

ALLOW = NetworkPolicy(egress="allow")


def plan_of(backend: DockerBackend, **changes: Any) -> Plan:
    return backend.plan(spec_of(**changes), probed())


def inspected(name: str, status: str = "running", **host: Any) -> dict[str, Any]:
    carried = labels.make(name, "0.1", "agent", {"tenant_id": "a"}) | {labels.EXPIRES: f"{time.time() + 60:.3f}"}
    defaults: dict[str, Any] = {
        "NetworkMode": "none",
        "NanoCpus": 10**9,
        "Memory": 512 * 2**20,
        "MemorySwap": 512 * 2**20,
        "PidsLimit": 256,
        "CapDrop": ["ALL"],
        "CapAdd": None,
        "Privileged": False,
        "PidMode": "",
        "IpcMode": "private",
        "UTSMode": "",
        "Binds": None,
        "Devices": [],
        "Runtime": "runc",
        "SecurityOpt": ["no-new-privileges:true"],
        "Ulimits": [{"Name": "fsize", "Soft": 2**30, "Hard": 2**30}],
    }
    return {
        "Id": CONTAINER,
        "Name": f"/{name}",
        "Created": "2026-11-30T00:00:00.123456789Z",
        "State": {"Status": status, "Running": status == "running"},
        "Config": {"Labels": carried, "WorkingDir": ""},
        "HostConfig": {**defaults, **host},
        "NetworkSettings": {"Networks": {"none": {}}},
        "Mounts": [],
    }


async def test_the_reaper_is_armed_before_the_create_request(
    backend: DockerBackend, engine: ScriptedEngine, reaper: RecordingReaper
) -> None:
    plan = plan_of(backend)
    before = time.time()
    assert await backend.provision(plan) == CONTAINER
    verb, name, expires_at, posts = reaper.told[0]
    assert (verb, name, posts) == ("expect", plan.create_id, 0)
    assert isinstance(expires_at, float)
    assert before + 60 <= expires_at <= time.time() + 60
    assert reaper.verbs() == ["expect", "disk", "have"]
    (create,) = engine.asked("POST")
    assert create.query["name"] == plan.create_id
    assert float(create.body["Labels"][labels.EXPIRES]) == pytest.approx(expires_at, abs=0.01)


async def test_nothing_is_started_by_provision(backend: DockerBackend, engine: ScriptedEngine) -> None:
    await backend.provision(plan_of(backend))
    assert [asked.path for asked in engine.asked("POST")] == ["/containers/create"]


async def test_a_warning_about_a_cap_is_a_refusal(backend: DockerBackend, engine: ScriptedEngine) -> None:
    """RES-03."""
    text = "Your kernel does not support swap limit capabilities. Memory limited without swap."
    engine.answer("POST", "/containers/create", 201, {"Id": CONTAINER, "Warnings": [text]})
    with pytest.raises(PolicyNotEnforced, match="swap limit"):
        await backend.provision(plan_of(backend))


async def test_a_warning_about_something_else_is_none(backend: DockerBackend, engine: ScriptedEngine) -> None:
    warning = "The requested image's platform (linux/arm64) does not match the detected host platform"
    engine.answer("POST", "/containers/create", 201, {"Id": CONTAINER, "Warnings": [warning]})
    assert await backend.provision(plan_of(backend)) == CONTAINER


async def test_an_engine_without_caps_is_refused_before_anything_is_made(
    backend: DockerBackend, engine: ScriptedEngine
) -> None:
    """CFG-02."""
    engine.answer("GET", "/info", 200, {**INFO, "MemoryLimit": False, "PidsLimit": False})
    spec = spec_of()
    with pytest.raises(CapabilityNotSupported, match="memory, pids"):
        backend.plan(spec, await backend.probe(spec))
    assert not engine.asked("POST")


async def test_an_info_that_does_not_mention_caps_is_refused(backend: DockerBackend, engine: ScriptedEngine) -> None:
    """CFG-02, VER-01."""
    engine.answer("GET", "/info", 200, {"OSType": "linux"})
    with pytest.raises(CapabilityNotSupported):
        await plan_probed(PortCalls(backend, Redactor(())), spec_of())


async def test_a_probe_only_reads(backend: DockerBackend, engine: ScriptedEngine) -> None:
    facts = await backend.probe(spec_of())
    assert {asked.method for asked in engine.log} == {"GET"}
    assert facts.maxima["cpu"] == 4
    assert facts.maxima["memory_mb"] == 8192


async def test_an_engine_describes_itself_once_a_minute_and_images_are_looked_at_each_time(
    backend: DockerBackend, engine: ScriptedEngine
) -> None:
    first = await backend.probe(spec_of())
    engine.answer("GET", "/images/", 404, {"message": "No such image"})
    again = await DockerBackend(DockerConfig(host=engine.host)).probe(spec_of())
    assert len(engine.asked("GET", "/info")) == 1
    assert (first.values["image"] is None, again.values["image"]) == (False, None)


async def test_a_cancelled_provision_condemns_what_may_still_be_made(
    backend: DockerBackend, engine: ScriptedEngine, reaper: RecordingReaper
) -> None:
    """CAN-01."""
    engine.stall("POST", "/containers/create")
    plan = plan_of(backend)
    with anyio.move_on_after(0.3) as scope:
        await backend.provision(plan)
    assert scope.cancelled_caught
    verb, name, expires_at, _ = reaper.told[-1]
    assert (verb, name) == ("expect", plan.create_id)
    assert isinstance(expires_at, float)
    assert expires_at < time.time()


async def test_a_request_that_was_not_sent_before_the_cancellation_is_never_sent(
    backend: DockerBackend, engine: ScriptedEngine, reaper: RecordingReaper
) -> None:
    # The worker is held up before it announces the name: its announcement must not undo the condemnation.
    held, plan = threading.Event(), plan_of(backend)
    engine.do("GET", "/containers/json", lambda _: (200, []) if held.wait(10) else (500, None))
    with anyio.move_on_after(0.3):
        await backend.provision(plan)
    held.set()
    with anyio.fail_after(20):
        while len(reaper.told) < 3:
            await anyio.sleep(0.01)
    assert [told[0] for told in reaper.told] == ["expect"] * 3
    assert isinstance(reaper.told[-1][2], float)
    assert reaper.told[-1][2] < time.time()
    assert not engine.asked("POST")


async def test_an_error_after_the_commit_is_a_creation_error(backend: DockerBackend, engine: ScriptedEngine) -> None:
    engine.answer("POST", "/containers/create", 504, {"message": "gateway timeout"})
    with pytest.raises(CreationError, match="504"), PortCalls(backend, Redactor(())).mapped(CreationError):
        await backend.provision(plan_of(backend))


async def test_used_up_address_pools_are_named(backend: DockerBackend, engine: ScriptedEngine) -> None:
    text = "could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network"
    engine.answer("POST", "/networks/create", 500, {"message": text})
    with pytest.raises(CreationError, match="address pools") as caught:
        await backend.provision(plan_of(backend, network=ALLOW))
    assert "default-address-pools" in caught.value.hint
    assert not engine.asked("POST", "/containers/create")


async def test_each_allowed_sandbox_has_its_own_network_told_to_the_reaper(
    backend: DockerBackend, engine: ScriptedEngine, reaper: RecordingReaper
) -> None:
    engine.answer("POST", "/networks/create", 201, {"Id": "n1", "Warning": ""})
    plan = plan_of(backend, network=ALLOW)
    await backend.provision(plan)
    network, container = engine.asked("POST")
    assert network.body["Name"] == plan.create_id
    assert network.body["Labels"][labels.CREATE_ID] == plan.create_id
    assert "IPAM" not in network.body
    assert container.body["HostConfig"]["NetworkMode"] == plan.create_id
    assert reaper.verbs() == ["expect", "disk", "network", "have"]


async def destroyed(backend: DockerBackend) -> None:
    await backend.provision(plan_of(backend))
    await backend.destroy(CONTAINER)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (404, "No such container: c"),
        (409, "removal of container c is already in progress"),
        (204, None),
    ],
)
async def test_a_container_that_is_gone_or_going_is_destroyed(
    backend: DockerBackend, engine: ScriptedEngine, reaper: RecordingReaper, status: int, message: str | None
) -> None:
    """KIL-01."""
    engine.answer("DELETE", "/containers/", status, message and {"message": message})
    await destroyed(backend)
    assert reaper.told[-1][0] == "forget"


async def test_five_concurrent_kills_all_succeed(backend: DockerBackend, engine: ScriptedEngine) -> None:
    """KIL-01."""
    first = threading.Lock()

    def once(_: Asked) -> tuple[int, Any]:
        taken = first.acquire(blocking=False)
        return (204, None) if taken else (409, {"message": "removal of container c is already in progress"})

    engine.do("DELETE", "/containers/", once)
    await backend.provision(plan_of(backend))
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(backend.destroy, CONTAINER)
    assert len(engine.asked("DELETE")) <= 5


@pytest.mark.parametrize("message", ["container c is paused", "conflict: container c is running"])
async def test_a_conflict_of_another_kind_is_not_gone(
    backend: DockerBackend, engine: ScriptedEngine, reaper: RecordingReaper, message: str
) -> None:
    """KIL-01, GON-02."""
    engine.answer("DELETE", "/containers/", 409, {"message": message})
    with pytest.raises(SandboxError) as caught, PortCalls(backend, Redactor(())).mapped():
        await destroyed(backend)
    assert not isinstance(caught.value, SandboxGone)
    assert reaper.told[-1][0] != "forget"


async def test_a_removal_that_takes_long_is_left_to_the_engine(backend: DockerBackend, engine: ScriptedEngine) -> None:
    plan = plan_of(backend)
    engine.stall("DELETE", "/containers/")
    engine.answer("GET", f"/containers/{CONTAINER}/json", 200, inspected(plan.create_id, "removing"))
    await backend.provision(plan)
    with anyio.fail_after(20):
        await backend.destroy(CONTAINER)
        assert await backend.observe(CONTAINER) is None


async def test_an_engine_that_does_not_remove_is_an_error_in_time(
    backend: DockerBackend, engine: ScriptedEngine
) -> None:
    plan = plan_of(backend)
    engine.stall("DELETE", "/containers/")
    engine.answer("GET", f"/containers/{CONTAINER}/json", 200, inspected(plan.create_id))
    await backend.provision(plan)
    with anyio.fail_after(20), pytest.raises(BackendUnavailable), PortCalls(backend, Redactor(())).mapped():
        await backend.destroy(CONTAINER)


async def test_the_network_goes_after_the_container(
    backend: DockerBackend, engine: ScriptedEngine, reaper: RecordingReaper
) -> None:
    engine.answer("POST", "/networks/create", 201, {"Id": "n1", "Warning": ""})
    plan = plan_of(backend, network=ALLOW)
    await backend.provision(plan)
    carried = labels.make(plan.create_id, "0.1", "agent", {})
    listed = [
        {"Id": "n1", "Name": plan.create_id, "Labels": carried},
        {"Id": "n2", "Name": "sbx-other", "Labels": labels.make("sbx-other", "0.1", "agent", {})},
    ]
    engine.answer("GET", "/networks", 200, listed)
    await backend.destroy(CONTAINER)
    assert [asked.path for asked in engine.asked("DELETE")] == [f"/containers/{CONTAINER}", "/networks/n1"]
    assert reaper.told[-1] == ("forget", plan.create_id)


async def test_a_network_that_is_still_in_use_is_left_to_the_reaper(
    backend: DockerBackend, engine: ScriptedEngine, reaper: RecordingReaper
) -> None:
    engine.answer("POST", "/networks/create", 201, {"Id": "n1", "Warning": ""})
    plan = plan_of(backend, network=ALLOW)
    await backend.provision(plan)
    engine.answer("DELETE", "/containers/", 409, {"message": "removal of container c is already in progress"})
    await backend.destroy(CONTAINER)
    assert reaper.told[-1][0] == "expect"
    assert "forget" not in reaper.verbs()


async def test_what_is_not_ours_is_never_removed(backend: DockerBackend, engine: ScriptedEngine) -> None:
    foreign = inspected("sbx-1")
    foreign["Config"]["Labels"] = {}
    engine.answer("GET", f"/containers/{CONTAINER}/json", 200, foreign)
    with pytest.raises(ConfigurationError):
        await backend.destroy(CONTAINER)
    assert await backend.observe(CONTAINER) is None
    assert not engine.asked("DELETE")


async def test_the_beginning_of_an_id_is_not_the_id(backend: DockerBackend, engine: ScriptedEngine) -> None:
    """TEN-02."""
    engine.answer("GET", "/containers/cccc/json", 200, inspected("sbx-1"))
    assert await backend.observe("cccc") is None
    with pytest.raises(ConfigurationError):
        await backend.destroy("cccc")
    assert not engine.asked("DELETE")


async def test_find_goes_by_the_exact_name(backend: DockerBackend, engine: ScriptedEngine) -> None:
    engine.answer("GET", "/containers/sbx-1/json", 200, inspected("sbx-1"))
    engine.answer("GET", "/containers/cccc/json", 200, inspected("sbx-1"))
    assert await backend.find("sbx-1") == CONTAINER
    assert await backend.find("cccc") is None
    assert await backend.find("sbx-2") is None


@pytest.mark.parametrize("status", ["removing", "dead", "exited"])
async def test_a_container_that_ended_is_not_there(backend: DockerBackend, engine: ScriptedEngine, status: str) -> None:
    engine.answer("GET", "/json", 200, inspected("sbx-1", status))
    assert await backend.observe(CONTAINER) is None


@pytest.mark.parametrize(
    ("policy", "host"),
    [
        ("network.egress", {"NetworkMode": "bridge"}),
        ("memory.swap", {"MemorySwap": 1024 * 2**20}),
        ("memory", {"Memory": 0, "MemorySwap": 0}),
        ("cpu", {"NanoCpus": 0}),
        ("pids", {"PidsLimit": None}),
        ("disk", {"Ulimits": None}),
        ("isolation", {"Privileged": True}),
        ("isolation", {"CapAdd": ["SYS_ADMIN"]}),
        ("isolation", {"Binds": ["/:/host"]}),
        ("isolation", {"SecurityOpt": None}),
        ("isolation", {"Runtime": "runsc"}),
    ],
)
async def test_what_the_engine_did_not_apply_shows(
    backend: DockerBackend, engine: ScriptedEngine, policy: str, host: dict[str, Any]
) -> None:
    """VER-01, NET-10."""
    plan = plan_of(backend)
    engine.answer("GET", "/json", 200, inspected(plan.create_id))
    asked = {item.policy: item.requested for item in plan.enforcements()} | {"labels": {"tenant_id": "a"}}
    seen = await backend.observe(CONTAINER)
    assert seen is not None
    assert {name: asked[name] for name in backend.info.observable} == dict(seen.applied)
    engine.answer("GET", "/json", 200, inspected(plan.create_id, **host))
    weaker = await backend.observe(CONTAINER)
    assert weaker is not None
    assert weaker.applied[policy] != asked[policy]


async def test_filters_of_a_list_are_exact(backend: DockerBackend, engine: ScriptedEngine) -> None:
    """TEN-02."""
    tenants = ["a", "ab", "a,b", "a=b", "*"]

    def summary(number: int, tenant: str) -> dict[str, Any]:
        name = f"sbx-{number}"
        carried = labels.make(name, "0.1", "agent", {"tenant_id": tenant})
        return {"Id": f"{number}" * 64, "Names": [f"/{name}"], "Labels": carried, "State": "running", "Created": 1}

    listed = [summary(number, tenant) for number, tenant in enumerate(tenants)]
    foreign = {**listed[0], "Names": ["/somebody-elses"], "Id": "f" * 64}
    engine.answer("GET", "/containers/json", 200, [*listed, foreign])
    for tenant in tenants:
        found = [seen async for seen in backend.list({"tenant_id": tenant})]
        assert [seen.labels["tenant_id"] for seen in found] == [tenant]
    assert len([seen async for seen in backend.list({})]) == len(tenants)


async def test_a_network_without_its_container_is_listed_and_can_be_destroyed(
    backend: DockerBackend, engine: ScriptedEngine
) -> None:
    carried = labels.make("sbx-1", "0.1", "agent", {}) | {labels.EXPIRES: "1.0"}
    old = {"Id": "n1", "Name": "sbx-1", "Labels": carried, "Created": "2020-01-01T00:00:00.1Z"}
    engine.answer("GET", "/networks", 200, [old])
    (seen,) = [seen async for seen in backend.list({})]
    assert seen.sandbox_id == "n1"
    await backend.destroy("n1")
    assert [asked.path for asked in engine.asked("DELETE")] == ["/networks/n1"]


async def test_leftovers_are_handed_to_the_reaper_once(
    backend: DockerBackend, engine: ScriptedEngine, reaper: RecordingReaper
) -> None:
    def summary(name: str, expires: float) -> dict[str, Any]:
        carried = labels.make(name, "0.1", "agent", {}) | {labels.EXPIRES: f"{expires:.3f}"}
        return {"Id": "e" * 64, "Names": [f"/{name}"], "Labels": carried, "State": "created", "Created": 1}

    listed = [summary("sbx-old", time.time() - 60), summary("sbx-alive", time.time() + 60)]
    engine.answer("GET", "/containers/json", 200, listed)
    await backend.provision(plan_of(backend))
    assert reaper.told[0][:2] == ("expect", "sbx-old")
    assert reaper.told[1] == ("have", "sbx-old", "e" * 64)
    await backend.provision(plan_of(backend))
    assert [told[1] for told in reaper.told].count("sbx-old") == 2


async def test_a_missing_image_is_pulled_with_progress(backend: DockerBackend, engine: ScriptedEngine) -> None:
    engine.answer("GET", "/images/", 404, {"message": "No such image: x"})
    events = tuple({"status": status, "id": "l1"} for status in ("Pulling", "Downloading", "Downloading", "Done"))
    engine.answer("POST", "/images/create", 200, events)
    lines: list[str] = []
    spec = spec_of("registry.example:5000/team/image:1.2")
    await backend.prepare(backend.plan(spec, await backend.probe(spec)), lines.append)
    assert lines == ["pulling registry.example:5000/team/image:1.2", "l1: Pulling", "l1: Downloading", "l1: Done"]
    (pull,) = engine.asked("POST")
    assert pull.query == {"fromImage": "registry.example:5000/team/image", "tag": "1.2"}


@pytest.mark.parametrize(
    ("status", "answer", "expected"),
    [
        (404, {"message": "pull access denied for image"}, CreationError),
        (200, ({"status": "Pulling"}, {"error": "no space left on device"}), CreationError),
        # From API 1.48 on the other field alone may tell.
        (200, ({"status": "Pulling"}, {"errorDetail": {"message": "no space left on device"}}), CreationError),
        (429, {"message": "toomanyrequests: slow down"}, RateLimitError),
    ],
)
async def test_a_failed_pull_names_the_image_and_the_answer(
    backend: DockerBackend, engine: ScriptedEngine, status: int, answer: Any, expected: type[SandboxError]
) -> None:
    engine.answer("GET", "/images/", 404, {"message": "No such image: x"})
    engine.answer("POST", "/images/create", status, answer)
    spec = spec_of("some/image")
    plan = backend.plan(spec, await backend.probe(spec))
    with pytest.raises(expected, match=r"some/image.*(denied|space|slow down)"):
        await backend.prepare(plan, lambda _: None)


@pytest.mark.parametrize(
    ("name", "why", "fix"),
    [("Some/Image", ": repository name must be lowercase", "lower case"), ("x:y:z", "", "[:TAG]")],
)
async def test_a_name_that_no_image_can_have_is_told_with_the_fix(
    backend: DockerBackend, engine: ScriptedEngine, name: str, why: str, fix: str
) -> None:
    engine.answer("GET", "/images/", 400, {"message": f"no such image: {name}: invalid reference format{why}"})
    with (
        pytest.raises(ConfigurationError, match=name) as caught,
        PortCalls(backend, Redactor(())).mapped(CreationError),
    ):
        await backend.probe(spec_of(name))
    assert fix in caught.value.hint
    assert "docker://" in caught.value.hint
    assert {asked.method for asked in engine.log} == {"GET"}


async def test_a_pull_can_be_cancelled(backend: DockerBackend, engine: ScriptedEngine) -> None:
    engine.answer("GET", "/images/", 404, {"message": "No such image: x"})
    engine.stall("POST", "/images/create")
    spec = spec_of("some/image")
    plan = backend.plan(spec, await backend.probe(spec))
    before = time.monotonic()
    with anyio.move_on_after(0.3) as scope:
        await backend.prepare(plan, lambda _: None)
    assert scope.cancelled_caught
    assert time.monotonic() - before < 20  # the engine holds the pull for longer


async def test_a_hostile_image_name_stays_a_value(backend: DockerBackend, engine: ScriptedEngine) -> None:
    """EXE-04."""
    template = "python:3.11; touch /tmp/hostpwn"
    engine.answer("GET", "/images/", 400, {"message": "invalid reference format"})
    with pytest.raises(ConfigurationError, match="invalid reference"), PortCalls(backend, Redactor(())).mapped():
        await backend.probe(spec_of(template))
    assert not Path("/tmp/hostpwn").exists()


async def test_no_engine_is_unavailable_with_the_fix() -> None:
    backend = DockerBackend(DockerConfig(host="unix:///nonexistent/docker.sock"))
    with pytest.raises(BackendUnavailable, match="No such file") as caught, PortCalls(backend, Redactor(())).mapped():
        await backend.probe(spec_of())
    assert caught.value.hint


async def test_an_engine_that_accepts_and_never_answers_is_noticed(
    backend: DockerBackend, engine: ScriptedEngine
) -> None:
    await backend.probe(spec_of())
    engine.stall("GET", "/info")
    with pytest.raises((EngineSilent, OSError)):
        await backend._engine.call(lambda client: client.info(), within=0.3)


async def test_slow_creates_do_not_delay_a_kill(backend: DockerBackend, engine: ScriptedEngine) -> None:
    await backend.provision(plan_of(backend))
    engine.stall("POST", "/containers/create")
    async with anyio.create_task_group() as group:
        for _ in range(40):
            group.start_soon(backend.provision, plan_of(backend))
        await anyio.sleep(0.2)
        with anyio.fail_after(20):  # less than a create takes
            await backend.destroy(CONTAINER)
        group.cancel_scope.cancel()


async def test_a_kill_that_waits_for_its_turn_is_not_taken_for_a_silent_engine(
    backend: DockerBackend, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove(_: Asked) -> tuple[int, None]:
        time.sleep(0.2)
        removed.append(True)
        return 204, None

    removed: list[bool] = []
    engine.do("DELETE", "/containers/", remove)
    monkeypatch.setattr("sandboxio_docker.backend.DESTROY_BOUND", 1.0)
    plan = plan_of(backend)
    await backend.provision(plan)
    engine.answer("GET", f"/containers/{CONTAINER}/json", 200, inspected(plan.create_id))
    async with anyio.create_task_group() as group:
        for _ in range(8 * LANES["end"]):
            group.start_soon(backend.destroy, CONTAINER)
        await anyio.sleep(0.1)
        assert await backend.observe(CONTAINER)
        assert len(removed) < 8 * LANES["end"], "the look waits for none of them"


def test_one_backend_serves_loops_in_turn_and_in_threads(backend: DockerBackend, engine: ScriptedEngine) -> None:
    async def use() -> None:
        await backend.probe(spec_of())
        assert await backend.observe(CONTAINER) is None

    for kind in ("asyncio", "trio", "asyncio"):
        anyio.run(use, backend=kind)
    done: list[str] = []

    def run(kind: str) -> None:
        anyio.run(use, backend=kind)
        done.append(kind)

    threads = [threading.Thread(target=run, args=(kind,)) for kind in ("asyncio", "trio") * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(done) == len(threads)
