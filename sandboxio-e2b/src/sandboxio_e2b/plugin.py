"""What ``e2b://`` resolves to. Feather-light: neither pydantic nor the SDK is imported before a hook runs."""

from typing import TYPE_CHECKING

from sandboxio.hookspecs import hookimpl

if TYPE_CHECKING:
    from sandboxio.port import Backend, BackendInfo
    from sandboxio.target import BackendConfig


@hookimpl
def sandboxio_backend_info() -> "BackendInfo":
    """Return what the E2B adapter declares."""
    from sandboxio_e2b.info import INFO

    return INFO


@hookimpl
def sandboxio_make_backend(config: "BackendConfig") -> "Backend":
    """Return the backend for one account."""
    from sandboxio_e2b.backend import E2BBackend
    from sandboxio_e2b.config import E2BConfig

    assert isinstance(config, E2BConfig)
    return E2BBackend(config)
