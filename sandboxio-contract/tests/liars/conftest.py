"""What rows wait for is cut short: whoever lies, and the stub, needs no more of it."""

import pytest
from sandboxio_contract.rows import (
    caps,
    disk,
    facade,
    inside,
    leftovers,
    lifetime,
    owner,
    records,
    secrets,
    streams,
    sweep,
    teardown,
    timeouts,
    transfers,
)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have rows wait for less."""
    for module in (facade, secrets, timeouts):
        monkeypatch.setattr(module, "DEADLINE", 0.5)
    monkeypatch.setattr(timeouts, "HANGS", 1.0)
    monkeypatch.setattr(timeouts, "BESIDE", 3.0)
    monkeypatch.setattr(timeouts, "LIVES_ON", 1.0)
    monkeypatch.setattr(caps, "ENDLESS", 1.0)
    monkeypatch.setattr(lifetime, "LIFE", 2.0)
    monkeypatch.setattr(streams, "SLEEPS", 2.5)
    monkeypatch.setattr(sweep, "DELAYS", 2 * sweep.AT_ONCE)
    monkeypatch.setattr(sweep, "GIVEN_UP", 0.5)
    monkeypatch.setattr(sweep, "HELD", 0.05)
    monkeypatch.setattr(teardown, "SHORT_GRACE", 1.0)
    monkeypatch.setattr(teardown, "NAP", 0.05)
    monkeypatch.setattr(transfers, "SIZE_MB", 160)  # enough to show a growth of 64
    monkeypatch.setattr(owner, "MANY", 4)
    monkeypatch.setattr(owner, "AWAY", 6.0)
    monkeypatch.setattr(disk, "HOLD", 10)  # the honest reaper has looked four times
    monkeypatch.setattr(disk, "REST", 3)


@pytest.fixture
def haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the end of what is in memory less time."""
    monkeypatch.setenv("SBX_TEARDOWN_GRACE", "1.5")
    monkeypatch.setattr(inside.gone, "__defaults__", (0.5,))
    for module in (leftovers, lifetime, records, sweep, teardown, timeouts):
        monkeypatch.setattr(module, "GRACE", 2.5)
