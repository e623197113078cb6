"""The ground of the Docker adapter: the engine asked directly, by the `docker` SDK, and the host's control groups.

The labels are those under which the requirement TEN-01 wants a caller's metadata to be found.
"""

import contextlib
import json
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from sandboxio_contract.ground import cgroup
from sandboxio_contract.ground.base import Fetched, Ground, NetworkGround, Object, Spied
from sandboxio_contract.ground.dockerwire import spied
from sandboxio_contract.ground.dsn import with_template
from sandboxio_contract.ground.swapfile import swap_present
from sandboxio_contract.verdict import Inconclusive

if TYPE_CHECKING:
    from docker.client import DockerClient

    from sandboxio_contract.ground.dockerimages import DockerImages

MANAGED = "io.sandboxio.managed"
METADATA = "io.sandboxio.meta."
REFERENCE_IMAGE = "sandboxio-test/python"
SUITE = "io.sandboxio.contract"
CONTROL_SECONDS = 30.0


class DockerGround(Ground):
    """One engine. It must be on this machine for what looks at the host.

    Another adapter whose sandboxes are containers has it with its own name and labels; its DSN's parameter ``host`` has to
    take an engine's address, behind which its traffic is recorded.

    :param kind: the backend's name.
    :param managed: the label that, with the value ``true``, marks what is the adapter's.
    :param metadata: how the labels begin under which a caller's metadata is found.
    """

    def __init__(self, dsn: str, kind: str = "docker", *, managed: str = MANAGED, metadata: str = METADATA) -> None:
        super().__init__(kind)
        self._dsn = dsn
        self._managed = managed
        self._metadata = metadata
        self._known: DockerClient | None = None
        self._network: NetworkGround | None = None
        self._images: DockerImages | None = None
        self._stack = contextlib.ExitStack()

    def objects(self, mark: Mapping[str, str]) -> list[Object]:
        """Return containers of any state, and networks, that carry the metadata."""
        marked = (f"{self._metadata}{key}={value}" for key, value in mark.items())
        wanted = {"label": [f"{self._managed}=true", *marked]}
        engine = self._engine()
        containers: list[Mapping[str, Any]] = engine.containers(all=True, filters=wanted)
        networks: list[Mapping[str, Any]] = engine.networks(filters=wanted)
        return [Object("container", one["Id"], one["State"]) for one in containers] + [
            Object("network", one["Id"], one["Name"]) for one in networks
        ]

    def exists(self, sandbox_id: str) -> bool:
        """Whether the engine still has the container."""
        return self._inspected(sandbox_id) is not None

    def lose(self, sandbox_id: str) -> None:
        """Remove the container; one that is gone or on its way is lost already."""
        from docker.errors import APIError

        try:
            self._engine().remove_container(sandbox_id, force=True, v=True)
        except APIError as error:
            if error.status_code not in (404, 409):
                raise

    def inspect(self, sandbox_id: str) -> Mapping[str, object]:
        """Return the host configuration, the labels as ``Labels`` and the network mode, as the engine holds them."""
        found = self._inspected(sandbox_id)
        if found is None:
            raise Inconclusive(f"the engine does not know {sandbox_id[:12]}")
        labels: Mapping[str, str] = found["Config"].get("Labels") or {}
        mine = self._metadata
        metadata = {key.removeprefix(mine): value for key, value in labels.items() if key.startswith(mine)}
        return {**found["HostConfig"], "Env": found["Config"].get("Env"), "Labels": labels, "Metadata": metadata}

    def processes(self, sandbox_id: str) -> int:
        """Return what the container's control group counts."""
        return cgroup.process_count(self._pid(sandbox_id))

    def status(self, sandbox_id: str) -> str:
        """Return what this host's kernel says of the container's first process."""
        try:
            return Path(f"/proc/{self._pid(sandbox_id)}/status").read_text(encoding="utf-8")
        except OSError as error:
            raise Inconclusive(f"the container's first process can't be seen on this host: {error}") from error

    def memory_peak(self, sandbox_id: str) -> int:
        """Return the peak that the container's control group saw."""
        return cgroup.memory_and_swap_peak(self._pid(sandbox_id))

    def swapping_control(self, memory_mb: int, script: str) -> int:
        """Run the script in a plain container that may use as much swap as memory, with swap present."""
        from docker.errors import DockerException

        size = memory_mb * 2**20
        client = self._client()
        try:
            created: Any = client.containers.create(
                REFERENCE_IMAGE,
                ["python3", "-c", script + "\nimport time; time.sleep(60)"],
                entrypoint=[],
                mem_limit=size,
                memswap_limit=2 * size,
                network_mode="none",
                labels={SUITE: "swap"},
            )
        except DockerException as error:
            raise Inconclusive(f"the control container could not be made: {error}") from error
        try:
            created.start()
            _await_line(created, b"touched")
            return self.memory_peak(str(created.id))
        finally:
            created.remove(force=True, v=True)

    def caps(self, sandbox_id: str) -> Mapping[str, float]:
        """Return what the container's host configuration holds."""
        held: Mapping[str, Any] = self.inspect(sandbox_id)
        memory = held["Memory"] / 2**20
        return {
            "cpu": held["NanoCpus"] / 1e9,
            "memory": memory,
            "memory.swap": held["MemorySwap"] / 2**20 - memory,
            "pids": held["PidsLimit"] or 0,
        }

    def networking(self, sandbox_id: str) -> str:
        """Return mode, networks, links and published ports, as the engine holds them."""
        found = self._inspected(sandbox_id) or {"HostConfig": {}, "NetworkSettings": {}}
        names = ("NetworkMode", "ExtraHosts", "Links", "PortBindings", "PublishAllPorts", "Dns")
        host = {name: found["HostConfig"].get(name) for name in names}
        return json.dumps([host, sorted(found["NetworkSettings"].get("Networks") or {})])

    def description(self, sandbox_id: str) -> str:
        """Return inspection, changed paths and the image's history."""
        engine = self._engine()
        found = self._inspected(sandbox_id)
        if found is None:
            raise Inconclusive(f"the engine does not know {sandbox_id[:12]}")
        return json.dumps([found, engine.top(sandbox_id), engine.diff(sandbox_id), engine.history(found["Image"])])

    def brokered(self, sandbox_id: str) -> None:
        """Return nothing: an engine's own secrets are for services of a swarm only (docs.docker.com, read 2026-11)."""

    def storage(self, sandbox_id: str) -> str | None:
        """Return the volumes and host directories that the engine mounted."""
        found = self._inspected(sandbox_id) or {}
        mounted = [str(one.get("Name") or one.get("Source")) for one in found.get("Mounts") or ()]
        return ", ".join(sorted(mounted)) or None

    def blocked_attempt(self, sandbox_id: str) -> None:
        """Return nothing: where there is no interface nothing is blocked that an engine could count."""

    def absent_template(self) -> str:
        """Return an image of a registry that nobody runs: port 1 of this machine."""
        return with_template(self._dsn, "127.0.0.1:1/sandboxio-contract/absent:1")

    def prepared(self, wheels: Path, package: str) -> AbstractContextManager[str]:
        """Install into a container without network, and commit it."""
        return self._image_maker().prepared(wheels, package)

    def fetched(self) -> AbstractContextManager[Fetched]:
        """Push an image of this run's own to a registry on loopback, and remove it from the engine."""
        if not self._address().startswith("unix://"):
            raise Inconclusive("the engine may be on another machine, where this one's loopback is not")
        return self._image_maker().fetched()

    def address(self, sandbox_id: str) -> str:
        """Return the container's first IPv4 address."""
        found = self._inspected(sandbox_id) or {}
        networks: Mapping[str, Mapping[str, Any]] = found.get("NetworkSettings", {}).get("Networks", {})
        for one in networks.values():
            if one.get("IPAddress"):
                return str(one["IPAddress"])
        raise Inconclusive(f"the engine names no address of {sandbox_id[:12]}")

    def swap(self) -> AbstractContextManager[str]:
        """Have swap on the engine's host, which must be this one."""
        return swap_present()

    def spied(self) -> AbstractContextManager[Spied]:
        """Put a recorder in front of the engine's socket."""
        return spied(self._dsn, self._address())

    def network(self) -> NetworkGround:
        """Return the host canary and the references of a Docker engine."""
        if self._network is None:
            from sandboxio_contract.ground.dockernet import DockerNetwork

            self._network = self._stack.enter_context(DockerNetwork(REFERENCE_IMAGE, self._host(), self._client))
        return self._network

    def release_network(self) -> None:
        """Remove references and canary: only one run on a machine can have them."""
        self._network = None
        self._stack.close()

    def close(self) -> None:
        """Remove references, canary and registry, and close the connection."""
        self.release_network()
        if self._images is not None:
            self._images.close()
            self._images = None
        if self._known is not None:
            self._known.close()
            self._known = None

    def _image_maker(self) -> "DockerImages":
        if self._images is None:
            from sandboxio_contract.ground.dockerimages import DockerImages

            self._images = DockerImages(self._dsn, self._client())
        return self._images

    def _client(self) -> "DockerClient":
        if self._known is None:
            try:
                import docker
                from docker.errors import DockerException
            except ImportError as error:
                raise Inconclusive("the docker SDK is not installed, so the engine can't be asked directly") from error
            try:
                host = self._host()
                self._known = docker.DockerClient(base_url=host) if host else docker.from_env()
                self._known.ping()
            except DockerException as error:
                raise Inconclusive(f"no engine answers: {error}") from error
        return self._known

    def _engine(self) -> Any:
        """Return the SDK's low-level client, whose stubs leave most answers open."""
        return self._client().api

    def _inspected(self, sandbox_id: str) -> Mapping[str, Any] | None:
        from docker.errors import NotFound

        try:
            found: Mapping[str, Any] = self._engine().inspect_container(sandbox_id)
        except NotFound:
            return None
        return found

    def _pid(self, sandbox_id: str) -> int:
        found = self._inspected(sandbox_id)
        pid = int(found["State"]["Pid"]) if found else 0
        if not pid:
            raise Inconclusive(f"the engine names no process of {sandbox_id[:12]}")
        return pid

    def _host(self) -> str | None:
        given = parse_qs(urlsplit(self._dsn).query).get("host")
        return given[0] if given else None

    def _address(self) -> str:
        base = str(self._engine().base_url)
        # The SDK shows a unix socket as http+docker://; its adapter knows the path.
        return f"unix://{self._engine().get_adapter(base).socket_path}" if base.startswith("http+docker") else base


def _await_line(container: Any, line: bytes) -> None:
    end = time.monotonic() + CONTROL_SECONDS
    while line not in container.logs():
        if time.monotonic() > end:
            raise Inconclusive("the control container did not finish touching its memory")
        time.sleep(0.1)
