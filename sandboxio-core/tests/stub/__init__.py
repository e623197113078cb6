"""An in-memory backend of the port, with a gate at every wire call."""

from .backend import StubBackend, StubConfig, StubSandbox, default_items
from .gates import Gates, Hold, raising, stalling
from .local import LocalSession
from .registration import registered
from .session import Program, StubDriver, StubSession

__all__ = [
    "Gates",
    "Hold",
    "LocalSession",
    "Program",
    "StubBackend",
    "StubConfig",
    "StubDriver",
    "StubSandbox",
    "StubSession",
    "default_items",
    "raising",
    "registered",
    "stalling",
]
