"""The bridge network that each sandbox with ``egress="allow"`` has for itself, so that it reaches no neighbour."""

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network, ip_network

from docker.errors import APIError, NotFound
from sandboxio.errors import CreationError, PolicyNotEnforced

from sandboxio_docker import labels
from sandboxio_docker.pool import free_subnets, host_routes
from sandboxio_docker.sdk import Json, Sdk

NO_NEIGHBOURS = {"com.docker.network.bridge.enable_icc": "false"}


def make(client: Sdk, name: str, own_labels: Mapping[str, str]) -> str:
    """Make the network of one sandbox and return its id; the engine picks the subnet.

    :raises CreationError: the engine's address pools are used up (about 30 networks by default).
    """
    try:
        answer: Json = client.create_network(
            name, driver="bridge", options=dict(NO_NEIGHBOURS), labels=dict(own_labels), check_duplicate=True
        )
    except APIError as error:
        if "address pool" not in str(error.explanation):
            raise
        raise CreationError(
            f"the Docker engine has no free subnet for another bridge network: its address pools"
            f" (default-address-pools, about 30 networks by default) are used up: {error.explanation}",
            hint='end sandboxes with egress="allow", remove unused networks, or add default-address-pools to daemon.json',
        ) from error
    return str(answer["Id"])


RACES = 16
"""Subnets that may be lost to somebody who takes one at the same moment, before the pool counts as used up."""


def make_from(client: Sdk, name: str, own_labels: Mapping[str, str], pool: IPv4Network, *, is_local: bool) -> str:
    """Make the network of one sandbox in a pool of the caller's and return its id.

    :param is_local: whether the engine's host is this machine, whose routes are then left alone.
    :raises CreationError: the pool is used up.
    :raises PolicyNotEnforced: the engine took another subnet.
    """
    taken = [*_subnets(client), *(host_routes() if is_local else ())]
    for _, subnet in zip(range(RACES), free_subnets(pool, taken), strict=False):
        try:
            answer: Json = client.create_network(
                name,
                "bridge",
                dict(NO_NEIGHBOURS),
                {"Driver": "default", "Config": [{"Subnet": str(subnet)}]},
                labels=dict(own_labels),
                check_duplicate=True,
            )
        except APIError as error:
            if "overlap" not in str(error.explanation):
                raise
            continue
        _refuse_another(client, str(answer["Id"]), subnet)
        return str(answer["Id"])
    where = "another network or a route of this machine" if is_local else "another network"
    raise CreationError(
        f"network_pool={str(pool)!r} has no free /29 left: each is held by {where}",
        hint='end sandboxes with egress="allow", or name a larger pool or one that nothing else uses',
    )


def _subnets(client: Sdk) -> Iterator[IPv4Network]:
    for network in client.networks(filters={}):
        for subnet in map(ip_network, _held_by(network)):
            if isinstance(subnet, IPv4Network):
                yield subnet


def _held_by(network: Json) -> list[str]:
    ipam: Json = network.get("IPAM") or {}
    configs: list[Json] = ipam.get("Config") or []
    return [str(config["Subnet"]) for config in configs if config.get("Subnet")]


def _refuse_another(client: Sdk, network_id: str, subnet: IPv4Network) -> None:
    seen = _held_by(client.inspect_network(network_id))
    if seen != [str(subnet)]:
        remove_by_id(client, network_id)
        raise PolicyNotEnforced(
            f"the Docker engine made a network with {seen} instead of {subnet}", hint="leave network_pool= out"
        )


def remove(client: Sdk, name: str) -> None:
    """Remove the networks of one sandbox; gone already is success.

    By id and label: the engine lets several networks have one name.
    """
    for network in ours(client):
        if network["Labels"].get(labels.CREATE_ID) == name:
            remove_by_id(client, network["Id"])


def remove_by_id(client: Sdk, network_id: str) -> None:
    """Remove one network; gone already is success."""
    try:
        client.remove_network(network_id)
    except NotFound:
        return


def ours(client: Sdk) -> list[Json]:
    """Return the networks that this adapter made, as the engine lists them."""
    found: list[Json] = client.networks(filters=labels.filters())
    return [network for network in found if labels.is_ours(network.get("Labels") or {}, network["Name"])]
