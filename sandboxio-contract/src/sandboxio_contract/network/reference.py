"""Suite-made references on a Docker engine: what the same probe sees where nobody denies it anything.

The `docker` SDK is a third party's; it is imported when a reference is first made. Everything made here carries the label
`io.sandboxio.contract` and is removed in any case: on leaving, by the canary's supervisor if the owner was killed, and by
`sandboxio-contract cleanup`.
"""

import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from sandboxio_contract.network import sysctls, tokens
from sandboxio_contract.network.checks import Checks, probe_command
from sandboxio_contract.network.engine import LABEL, SECONDS, connect, engine_errors, remove
from sandboxio_contract.network.outcome import Outcome, Result, merged, parse_probe
from sandboxio_contract.network.plan import Neighbour
from sandboxio_contract.network.reason import NotProvable
from sandboxio_contract.network.world import HostCanary

if TYPE_CHECKING:
    from docker.models.containers import Container
    from docker.models.networks import Network

_OWNER = f"{LABEL}.reference"
NEIGHBOUR_PORT = 28_454
_LIFETIME = 1800
_MORE_TRIES = 2
_HOST_CHECKS = ("unix-abstract", "unix-path", "vsock")
# What a probe that shares only the network namespace with the sandbox can't see for it.
_NOT_BESIDE = ("unix-path", "vsock")


class DockerReference:
    """Reference containers beside a host canary. A context manager.

    :raises NotProvable: with code `engine`: no SDK, no engine, an engine elsewhere, or the image is missing.
    """

    def __init__(self, canary: HostCanary, image: str = "sandboxio-test/python", base_url: str | None = None) -> None:
        self._canary, self._image = canary, image
        self._id = secrets.token_hex(5)
        self._labels = {LABEL: canary.run_id, _OWNER: self._id}
        self._client = connect(base_url)
        self._network: Network | None = None
        self._neighbour: Neighbour | None = None
        self._saved: dict[str, str] = {}

    def __enter__(self) -> Self:
        """Make the network."""
        try:
            with engine_errors("the reference network could not be made"):
                self._make_network()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove everything made here."""
        self.close()

    @property
    def neighbour(self) -> Neighbour:
        """Return a live listener in a container of its own on the reference network; started when first asked for."""
        if self._neighbour is None:
            with engine_errors("the neighbour could not be started"):
                self._neighbour = self._start_neighbour()
        return self._neighbour

    def probe(self, checks: Checks) -> Outcome:
        """Run the same checks, under fresh tokens, from references that deny nothing, and return what they reached.

        A dual-stack container on the suite's network stands for everything that goes over a network; one in the host's
        network for unix and vsock sockets. The latter tries nothing else: it would trip the guard.
        """
        fresh = self._canary.refreshed(checks)
        networked = replace(fresh, items=tuple(one for one in fresh if one.name not in _HOST_CHECKS))
        near = fresh.only(_HOST_CHECKS)
        outcomes: list[Outcome] = []
        if networked.items:
            outcomes.append(self._probe_network(networked))
        if near.items:
            outcomes.append(self._probe(near, self._host_options(near)))
        return merged(outcomes)

    def _probe_network(self, checks: Checks) -> Outcome:
        # In the first moments of a bridge IPv6 may be silent: its gateway was seen to answer no solicitation for about a
        # second in one of six runs (Linux 6, Docker 20.10, 2026-11). What stays silent is silent.
        options = {"network": self._network_name()}
        outcome = self._probe(checks, options)
        for _ in range(_MORE_TRIES):
            silent = tuple(name for name, result in outcome.results.items() if result.status == "timeout")
            if not silent:
                break
            again = self._probe(self._canary.refreshed(checks.only(silent)), options)
            outcome = replace(again, results={**outcome.results, **again.results})
        return outcome

    def probe_beside(self, container_id: str, checks: Checks) -> Outcome:
        """Run the checks from a container that joins a sandbox's network namespace, also one whose network is disabled.

        It needs no tool of the sandbox's image. It shares no file system with the sandbox, so results for a socket by
        path (and for vsock, which the sandbox's own filter decides) are errors, never denials.
        """
        seen = replace(checks, items=tuple(one for one in checks if one.name not in _NOT_BESIDE))
        outcome = self._probe(seen, {"network_mode": f"container:{container_id}"})
        unseen = {one.name: Result("error", "can't be seen from beside") for one in checks if one.name in _NOT_BESIDE}
        return replace(outcome, results={**outcome.results, **unseen})

    def close(self) -> None:
        """Remove everything of this reference and put the kernel's settings back."""
        try:
            with engine_errors("the references could not be removed"):
                remove(self._client, f"{_OWNER}={self._id}")
        finally:
            self._client.close()
            sysctls.restore(self._saved)
            self._saved = {}

    def _make_network(self) -> None:
        from docker.types import IPAMConfig, IPAMPool

        self._saved = sysctls.snapshot()
        sysctls.keep_router_routes()
        subnet = f"fd{secrets.token_hex(1)}:{secrets.token_hex(2)}:{secrets.token_hex(2)}:{secrets.token_hex(2)}::/64"
        bridge = f"sbxb{self._id}"
        self._network = self._client.networks.create(
            f"sandboxio-contract-{self._id}",
            driver="bridge",
            enable_ipv6=True,
            labels=self._labels,
            options={"com.docker.network.bridge.name": bridge},
            ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=subnet)]),
        )
        if not Path("/sys/class/net", bridge).is_dir():
            # Guard and canary stand in this network namespace; an engine's containers elsewhere would get past both.
            raise NotProvable(
                "engine", "the engine's networks are not on this machine, so its containers can't be guarded"
            )
        # The bridge would spend its first second on duplicate-address detection, and a control then looks like a denial.
        sysctls.skip_address_detection(bridge)

    def _network_name(self) -> str:
        if self._network is None or self._network.name is None:
            raise NotProvable("engine", "the reference network is not up")
        return self._network.name

    def _host_options(self, near: Checks) -> dict[str, object]:
        sockets = [one.addresses[0] for one in near if one.name == "unix-path"]
        folders = {str(Path(one).parent) for one in sockets}
        volumes = {one: {"bind": one, "mode": "ro"} for one in folders}
        # A newer engine's default filter has no vsock; the control has to show that the machine does.
        return {"network_mode": "host", "volumes": volumes, "security_opt": ["seccomp=unconfined"]}

    def _start_neighbour(self) -> Neighbour:
        key = tokens.key_for(secrets.token_bytes(32), "neighbour")
        argv, source = neighbour_command(key, NEIGHBOUR_PORT)
        container = self._start(_inline(argv, source), {"network": self._network_name()})
        _await_listening(container)
        container.reload()
        networks = cast("Mapping[str, Mapping[str, Any]]", container.attrs["NetworkSettings"]["Networks"])
        return Neighbour(str(networks[self._network_name()]["IPAddress"]), NEIGHBOUR_PORT, key)

    def _probe(self, checks: Checks, options: Mapping[str, object]) -> Outcome:
        argv, source = probe_command(checks)
        with engine_errors("the reference probe could not be run"):
            container = self._start(_inline(argv, source), options)
            try:
                code = int(container.wait(timeout=checks.seconds() + SECONDS)["StatusCode"])
                return parse_probe(checks, code, container.logs(stdout=True, stderr=False))
            finally:
                container.remove(force=True, v=True)

    def _start(self, argv: tuple[str, ...], options: Mapping[str, object]) -> "Container":
        from docker.types import LogConfig

        chosen = cast("dict[str, Any]", dict(options))
        container = self._client.containers.create(
            self._image,
            list(argv),
            entrypoint=[],
            labels=self._labels,
            log_config=LogConfig(type="json-file"),
            mem_limit="256m",
            pids_limit=64,
            user="0",
            **chosen,
        )
        try:
            container.start()
        except BaseException:
            container.remove(force=True, v=True)
            raise
        return container


def neighbour_command(key: bytes, port: int, seconds: float = _LIFETIME) -> tuple[tuple[str, ...], bytes]:
    """Return what to run in a sandbox to make it a neighbour: argv and standard input. It ends after `seconds`."""
    source = resources.files("sandboxio_contract.network").joinpath("responder.py").read_bytes()
    return ("python3", "-I", "-S", "-", str(port), key.hex(), f"{seconds:.0f}"), source


def _inline(argv: tuple[str, ...], source: bytes) -> tuple[str, ...]:
    """Return the command with its program as an argument: a container that is only started has no standard input."""
    at = argv.index("-")
    return (*argv[:at], "-c", source.decode(), *argv[at + 1 :])


def _await_listening(container: "Container") -> None:
    end = time.monotonic() + SECONDS
    while b"listening" not in container.logs():
        if time.monotonic() > end:
            raise NotProvable("engine", "the neighbour does not listen")
        time.sleep(0.05)
