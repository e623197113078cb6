"""Which checks a world can offer: the one place where names, kinds and addresses of checks are put together."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sandboxio_contract.network import routes, tokens
from sandboxio_contract.network.addresses import CanaryAddresses
from sandboxio_contract.network.checks import Check, Checks
from sandboxio_contract.network.reason import NotProvable

_HOST_ADDRESSES = 24


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another sandbox with a listener of the suite; `key` is the only one that the listener was given."""

    address: str
    port: int
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Ground:
    """The facts of a world that was set up. `unix` is an abstract name (`@...`) and a path; either may be empty."""

    secret: bytes = field(repr=False)
    addresses: CanaryAddresses
    port: int
    ipv6_missing: str | None
    unix: tuple[str, ...]


def plan_checks(ground: Ground, local: tuple[str, ...], neighbour: Neighbour | None) -> Checks:
    """Return the checks of a world, those that it can't offer with the reason.

    :param local: the host's own addresses, which a gateway has to be one of; `*` where everything is the suite's.
    :raises NotProvable: the neighbour's address would lead off this machine.
    """
    missing: dict[str, str] = {}
    items = [*_version4(ground, missing), *_names(ground), *_near(ground, local)]
    for check in _version6(ground):
        if ground.ipv6_missing:
            missing[check.name] = ground.ipv6_missing
        else:
            items.append(check)
    if neighbour is not None:
        items.append(_neighbour(neighbour, local))
    return Checks(tuple(items), tokens.new_token(), missing)


def with_local(checks: Checks, local: tuple[str, ...]) -> Checks:
    """Return the checks with the host's addresses replaced by those it has now; an engine adds one per network."""
    named = {"gateway": local, "host": local[:_HOST_ADDRESSES]}
    return replace(checks, items=tuple(replace(one, addresses=named.get(one.name, one.addresses)) for one in checks))


def _version4(ground: Ground, missing: dict[str, str]) -> Iterator[Check]:
    key, target = ground.secret, (ground.addresses.v4,)
    for port in (80, 443, 53):
        yield Check(f"tcp4-{port}", "tcp", target, port, key)
    yield Check("udp4", "udp", target, 443, key)
    yield Check("icmp4", "icmp", target, 0, key)
    yield Check("dns4-udp", "dns", target, 53, key)
    yield Check("dns4-tcp", "dns-tcp", target, 53, key)
    if ground.addresses.metadata:
        yield Check("metadata", "tcp", (ground.addresses.metadata,), 80, key)
    else:
        missing["metadata"] = "this host itself relies on the metadata address, so it can't be the canary's"


def _version6(ground: Ground) -> Iterator[Check]:
    key, target = ground.secret, (ground.addresses.v6,)
    for port in (80, 443):
        yield Check(f"tcp6-{port}", "tcp", target, port, key)
    yield Check("udp6", "udp", target, 443, key)
    yield Check("icmp6", "icmp", target, 0, key)
    yield Check("dns6-udp", "dns", target, 53, key)
    yield Check("dns6-tcp", "dns-tcp", target, 53, key)
    open6 = tuple(one for one in ground.addresses.resolvers if ":" in one)
    if open6:
        yield Check("dns6-public", "dns", open6, 53, key)
    yield Check("link-local6", "multicast", ("ff02::1",), ground.port, key)


def _names(ground: Ground) -> Iterator[Check]:
    key = ground.secret
    open4 = tuple(one for one in ground.addresses.resolvers if ":" not in one)
    if open4:
        yield Check("dns4-public", "dns", open4, 53, key)
    yield Check("dns-lookup", "lookup", ("*",), 0, key)
    # The sandbox's own resolvers may be anybody's: the guard leads our names to the canary, or stops them.
    yield Check("dns-configured", "dns-configured", ("*",), 53, key)


def _near(ground: Ground, local: tuple[str, ...]) -> Iterator[Check]:
    yield Check("gateway", "gateway", local, ground.port, ground.secret)
    named = tuple(one for one in local if one != "*")[:_HOST_ADDRESSES]
    if named:
        yield Check("host", "tcp", named, ground.port, ground.secret)
    abstract, path = ground.unix
    yield Check("unix-abstract", "unix", (abstract,), 0, ground.secret)
    if path:
        yield Check("unix-path", "unix", (path,), 0, ground.secret)
    yield Check("vsock", "vsock", ("*",), 0, ground.secret)


def _neighbour(neighbour: Neighbour, local: tuple[str, ...]) -> Check:
    if local != ("*",) and routes.local_kind(neighbour.address) is None:
        raise NotProvable("addresses", f"the neighbour's address {neighbour.address} would lead off this machine")
    return Check("neighbour", "tcp", (neighbour.address,), neighbour.port, neighbour.key)
