"""A sandbox provider in memory, for tests of what uses sandboxes: `FakeBackend`, and the pytest fixture ``sbx_fake``.

Nothing runs and nothing is isolated: commands get the answers that a test scripted. Core is the real one, so policies,
deadlines, teardown and errors are those of any backend.
"""

from sandboxio.testing.backend import FakeBackend, FakeConfig, FakeSandbox, StartedCommand, current, use
from sandboxio.testing.clock import Clock
from sandboxio.testing.gates import POINTS, Behaviour, Gates, Hold, Point, raising, stalling, stalling_once
from sandboxio.testing.programs import Answer
from sandboxio.testing.session import FakeDriver, FakeSession

__all__ = [
    "POINTS",
    "Answer",
    "Behaviour",
    "Clock",
    "FakeBackend",
    "FakeConfig",
    "FakeDriver",
    "FakeSandbox",
    "FakeSession",
    "Gates",
    "Hold",
    "Point",
    "StartedCommand",
    "current",
    "raising",
    "stalling",
    "stalling_once",
    "use",
]
