"""Subnets of the caller's own pool."""

import re
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
from sandboxio.errors import CreationError, PolicyNotEnforced
from sandboxio.policy import NetworkPolicy
from sandboxio_docker import pool as pool_module
from sandboxio_docker.backend import DockerBackend
from sandboxio_docker.planning import make_plan
from sandboxio_docker.pool import free_subnets, host_routes

from .scripted_engine import Asked, ScriptedEngine
from .specs import probed, spec_of

ALLOW = NetworkPolicy(egress="allow")
POOL = "10.213.0.0/27"


def test_every_free_subnet_comes_once_and_nothing_taken_does() -> None:
    pool = IPv4Network("10.0.0.0/26")
    taken = [IPv4Network("10.0.0.16/30"), IPv4Network("10.0.0.32/28"), IPv4Network("192.168.0.0/16")]
    for _ in range(20):
        found = list(free_subnets(pool, taken))
        assert sorted(found) == [IPv4Network(f"10.0.0.{at}/29") for at in (0, 8, 24, 48, 56)]


def test_a_large_pool_that_is_held_by_one_route_is_used_up_at_once() -> None:
    assert list(free_subnets(IPv4Network("10.0.0.0/8"), [IPv4Network("10.0.0.0/8")])) == []
    assert next(free_subnets(IPv4Network("10.0.0.0/8"), [])).subnet_of(IPv4Network("10.0.0.0/8"))


def test_routes_are_read_in_the_byte_order_of_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "route"
    file.write_text(
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
        "eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        "eth0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
        "tun0\t0000D50A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
    )
    monkeypatch.setattr(pool_module, "ROUTES", file)
    assert host_routes() == [IPv4Network("192.168.1.0/24"), IPv4Network("10.213.0.0/16")]


@pytest.fixture
def no_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandboxio_docker.networks.host_routes", list)


def subnet_of(asked: Asked) -> str:
    (config,) = asked.body["IPAM"]["Config"]
    return str(config["Subnet"])


def answers_like_an_engine(engine: ScriptedEngine, *, other: str | None = None) -> None:
    made: list[str] = []

    def create(asked: Asked) -> tuple[int, Any]:
        made.append(subnet_of(asked))
        return 201, {"Id": f"n{len(made)}"}

    def look(asked: Asked) -> tuple[int, Any]:
        found = re.search(r"n(\d+)$", asked.path)
        assert found
        return 200, {"IPAM": {"Config": [{"Subnet": other or made[int(found[1]) - 1]}]}}

    engine.do("POST", "/networks/create", create)
    engine.do("GET", r"/networks/n\d+$", look)


@pytest.mark.anyio
@pytest.mark.usefixtures("no_routes")
async def test_a_network_is_taken_from_the_pool_beside_those_that_are_there(
    backend: DockerBackend, engine: ScriptedEngine
) -> None:
    answers_like_an_engine(engine)
    held = [
        {"Name": "x", "Id": "x", "IPAM": {"Config": [{"Subnet": subnet}]}} for subnet in ("10.213.0.0/28", "fd00::/64")
    ]
    engine.answer("GET", "/networks$", 200, [*held, {"Name": "none", "Id": "y", "IPAM": {"Config": []}}])
    plan = make_plan(spec_of(network=ALLOW, network_pool=POOL), probed(is_local=True))
    await backend.provision(plan)
    (asked,) = engine.asked("POST", "/networks/create")
    assert subnet_of(asked) in ("10.213.0.16/29", "10.213.0.24/29")
    assert asked.body["Options"]["com.docker.network.bridge.enable_icc"] == "false"


@pytest.mark.anyio
@pytest.mark.parametrize("is_local", [True, False])
async def test_a_pool_on_a_route_of_this_machine_is_refused_where_the_engine_is_here(
    backend: DockerBackend, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch, is_local: bool
) -> None:
    answers_like_an_engine(engine)
    monkeypatch.setattr("sandboxio_docker.networks.host_routes", lambda: [IPv4Network("10.0.0.0/8")])
    plan = make_plan(spec_of(network=ALLOW, network_pool=POOL), probed(is_local=is_local))
    if not is_local:
        await backend.provision(plan)
        return
    with pytest.raises(CreationError, match=re.escape(POOL)) as caught:
        await backend.provision(plan)
    assert "route" in caught.value.message
    assert not engine.asked("POST", "/networks/create")


@pytest.mark.anyio
@pytest.mark.usefixtures("no_routes")
async def test_a_subnet_lost_to_somebody_else_is_followed_by_another_until_none_is_left(
    backend: DockerBackend, engine: ScriptedEngine
) -> None:
    engine.answer("POST", "/networks/create", 403, {"message": "Pool overlaps with other one on this address space"})
    plan = make_plan(spec_of(network=ALLOW, network_pool=POOL), probed(is_local=True))
    with pytest.raises(CreationError, match=re.escape(POOL)):
        await backend.provision(plan)
    asked = {subnet_of(one) for one in engine.asked("POST", "/networks/create")}
    assert asked == {f"10.213.0.{at}/29" for at in (0, 8, 16, 24)}
    assert not engine.asked("POST", "/containers/create")


@pytest.mark.anyio
@pytest.mark.usefixtures("no_routes")
async def test_an_engine_that_takes_another_subnet_is_convicted_and_the_network_removed(
    backend: DockerBackend, engine: ScriptedEngine
) -> None:
    answers_like_an_engine(engine, other="172.30.0.0/16")
    plan = make_plan(spec_of(network=ALLOW, network_pool=POOL), probed(is_local=True))
    with pytest.raises(PolicyNotEnforced, match=re.escape("172.30.0.0/16")):
        await backend.provision(plan)
    assert [asked.path for asked in engine.asked("DELETE")] == ["/networks/n1"]
    assert not engine.asked("POST", "/containers/create")
