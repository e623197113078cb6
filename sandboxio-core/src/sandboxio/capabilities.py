"""Features that a backend may have; standard library only."""

import enum


class Capability(enum.Flag):
    """What a sandbox of a backend can do; what is not declared raises `CapabilityNotSupported` when used."""

    NONE = 0
    RUN_COMMAND = enum.auto()
    RUN_CODE = enum.auto()
    STATEFUL_CODE = enum.auto()
    STREAMING = enum.auto()
    FILESYSTEM = enum.auto()
    UPLOAD_DOWNLOAD = enum.auto()
    PTY = enum.auto()
    PAUSE_RESUME = enum.auto()
    SNAPSHOT_FORK = enum.auto()
    GPU = enum.auto()
    LSP = enum.auto()
    GIT = enum.auto()
    NETWORK_POLICY = enum.auto()
    TUNNELS = enum.auto()
    COST_REPORTING = enum.auto()
