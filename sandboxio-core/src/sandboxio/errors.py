"""Everything sandboxio raises or warns about; standard library only.

Each error has a stable ``code``, a ``hint`` (the exact fix) and a ``url`` (its page in the repository).
None inherits from a builtin error, so that ``except TimeoutError`` never catches one by accident.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from sandboxio.result import ExecResult


class SandboxError(Exception):
    """Base of every error of sandboxio."""

    code: ClassVar[str] = "SBX_E1000"
    default_hint: ClassVar[str] = "see the cause, and what the backend itself says of it"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.default_hint

    @property
    def url(self) -> str:
        """The page about this error, relative to the repository."""
        return f"docs/errors/{self.code}.md"

    def __reduce__(self) -> "tuple[object, ...]":
        """Copy and pickle whatever arguments a class takes: an error must survive the way out of a worker process."""
        return _rebuilt, (type(self), self.args, dict(vars(self)))

    def __str__(self) -> str:
        """Render message and code, then the fix and the page."""
        lines = [f"[{self.code}] {self.message}"]
        if self.hint:
            lines.append(f"Fix: {self.hint}")
        lines.append(f"Docs: {self.url} (sandboxio errors {self.code.removeprefix('SBX_')})")
        return "\n".join(lines)


class ConfigurationError(SandboxError):
    """What the caller asked for is wrong; nothing was provisioned."""

    code = "SBX_E1000"
    default_hint = "correct the argument that the message names"


class BackendNotFound(ConfigurationError):
    """No backend of this name is known."""

    code = "SBX_E1001"


class BackendNotInstalled(ConfigurationError):
    """The backend is known, its distribution is not installed."""

    code = "SBX_E1002"


class CapabilityNotSupported(SandboxError):
    """The backend can't do this.

    :param why: ``"provider"`` if it can't be had there, ``"not_yet"`` if the adapter does not offer it yet.
    """

    code = "SBX_E1101"

    def __init__(self, message: str, *, hint: str = "", why: Literal["provider", "not_yet"] = "provider") -> None:
        super().__init__(message, hint=hint)
        self.why = why


class PolicyNotEnforced(SandboxError):
    """A policy would not be, or is not, enforced; nothing runs."""

    code = "SBX_E1102"
    default_hint = "nothing was run; choose another backend, or report this to the adapter's maintainers"


class SandboxTimeout(SandboxError):
    """Base of what a deadline raises."""

    code = "SBX_E1302"


class CreationError(SandboxError):
    """The sandbox could not be made; nothing is left of it."""

    code = "SBX_E1201"


class ConnectError(SandboxError):
    """An existing sandbox could not be reached or is not ours."""

    code = "SBX_E1202"


class CreateTimeout(CreationError, SandboxTimeout):
    """`create()` did not finish within its timeout; nothing is left of the sandbox."""

    code = "SBX_E1203"
    default_hint = "raise create(timeout=…), or prepare the image ahead of time"


class PartialOutput(SandboxError):
    """Base of errors that carry what a command had printed by then, as bytes and as text."""

    def __init__(self, message: str, *, hint: str = "", stdout: bytes = b"", stderr: bytes = b"") -> None:
        super().__init__(message, hint=hint)
        self.stdout_bytes = stdout
        self.stderr_bytes = stderr

    @property
    def stdout(self) -> str:
        """What was printed to stdout, decoded as UTF-8 with replacement."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """What was printed to stderr, decoded as UTF-8 with replacement."""
        return self.stderr_bytes.decode("utf-8", "replace")


class SandboxGone(PartialOutput):
    """The sandbox does not exist any more.

    :param reason: ``"lifetime"``, ``"killed"``, what ended it in words, or ``"unknown"``.
    """

    code = "SBX_E1204"
    default_hint = "create a new sandbox"

    def __init__(
        self, message: str, *, hint: str = "", reason: str = "unknown", stdout: bytes = b"", stderr: bytes = b""
    ) -> None:
        super().__init__(message, hint=hint, stdout=stdout, stderr=stderr)
        self.reason = reason


class BackendUnavailable(SandboxError):
    """The engine or service does not answer; the hint says how to start it."""

    code = "SBX_E1205"


class ExecutionError(SandboxError):
    """A command failed (`ExecResult.raise_for_status`) or could not be carried out."""

    code = "SBX_E1301"

    def __init__(self, message: str, *, hint: str = "", result: "ExecResult | None" = None) -> None:
        super().__init__(message, hint=hint)
        self.result = result


class ExecutionTimeout(SandboxTimeout, PartialOutput):
    """The command passed its deadline and its whole process tree was ended."""

    code = "SBX_E1302"
    default_hint = "raise timeout=… of the call, or of create()"


class NetworkPolicyViolation(SandboxError):
    """The backend reported that the network policy was violated."""

    code = "SBX_E1401"


class ResourceLimitExceeded(PartialOutput):
    """A resource cap was hit.

    :param limit: the field of `Resources`, such as ``"memory_mb"``.
    :param value: the cap that was in force, in that field's unit.
    :param result: the finished command's result, where there is one.
    """

    code = "SBX_E1402"

    def __init__(
        self,
        message: str,
        *,
        limit: str,
        value: float | None,
        result: "ExecResult | None" = None,
        hint: str = "",
        stdout: bytes = b"",
        stderr: bytes = b"",
    ) -> None:
        super().__init__(
            message,
            hint=hint or f"raise Resources({limit}=…), or make the program need less",
            stdout=result.stdout_bytes if result else stdout,
            stderr=result.stderr_bytes if result else stderr,
        )
        self.limit = limit
        self.value = value
        self.result = result


class AuthError(SandboxError):
    """A credential is missing or was refused; the message names the variable."""

    code = "SBX_E1501"


class RateLimitError(SandboxError):
    """The provider asked us to slow down."""

    code = "SBX_E1502"


class BlockedByGuard(SandboxError):
    """An organisation's guard blocked the operation."""

    code = "SBX_E1503"


class AuditSinkError(SandboxError):
    """An audit sink failed under ``on_sink_failure="fail"``; ``result`` is that of the command whose record was lost."""

    code = "SBX_E1601"
    result: "ExecResult | None" = None


class FileSystemError(SandboxError):
    """A file operation failed in the sandbox; ``errno`` is the kernel's number where there is one."""

    code = "SBX_E1700"
    default_hint = "look at the path with files.stat() or files.ls()"

    def __init__(self, message: str, *, hint: str = "", errno: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.errno = errno


class PathNotFound(FileSystemError):
    """The path does not exist."""

    code = "SBX_E1701"
    default_hint = "check the path; a relative one starts at sandbox.cwd"


class PermissionDenied(FileSystemError):
    """The path may not be used that way."""

    code = "SBX_E1702"
    default_hint = "use a place that the sandbox's user may use, or change its permissions inside"


class IsADirectory(FileSystemError):
    """A file was wanted, the path is a directory."""

    code = "SBX_E1703"
    default_hint = "name a file; for a directory use ls(), download() or remove(recursive=True)"


class NotADirectory(FileSystemError):
    """A directory was wanted, the path is something else."""

    code = "SBX_E1704"
    default_hint = "name a directory; some part of the path is a file"


class PathExists(FileSystemError):
    """The path exists already."""

    code = "SBX_E1705"
    default_hint = "choose another name, or remove what is there first"


class ProviderError(Exception):
    """Stands in for a provider's exception whose text held a secret; its text is redacted."""


class SandboxWarning(UserWarning):
    """Base of every warning of sandboxio."""


class OrphanedSandboxWarning(SandboxWarning):
    """A sandbox could not be shown to be gone; its id, backend and labels are named so that it can be reaped."""


class UnverifiedIsolationWarning(SandboxWarning):
    """A sandbox was made on a backend whose isolation is unknown."""


class WeakEnforcementWarning(SandboxWarning):
    """A network policy is enforced, with a named residual."""


class AuditSinkWarning(SandboxWarning):
    """An audit sink failed under ``on_sink_failure="warn"``."""


def _rebuilt(cls: type[SandboxError], args: tuple[object, ...], state: Mapping[str, object]) -> SandboxError:
    vars(error := cls.__new__(cls, *args)).update(state)  # it keeps the arguments as its `args`
    return error
