"""Control calls to one Docker engine: the SDK in worker threads, each call with a deadline."""

import contextvars
import os
import socket
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypeVar, cast

import anyio
from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar
from docker import APIClient, DockerClient
from docker.models.containers import Container
from docker.tls import TLSConfig
from requests import Response
from requests.adapters import HTTPAdapter
from sandboxio.errors import BackendUnavailable

from sandboxio_docker.endpoint import Endpoint, resolve
from sandboxio_docker.sdk import Json, Sdk
from sandboxio_docker.ssh import SshAdapter
from sandboxio_docker.wire import KEEP_ALIVE

T = TypeVar("T")

Lane = Literal["work", "look", "end"]
LANES: dict[Lane, int] = {"work": 16, "look": 8, "end": 16}
"""Threads per event loop. Ending sandboxes has its own lane: twenty slow creates must not delay one kill; looking at
one has too: a hundred kills must not delay the look whether one of them is done."""
OLDEST_API = (1, 41)
"""Docker 20.10; the first whose answers this adapter was written against."""
NEWEST_API = (1, 56)
"""The newest whose changes were read (moby's ``api/docs/CHANGELOG.md``, 2026-11)."""

_within: contextvars.ContextVar[float] = contextvars.ContextVar("sandboxio_docker_within", default=60.0)


class EngineSilent(Exception):
    """The engine accepted a request and did not answer it in time."""


class _Client(APIClient):
    """The SDK's client, each socket operation bounded by the call's own deadline.

    The SDK has one timeout for everything (docker-py #2096, #3124); an abandoned thread must end by itself.
    """

    def __init__(self, endpoint: Endpoint, size: int) -> None:
        self._transport = _transport(endpoint, size)
        # What ssh's transport replaces below is a socket that is never opened.
        url = "unix:///ssh" if endpoint.ssh_command else endpoint.base_url
        super().__init__(base_url=url, version="auto", tls=_tls_of(endpoint), max_pool_size=size)

    def _retrieve_server_version(self) -> str:
        # Where the SDK asks for the first time; it would speak the engine's newest version, however new (docker-py 7.2).
        for prefix, adapter in self._transport.items():
            self.mount(prefix, adapter)
        try:
            return negotiated(self.version(api_version=False))
        except BaseException:
            self.close()
            raise

    def request(self, method: str | bytes, url: str | bytes, *args: Any, **kwargs: Any) -> Response:
        # Neither a proxy nor REQUESTS_CA_BUNDLE, which would replace the engine's own CA (psf/requests #3829).
        self.trust_env = False
        kwargs["timeout"] = _within.get()
        return super().request(method, url, *args, **kwargs)


class _Native(DockerClient):
    """The SDK's own front end over our connections, for `Session.native`."""

    def __init__(self, api: APIClient) -> None:
        self.api = api


@dataclass(frozen=True, slots=True)
class Made:
    """A container that this process made."""

    name: str
    expires_at: float
    has_network: bool


@dataclass(slots=True)
class Register:
    """What this process knows of one engine; shared by threads, each access is one step.

    :param made: the containers that it made, by id.
    :param unfit: why an image can't run the agent in a container of one kind, by image id and `Hardening`.
    :param swept: held once leftovers were looked for.
    :param info: the engine's description of itself, and when on the monotonic clock it was asked for.
    """

    made: dict[str, Made] = field(default_factory=dict[str, Made])
    unfit: dict[tuple[str, object], str] = field(default_factory=dict[tuple[str, object], str])
    swept: threading.Lock = field(default_factory=threading.Lock)
    info: tuple[float, Json] | None = None


class Engine:
    """One engine; safe to use from any thread and any number of event loops, also after a fork."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.register = Register()
        self._lock = threading.Lock()
        self._client: tuple[int, _Client] | None = None
        self._limiters: RunVar[dict[str, CapacityLimiter] | None] = RunVar("sandboxio_docker_lanes")

    async def call(self, act: Callable[[Sdk], T], *, within: float = 30.0, lane: Lane = "work") -> T:
        """Let ``act`` use the SDK in a worker thread; a cancelled caller leaves the thread to its deadline.

        :param within: seconds for the whole call, waiting for a thread included.
        :raises EngineSilent: no answer by then.
        """
        with anyio.move_on_after(within):
            limiter = self._lanes()[lane]
            return await to_thread.run_sync(self._act, act, within, abandon_on_cancel=True, limiter=limiter)
        raise EngineSilent(f"no answer within {within:g} s")

    async def end(self, act: Callable[[Sdk], T], *, within: float) -> T:
        """Let ``act`` end a sandbox, when it is its turn among all that are being ended.

        :param within: seconds from its turn on. Waiting for it is not the engine's silence: the caller bounds the whole.
        :raises EngineSilent: no answer by then.
        """
        async with self._lanes()["end"]:
            with anyio.move_on_after(within):
                turn = CapacityLimiter(1)
                return await to_thread.run_sync(self._act, act, within, abandon_on_cancel=True, limiter=turn)
            raise EngineSilent(f"no answer within {within:g} s")

    def _act(self, act: Callable[[Sdk], T], within: float) -> T:
        _within.set(within)
        # The SDK's own signatures are untyped; `Sdk` states those that are used.
        return act(cast("Sdk", self._connected()))

    def _lanes(self) -> dict[str, CapacityLimiter]:
        lanes = self._limiters.get(None)
        if lanes is None:
            lanes = {name: CapacityLimiter(size) for name, size in LANES.items()}
            self._limiters.set(lanes)
        return lanes

    def _connected(self) -> _Client:
        # A forked child must not share its parent's pooled connections: answers would be mixed up.
        known = self._client
        if known is not None and known[0] == os.getpid():
            return known[1]
        with self._lock:
            if self._client is None or self._client[0] != os.getpid():
                client = connect(self.endpoint)
                # Its idle connections are kept for as long as the process lives, and at its end nobody else closes them.
                weakref.finalize(self, client.close)
                self._client = (os.getpid(), client)
            return self._client[1]

    def native(self, container_id: str) -> Container:
        """Return the SDK's object of a container; no traffic."""
        client = _Native(self._connected())
        return Container({"Id": container_id}, client=client, collection=client.containers)

    async def negotiated(self) -> Endpoint:
        """Return the endpoint with the API version that both sides speak."""
        known = self._client
        if known is not None and known[0] == os.getpid():
            return self.endpoint.with_version(known[1].api_version)
        return self.endpoint.with_version(await self.call(lambda client: client.api_version, within=10))


def connect(endpoint: Endpoint) -> _Client:
    """Open a client and negotiate the API version.

    :raises BackendUnavailable: there is no version that both sides speak.
    """
    _knock(endpoint)
    return _Client(endpoint, sum(LANES.values()))


def negotiated(answer: Json) -> str:
    """Return the newest API version that both sides speak, from the engine's answer to ``/version``.

    :raises BackendUnavailable: there is none.
    """
    newest, oldest = _version(answer.get("ApiVersion")), _version(answer.get("MinAPIVersion") or "1.0")
    if newest is None or oldest is None:
        raise BackendUnavailable(
            "what answers does not say which API versions it speaks",
            hint="check that DOCKER_HOST, or the Docker context, names a Docker engine",
        )
    if newest < OLDEST_API:
        raise BackendUnavailable(
            f"the engine ({_named(answer)}) speaks the Docker API up to {newest[0]}.{newest[1]}, and 1.41 is needed",
            hint="update it to Docker 20.10 or newer",
        )
    if oldest > NEWEST_API:
        raise BackendUnavailable(
            f"the engine ({_named(answer)}) speaks the Docker API from {oldest[0]}.{oldest[1]} on,"
            f" and {NEWEST_API[0]}.{NEWEST_API[1]} is the newest this adapter knows",
            hint="update sandboxio-docker",
        )
    major, minor = min(newest, NEWEST_API)
    return f"{major}.{minor}"


def _version(text: object) -> tuple[int, int] | None:
    major, _, minor = str(text).partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None


def _named(answer: Json) -> str:
    components: list[Json] = answer.get("Components") or [{}]
    return f"{components[0].get('Name') or 'Docker'} {answer.get('Version') or 'of unknown version'}"


class _LastingAdapter(HTTPAdapter):
    """Connections over TCP that survive proxies while they are idle, and whose dead peer is noticed."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), *KEEP_ALIVE]
        super().init_poolmanager(*args, socket_options=options, **kwargs)


def _transport(endpoint: Endpoint, size: int) -> dict[str, HTTPAdapter]:
    """Return what takes the place of the SDK's own transport."""
    if endpoint.ssh_command is not None:
        return {"http+docker://": SshAdapter(endpoint.ssh_command, size)}
    if endpoint.is_local:
        return {}
    # Over TCP the SDK keeps ten connections whatever max_pool_size says (docker-py #1636).
    return {"https://" if endpoint.is_tls else "http://": _LastingAdapter(pool_maxsize=size)}


def _tls_of(endpoint: Endpoint) -> TLSConfig | bool:
    if not endpoint.is_tls:
        return False
    pair = (endpoint.cert, endpoint.key) if endpoint.cert and endpoint.key else None
    return TLSConfig(client_cert=pair, ca_cert=endpoint.ca, verify=endpoint.verify)


def _knock(endpoint: Endpoint) -> None:
    # The SDK leaves a socket open that could not connect, and wraps its error four times.
    if endpoint.socket_path is not None:
        with socket.socket(socket.AF_UNIX) as knock:
            knock.settimeout(_within.get())
            knock.connect(endpoint.socket_path)


@cache
def _engine(endpoint: Endpoint) -> Engine:
    return Engine(endpoint)


def engine_for(host: str | None) -> Engine:
    """Return the process's one `Engine` for an address; see `sandboxio_docker.endpoint.resolve`."""
    return _engine(resolve(host))
