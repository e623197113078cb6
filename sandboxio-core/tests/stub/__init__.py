"""An in-memory backend of the port, with a gate at every wire call."""

from .backend import StubBackend, StubConfig, StubSandbox, default_items
from .gates import POINTS, Behaviour, Gates, Hold, Point, raising, stalling, stalling_once
from .local import LocalSession
from .registration import register_plugin, registered
from .session import Program, StubDriver, StubSession

__all__ = [
    "POINTS",
    "Behaviour",
    "Gates",
    "Hold",
    "LocalSession",
    "Point",
    "Program",
    "StubBackend",
    "StubConfig",
    "StubDriver",
    "StubSandbox",
    "StubSession",
    "default_items",
    "raising",
    "register_plugin",
    "registered",
    "stalling",
    "stalling_once",
]
