"""What ``docker://`` resolves to. Feather-light: neither pydantic nor the Docker SDK is imported before a hook runs."""

from typing import TYPE_CHECKING

from sandboxio.hookspecs import hookimpl

if TYPE_CHECKING:
    from sandboxio.port import Backend, BackendInfo
    from sandboxio.target import BackendConfig


@hookimpl
def sandboxio_backend_info() -> "BackendInfo":
    """Return what the Docker adapter declares."""
    from sandboxio_docker.info import INFO

    return INFO


@hookimpl
def sandboxio_make_backend(config: "BackendConfig") -> "Backend":
    """Return the backend for one engine; equal engines share its connections."""
    from sandboxio_docker.backend import DockerBackend
    from sandboxio_docker.config import DockerConfig

    assert isinstance(config, DockerConfig)
    return DockerBackend(config)
