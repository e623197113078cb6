"""An in-memory backend of the port, with a gate at every wire call."""

from sandboxio.testing.gates import POINTS, Behaviour, Gates, Hold, Point, raising, stalling, stalling_once
from sandboxio.testing.receipts import receipts as default_items

from .backend import StubBackend, StubConfig, StubSandbox
from .local import LocalSession
from .registration import register_plugin, registered
from .session import Program, StubDriver, StubSession

__all__ = [
    "BUSY",
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

BUSY = 4.0
"""Seconds beyond a short grace that a busy machine may take; a whole grace is longer."""
