"""What ``fake://`` resolves to. Nothing is imported before a hook runs."""

from typing import TYPE_CHECKING

from sandboxio.hookspecs import hookimpl

if TYPE_CHECKING:
    from sandboxio.port import Backend, BackendInfo


@hookimpl
def sandboxio_backend_info() -> "BackendInfo":
    """Return what the current fake declares."""
    from sandboxio.testing.backend import current

    return current().info


@hookimpl
def sandboxio_make_backend() -> "Backend":
    """Return the current fake."""
    from sandboxio.testing.backend import current

    return current()
