"""From what the SDK and its transports raise to our errors, each with its fix.

Not everything of the SDK's has its base class, and what lies below it shows through: so by class, never by text.
"""

import sys
from collections.abc import Callable

from sandboxio.errors import (
    AuthError,
    BackendUnavailable,
    CapabilityNotSupported,
    ConfigurationError,
    ConnectError,
    CreationError,
    RateLimitError,
    ResourceLimitExceeded,
    SandboxError,
    SandboxGone,
)

from sandboxio_e2b.config import KEY


class Garbled(Exception):
    """An answer that makes no sense; its cause is what reading it raised."""


class UnknownTemplate(Exception):
    """The account can look at no template of that name; its cause is what was answered."""


class NoKey(Exception):
    """There is no key for the account."""


def map_error(error: BaseException) -> SandboxError | None:
    """Translate; ``None`` for what is none of E2B's."""
    if isinstance(error, NoKey):
        return AuthError(f"E2B needs a key, and {KEY} is not set", hint=f"set {KEY} to a key of your E2B account")
    if isinstance(error, UnknownTemplate):
        return ConfigurationError(
            f"E2B knows no template {str(error)!r} that this account can look at, so its caps are unknown",
            hint="name a template of your account, or one of E2B's own: base, code-interpreter-v1",
        )
    if isinstance(error, Garbled):
        return BackendUnavailable(
            f"E2B's answer makes no sense: {error}", hint="see what stands between, and call again"
        )
    for name, make in _TABLE.items():
        module, _, cls = name.rpartition(".")
        known = getattr(sys.modules.get(module), cls, None)  # nothing raises what was not imported
        if known is not None and isinstance(error, known):
            return make(error)
    return None


def _gone(_: BaseException) -> SandboxError:
    # The SDK's own words guess at a timeout; whether it was the lifetime core tells.
    return SandboxGone("E2B knows no such sandbox that runs")


def _auth(error: BaseException) -> SandboxError:
    return AuthError(f"E2B refused the key: {error}", hint=f"set {KEY} to a valid key of your E2B account")


def _slow_down(error: BaseException) -> SandboxError:
    hint = "wait, or end sandboxes that are not needed: concurrent ones are limited, too (https://e2b.dev/docs)"
    return RateLimitError(f"E2B limits the rate of requests or the number of sandboxes: {error}", hint=hint)


def _full(error: BaseException) -> SandboxError:
    hint = "write less, or use a template with a larger disk"
    return ResourceLimitExceeded(f"the sandbox's disk is full: {error}", limit="disk_mb", value=None, hint=hint)


def _wrong(error: BaseException) -> SandboxError:
    return ConfigurationError(f"E2B refused a value: {error}", hint="correct it")


def _unreachable(error: BaseException) -> SandboxError:
    return ConnectError(f"the sandbox can't be reached: {error}", hint="call again; see the network between")


def _silent(error: BaseException) -> SandboxError:
    return BackendUnavailable(f"E2B did not answer in time: {error}", hint="call again; see https://status.e2b.dev")


def _down(error: BaseException) -> SandboxError:
    return BackendUnavailable(f"E2B can't be reached: {error}", hint="see the network between, proxies and the address")


def _other(error: BaseException) -> SandboxError:
    status = getattr(error, "status_code", None)
    if status == 404:
        return CreationError(f"E2B has no such thing: {error}", hint="check the template's name in template=")
    if status in (400, 422):
        hint = "see the limits of your E2B plan: Hobby sandboxes live for an hour at the most"
        return ConfigurationError(f"E2B refused the request: {error}", hint=hint)
    if status == 403:
        return AuthError(f"E2B does not allow this with the key: {error}", hint=f"set {KEY} to a key that may do it")
    if status == 501:
        return CapabilityNotSupported(f"this server can't do it: {error}", hint="use E2B's own, or a newer one")
    return BackendUnavailable(f"E2B failed: {error}", hint="call again; see https://status.e2b.dev")


_TABLE: dict[str, Callable[[BaseException], SandboxError]] = {
    "e2b.exceptions.SandboxNotRunningException": _gone,
    "e2b.exceptions.SandboxNotFoundException": _gone,
    "e2b.exceptions.SandboxUnreachableException": _unreachable,
    "e2b.exceptions.TimeoutException": _silent,
    "e2b.exceptions.AuthenticationException": _auth,
    "e2b.exceptions.RateLimitException": _slow_down,
    "e2b.exceptions.NotEnoughSpaceException": _full,
    "e2b.exceptions.InvalidArgumentException": _wrong,
    "e2b.exceptions.ServiceBusyException": _silent,
    "e2b.exceptions.SandboxException": _other,
    "connectrpc.errors.ConnectError": _unreachable,
    "httpx.TimeoutException": _silent,
    "httpx.HTTPError": _down,
    "httpx.InvalidURL": _wrong,
    "pyqwest.ReadError": _unreachable,
    "pyqwest.WriteError": _unreachable,
    "pyqwest.StreamError": _unreachable,
    "builtins.ConnectionError": _down,
    "builtins.TimeoutError": _silent,
}
"""In this order: what is special comes before what it is a kind of."""
