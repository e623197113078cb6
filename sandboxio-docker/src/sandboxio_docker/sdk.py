"""The part of the Docker SDK's client that is used here, with types; the SDK itself has few."""
# ruff: noqa: D102

from collections.abc import Mapping
from typing import Any, Protocol

Json = dict[str, Any]
"""An object as the engine answers it."""


class Sdk(Protocol):
    """A connected `docker.APIClient`. Every call blocks and raises `docker.errors.APIError`."""

    @property
    def api_version(self) -> str: ...

    def info(self) -> Json: ...

    def inspect_image(self, image: str) -> Json: ...

    def containers(self, *, all: bool, filters: Mapping[str, list[str]]) -> list[Json]: ...  # noqa: A002

    def create_container_from_config(self, config: Json, name: str) -> Json: ...

    def inspect_container(self, container: str) -> Json: ...

    def start(self, container: str) -> None: ...

    def kill(self, container: str, signal: str) -> None: ...

    def remove_container(self, container: str, *, v: bool, force: bool) -> None: ...

    def exec_create(
        self,
        container: str,
        cmd: list[str],
        *,
        stdin: bool = ...,
        environment: dict[str, str] | None = ...,
        workdir: str | None = ...,
        user: str = ...,
    ) -> Json: ...

    def exec_inspect(self, exec_id: str) -> Json: ...

    def networks(self, *, filters: Mapping[str, list[str]]) -> list[Json]: ...

    def create_network(
        self,
        name: str,
        driver: str,
        options: Mapping[str, str],
        ipam: Json | None = ...,
        *,
        labels: Mapping[str, str],
        check_duplicate: bool,
    ) -> Json: ...

    def inspect_network(self, net_id: str) -> Json: ...

    def put_archive(self, container: str, path: str, data: bytes) -> bool: ...

    def remove_network(self, net_id: str) -> None: ...
