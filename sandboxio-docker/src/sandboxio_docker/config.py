"""The typed configuration of the Docker adapter."""

from typing import ClassVar

from sandboxio.target import BackendConfig


class DockerConfig(BackendConfig):
    """Which engine, which image, and what is accepted there.

    ``template`` is an image reference; `sandboxio_docker.info.DEFAULT_TEMPLATE` if it is ``None``.
    """

    backend: ClassVar[str] = "docker"
    host: str | None = None
    """The engine's address (``unix://``, ``tcp://``, ``https://``); ``None`` = ``DOCKER_HOST``, else the Docker context."""
    accept_vsock: bool = False
    """Accept ``egress="deny"`` where it can't be shown that vsock sockets are refused; the receipt names the residual."""
