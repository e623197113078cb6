"""Engines that the tests do not run, by what they answered (`recorded.py` says how each answer is known)."""

from typing import Any

import pytest
from sandboxio.calls import PortCalls
from sandboxio.creation import plan_probed
from sandboxio.errors import BackendUnavailable, CapabilityNotSupported
from sandboxio.redaction import Redactor
from sandboxio_docker.backend import DockerBackend
from sandboxio_docker.engine import negotiated

from . import recorded
from .scripted_engine import ScriptedEngine
from .specs import spec_of

pytestmark = pytest.mark.anyio


async def plan_on(backend: DockerBackend, engine: ScriptedEngine, info: Any, version: Any = None) -> Any:
    engine.answer("GET", "/info", 200, info)
    if version is not None:
        engine.answer("GET", "/version", 200, version)
    return await plan_probed(PortCalls(backend, Redactor(())), spec_of())


@pytest.mark.parametrize(
    ("info", "named", "missing", "fix"),
    [
        (recorded.DOCKER_ROOTLESS_INFO, "rootless Docker", "memory, memory.swap, cpu, pids", "Delegate=cpu"),
        (recorded.PODMAN_ROOTLESS_INFO_V1, "rootless Podman", "memory, memory.swap, cpu, pids", "cgroup v2"),
        (recorded.PODMAN_ROOTLESS_INFO_V2, "rootless Podman", "cpu", "Delegate=cpu"),
        ({**recorded.PODMAN_INFO, "SwapLimit": False}, "Podman", "memory.swap", "swapaccount=1"),
    ],
    ids=[
        "docker-rootless-after-reference",
        "podman-rootless-v1-recorded",
        "podman-rootless-v2-after-reference",
        "swap",
    ],
)
async def test_recorded_engines_without_caps_are_refused_before_anything_is_made_naming_cap_and_fix(
    backend: DockerBackend, engine: ScriptedEngine, info: Any, named: str, missing: str, fix: str
) -> None:
    with pytest.raises(
        CapabilityNotSupported, match=rf"this {named} engine can't apply caps on {missing} \("
    ) as caught:
        await plan_on(backend, engine, info)
    assert fix in caught.value.hint
    assert {asked.method for asked in engine.log} == {"GET"}


async def test_podman_by_its_recorded_answers_as_root_is_refused_before_anything_is_made(
    backend: DockerBackend, engine: ScriptedEngine
) -> None:
    """It has every cap; what it says of a container's isolation can't be compared with what was asked for."""
    with pytest.raises(CapabilityNotSupported, match="Podman") as caught:
        await plan_on(backend, engine, recorded.PODMAN_INFO, recorded.PODMAN_VERSION)
    assert caught.value.why == "not_yet"
    assert {asked.method for asked in engine.log} == {"GET"}


async def test_a_new_engines_answers_after_the_reference_give_a_plan(
    backend: DockerBackend, engine: ScriptedEngine
) -> None:
    engine.answer("GET", "/images/", 200, recorded.DOCKER_NEW_IMAGE)
    await plan_on(backend, engine, recorded.DOCKER_NEW_INFO, recorded.DOCKER_NEW_VERSION)
    assert backend._engine._client is not None
    assert backend._engine._client[1].api_version == "1.52"


@pytest.mark.parametrize(
    ("newest", "oldest", "spoken"),
    [("1.41", "1.12", "1.41"), ("1.47", "1.24", "1.47"), ("1.99", "1.44", "1.56"), ("1.60", "1.56", "1.56")],
)
def test_the_newest_version_that_both_sides_speak_is_spoken(newest: str, oldest: str, spoken: str) -> None:
    assert negotiated({"ApiVersion": newest, "MinAPIVersion": oldest}) == spoken


@pytest.mark.parametrize(
    ("answer", "said", "fix"),
    [
        ({"Version": "19.03.15", "ApiVersion": "1.40", "MinAPIVersion": "1.12"}, r"Docker 19\.03\.15.*1\.40", "20.10"),
        (
            {"Components": [{"Name": "Podman Engine"}], "Version": "3.4.4", "ApiVersion": "1.40"},
            r"Podman Engine 3\.4\.4.*1\.40",
            "Docker 20.10",
        ),
        ({"Version": "40.0", "ApiVersion": "1.90", "MinAPIVersion": "1.80"}, r"from 1\.80", "update sandboxio-docker"),
        ({"message": "hello"}, "does not say", "DOCKER_HOST"),
    ],
)
async def test_an_engine_without_a_common_version_is_unavailable_naming_the_fix(
    backend: DockerBackend, engine: ScriptedEngine, answer: Any, said: str, fix: str
) -> None:
    engine.answer("GET", "/version", 200, answer)
    with pytest.raises(BackendUnavailable, match=said) as caught, PortCalls(backend, Redactor(())).mapped():
        await backend.probe(spec_of())
    assert fix in caught.value.hint
    assert [asked.path for asked in engine.log] == ["/version"]
