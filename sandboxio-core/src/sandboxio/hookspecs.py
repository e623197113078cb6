"""Every hook of sandboxio. Hooks are synchronous, quick, and return an object; they do no work.

A complete adapter's plugin module (entry-point group ``sandboxio.backends``, name = the DSN scheme, value = this
module)::

    from sandboxio.hookspecs import hookimpl

    @hookimpl
    def sandboxio_backend_info():
        from acme_sandboxio.info import INFO
        return INFO

    @hookimpl
    def sandboxio_make_backend(config):
        from acme_sandboxio.backend import AcmeBackend   # the SDK is imported in here, not above
        return AcmeBackend(config)
"""

from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from sandboxio.port import Backend, BackendInfo
    from sandboxio.target import BackendConfig

PROJECT = "sandboxio"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def sandboxio_backend_info() -> "BackendInfo | Any":
    """Say what this backend is, without opening anything.

    Called when a target names the backend, before anything else is asked of the adapter.

    :return: the `BackendInfo`. Since 0.1.
    """


@hookspec
def sandboxio_make_backend(config: "BackendConfig") -> "Backend | Any":
    """Make the backend for one configuration.

    Called for each `create`, `connect` and `list_managed`, in a worker thread. An adapter may return one object for
    equal configurations; it is shared between tasks, threads and event loops then, and closed once for each time.

    :param config: the typed configuration, its template resolved.
    :return: the `Backend`. Since 0.1.
    """
