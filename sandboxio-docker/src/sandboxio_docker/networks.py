"""The bridge network that each sandbox with ``egress="allow"`` has for itself, so that it reaches no neighbour."""

from collections.abc import Mapping

from docker.errors import APIError, NotFound
from sandboxio.errors import CreationError

from sandboxio_docker import labels
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
