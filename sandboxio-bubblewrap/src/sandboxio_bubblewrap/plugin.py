"""What ``bubblewrap://`` resolves to. Feather-light: neither pydantic nor the adapter itself is imported before a hook runs."""

from typing import TYPE_CHECKING

from sandboxio.hookspecs import hookimpl

if TYPE_CHECKING:
    from sandboxio.port import Backend, BackendInfo
    from sandboxio.target import BackendConfig


@hookimpl
def sandboxio_backend_info() -> "BackendInfo":
    """Return what the bubblewrap adapter declares."""
    from sandboxio_bubblewrap.info import INFO

    return INFO


@hookimpl
def sandboxio_make_backend(config: "BackendConfig") -> "Backend":
    """Return a backend for this machine."""
    from sandboxio_bubblewrap.backend import BubblewrapBackend
    from sandboxio_bubblewrap.config import BubblewrapConfig

    assert isinstance(config, BubblewrapConfig)
    return BubblewrapBackend(config)
