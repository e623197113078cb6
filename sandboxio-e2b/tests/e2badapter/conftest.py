"""What every test here needs: root for the emulator's sandboxes, its key, and no proxy on the way to it."""

from collections.abc import Iterator

import pytest

from .emulator.emulator import KEY, Emulator
from .emulator.ground import target


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    made = Emulator()
    yield made
    made.close()


@pytest.fixture
def dsn(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name, value in {"E2B_API_KEY": KEY, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    for sandbox_id in emulator.sights():
        emulator.end(sandbox_id)
    emulator.recorder.forget()
    yield target(emulator)
    emulator.faults.clear()
    emulator.recorder.open_gates()
