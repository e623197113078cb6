"""What ``dockercli://`` resolves to; nothing heavy is imported before a hook runs."""

from typing import Any

from sandboxio.hookspecs import hookimpl


@hookimpl
def sandboxio_backend_info() -> Any:
    """Return what this adapter declares, a `BackendInfo`."""
    from acme_sandboxio.info import INFO

    return INFO


@hookimpl
def sandboxio_make_backend(config: Any) -> Any:
    """Return the backend for one engine; core gives a `DockerCliConfig`."""
    from acme_sandboxio.backend import DockerCli

    return DockerCli(config)
