"""A recorder in front of a Docker engine, and what its requests do."""

from collections.abc import Generator
from contextlib import contextmanager

from sandboxio_contract.ground.base import Spied
from sandboxio_contract.ground.dsn import split_dsn
from sandboxio_contract.ground.wire import Call, Wire
from sandboxio_contract.verdict import Inconclusive


@contextmanager
def spied(dsn: str, address: str) -> Generator[Spied]:
    """Put a recorder in front of the engine at an address, and yield the way through it to a target."""
    if not address.startswith("unix://"):
        raise Inconclusive(f"the engine is at {address}; the recorder needs a unix socket")
    with Wire(address.removeprefix("unix://")) as wire:
        yield Spied(through(dsn, f"unix://{wire.address}"), wire, _creates, _destroys, _alters)


def through(dsn: str, host: str) -> str:
    """Return a target's DSN with another engine address."""
    template, kept = split_dsn(dsn)
    query = "&".join([*(one for one in kept.split("&") if one and not one.startswith("host=")), f"host={host}"])
    return f"{dsn.partition('://')[0]}://{template}?{query}"


def _creates(call: Call) -> bool:
    return call.method == "POST" and call.path == "/containers/create"


def _destroys(call: Call) -> bool:
    return call.method == "DELETE" and call.path.startswith("/containers/")


def _alters(call: Call) -> bool:
    network = call.path.startswith("/networks/") and call.path.endswith(("/connect", "/disconnect"))
    return call.method == "POST" and (network or call.path.endswith("/update"))
