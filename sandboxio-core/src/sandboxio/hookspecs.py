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
    from sandboxio.audit import AuditSink
    from sandboxio.guards import ExecRequest, Verdict
    from sandboxio.port import Backend, BackendInfo
    from sandboxio.spec import SandboxSpec
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


@hookspec
def sandboxio_review_create(spec: "SandboxSpec") -> "Verdict | Any":
    """Review a sandbox before it is made; for organisations, see `sandboxio.guards`.

    Called once per `create`, after every argument was validated and before anything is asked of the provider, in a
    worker thread, for at most ``$SBX_GUARD_TIMEOUT`` seconds.

    :param spec: frozen; its secrets are masked.
    :return: `Allow`, `Block` or `NeedsApproval`; anything else, an exception or no answer blocks. Since 0.1.
    """


@hookspec
def sandboxio_review_exec(request: "ExecRequest") -> "Verdict | Any":
    """Review a command before it is started; as `sandboxio_review_create`.

    :param request: frozen; it names the variables of the command and holds no value of them.
    :return: `Allow`, `Block` or `NeedsApproval`. Since 0.1.
    """


@hookspec
def sandboxio_audit_sink() -> "AuditSink | Any":
    """Return a sink that gets the records of every sandbox of the process, beside those of its own `AuditConfig`.

    Called once, before the first sandbox is made, in a worker thread. Since 0.1.
    """
