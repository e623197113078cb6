"""The table from what bwrap, the warden and the kernel say to what sandboxio raises."""

import anyio
from sandboxio.agent.session import AgentUnfit
from sandboxio.errors import BackendUnavailable, ConnectError, CreationError, SandboxError

from sandboxio_bubblewrap.handle import WardenLost, WardenRefuses

CONNECTION_LOST = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)

_FORBIDDEN = (
    "as root: sysctl user.max_user_namespaces=15000 kernel.unprivileged_userns_clone=1 (where there are such); where AppArmor"
    " restricts them (Ubuntu 24.04): sysctl kernel.apparmor_restrict_unprivileged_userns=0, or give bwrap a profile that allows"
    " userns; in a container: start it with --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
)
_PROC = "in a container: start it with --security-opt systempaths=unconfined, so that a /proc of the sandbox's own can be mounted"
_SAYINGS = {
    "No permissions to create new namespace": _FORBIDDEN,
    "Creating new namespace failed": _FORBIDDEN,
    "setting up uid map": _FORBIDDEN,
    "Failed to make / slave": _FORBIDDEN,
    "Can't mount proc": _PROC,
}
"""What bwrap says where the machine does not let it work, and what to do about it."""


class NotStarted(Exception):
    """bwrap ended before the sandbox was there; its text is bwrap's own."""


def map_error(error: BaseException) -> SandboxError | None:
    """Translate an exception; ``None`` if it is none of this adapter's."""
    if isinstance(error, SandboxError):
        return error
    if isinstance(error, NotStarted):
        return _not_started(str(error))
    if isinstance(error, WardenLost):
        return BackendUnavailable(str(error), hint="see why a Python child process can't be started or is killed here")
    if isinstance(error, WardenRefuses):
        return CreationError(
            f"the sandbox could not be made: {error}",
            hint="see whether this user may still write to the control groups named here, and start processes",
        )
    if isinstance(error, AgentUnfit):
        return CreationError(
            f"no agent could be started in the sandbox: {error.reason}",
            hint="use a template whose python3 has ctypes, or the machine's own programs: bubblewrap://",
        )
    if isinstance(error, CONNECTION_LOST):
        return ConnectError("the connection to the sandbox was lost", hint="create a new sandbox")
    if isinstance(error, OSError):
        return BackendUnavailable(
            f"this machine does not let sandboxes be looked after: {error}",
            hint="see the permissions of what is named here",
        )
    return None


def _not_started(said: str) -> SandboxError:
    for words, fix in _SAYINGS.items():
        if words in said:
            return BackendUnavailable(f"bubblewrap can't make sandboxes here: {said}", hint=fix)
    return CreationError(
        f"bubblewrap could not make the sandbox: {said or 'it said nothing'}",
        hint="see whether the template holds all that is named here",
    )
