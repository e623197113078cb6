"""One secure API for running AI-agent code in any sandbox.

Importing this package loads nothing else: each public name is imported when it is first used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sandboxio.api import (
        Creation,
        ManagedSandbox,
        backend_info,
        connect,
        create,
        kill_managed,
        list_managed,
        plan,
    )
    from sandboxio.audit import (
        AuditConfig,
        AuditEvent,
        AuditSink,
        FileSink,
        LoggingSink,
        NoopSink,
        QueueSink,
    )
    from sandboxio.capabilities import Capability
    from sandboxio.connecting import Connection
    from sandboxio.errors import (
        AuditSinkError,
        AuditSinkWarning,
        AuthError,
        BackendNotFound,
        BackendNotInstalled,
        BackendUnavailable,
        BlockedByGuard,
        CapabilityNotSupported,
        ConfigurationError,
        ConnectError,
        CreateTimeout,
        CreationError,
        ExecutionError,
        ExecutionTimeout,
        FileSystemError,
        IsADirectory,
        NetworkPolicyViolation,
        NotADirectory,
        OrphanedSandboxWarning,
        PathExists,
        PathNotFound,
        PermissionDenied,
        PolicyNotEnforced,
        ProviderError,
        RateLimitError,
        ResourceLimitExceeded,
        SandboxError,
        SandboxGone,
        SandboxTimeout,
        SandboxWarning,
        UnverifiedIsolationWarning,
        WeakEnforcementWarning,
    )
    from sandboxio.isolation import IsolationTier
    from sandboxio.planning import Absent, Enforcement, Plan
    from sandboxio.plugins import register
    from sandboxio.policy import NetworkPolicy, Resources
    from sandboxio.port import BackendInfo, FileInfo
    from sandboxio.process import OutputChunk, Process
    from sandboxio.result import ExecResult, RichOutput
    from sandboxio.sandbox import Sandbox
    from sandboxio.sync import SyncFiles, SyncProcess, SyncSandbox, connect_sync, create_sync
    from sandboxio.target import BackendConfig

__version__ = "0.1.0.dev0"

_ERRORS = (
    "AuditSinkError",
    "AuditSinkWarning",
    "AuthError",
    "BackendNotFound",
    "BackendNotInstalled",
    "BackendUnavailable",
    "BlockedByGuard",
    "CapabilityNotSupported",
    "ConfigurationError",
    "ConnectError",
    "CreateTimeout",
    "CreationError",
    "ExecutionError",
    "ExecutionTimeout",
    "FileSystemError",
    "IsADirectory",
    "NetworkPolicyViolation",
    "NotADirectory",
    "OrphanedSandboxWarning",
    "PathExists",
    "PathNotFound",
    "PermissionDenied",
    "PolicyNotEnforced",
    "ProviderError",
    "RateLimitError",
    "ResourceLimitExceeded",
    "SandboxError",
    "SandboxGone",
    "SandboxTimeout",
    "SandboxWarning",
    "UnverifiedIsolationWarning",
    "WeakEnforcementWarning",
)

_AUDIT = ("AuditConfig", "AuditEvent", "AuditSink", "FileSink", "LoggingSink", "NoopSink", "QueueSink")

_WHERE = {
    **dict.fromkeys(_AUDIT, "audit"),
    **dict.fromkeys(_ERRORS, "errors"),
    **dict.fromkeys(("Creation", "ManagedSandbox", "backend_info", "connect", "create"), "api"),
    **dict.fromkeys(("kill_managed", "list_managed", "plan"), "api"),
    **dict.fromkeys(("Absent", "Enforcement", "Plan"), "planning"),
    **dict.fromkeys(("NetworkPolicy", "Resources"), "policy"),
    **dict.fromkeys(("OutputChunk", "Process"), "process"),
    **dict.fromkeys(("ExecResult", "RichOutput"), "result"),
    **dict.fromkeys(("BackendInfo", "FileInfo"), "port"),
    **dict.fromkeys(("SyncFiles", "SyncProcess", "SyncSandbox", "connect_sync", "create_sync"), "sync"),
    "BackendConfig": "target",
    "Capability": "capabilities",
    "Connection": "connecting",
    "IsolationTier": "isolation",
    "Sandbox": "sandbox",
    "register": "plugins",
}

__all__ = [
    "Absent",
    "AuditConfig",
    "AuditEvent",
    "AuditSink",
    "AuditSinkError",
    "AuditSinkWarning",
    "AuthError",
    "BackendConfig",
    "BackendInfo",
    "BackendNotFound",
    "BackendNotInstalled",
    "BackendUnavailable",
    "BlockedByGuard",
    "Capability",
    "CapabilityNotSupported",
    "ConfigurationError",
    "ConnectError",
    "Connection",
    "CreateTimeout",
    "Creation",
    "CreationError",
    "Enforcement",
    "ExecResult",
    "ExecutionError",
    "ExecutionTimeout",
    "FileInfo",
    "FileSink",
    "FileSystemError",
    "IsADirectory",
    "IsolationTier",
    "LoggingSink",
    "ManagedSandbox",
    "NetworkPolicy",
    "NetworkPolicyViolation",
    "NoopSink",
    "NotADirectory",
    "OrphanedSandboxWarning",
    "OutputChunk",
    "PathExists",
    "PathNotFound",
    "PermissionDenied",
    "Plan",
    "PolicyNotEnforced",
    "Process",
    "ProviderError",
    "QueueSink",
    "RateLimitError",
    "ResourceLimitExceeded",
    "Resources",
    "RichOutput",
    "Sandbox",
    "SandboxError",
    "SandboxGone",
    "SandboxTimeout",
    "SandboxWarning",
    "SyncFiles",
    "SyncProcess",
    "SyncSandbox",
    "UnverifiedIsolationWarning",
    "WeakEnforcementWarning",
    "backend_info",
    "connect",
    "connect_sync",
    "create",
    "create_sync",
    "kill_managed",
    "list_managed",
    "plan",
    "register",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used."""
        module = _WHERE.get(name)
        if module is None:
            raise AttributeError(f"module 'sandboxio' has no attribute {name!r}")
        import importlib

        value = getattr(importlib.import_module(f"sandboxio.{module}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """List the public names."""
        return [*__all__, "__version__"]
