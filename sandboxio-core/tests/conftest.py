"""What core's tests share."""

import pytest

from .stub import StubBackend, registered


@pytest.fixture
def stub() -> StubBackend:
    """A fresh backend, named by the target ``f"{stub.info.name}://"``."""
    return registered()


@pytest.fixture
def target(stub: StubBackend) -> str:
    return f"{stub.info.name}://"


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> float:
    """A teardown grace that a test can wait for."""
    monkeypatch.setenv("SBX_TEARDOWN_GRACE", "0.4")
    return 0.4


@pytest.fixture(autouse=True)
def no_variables_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SANDBOXIO_BACKEND", "SBX_TEARDOWN_GRACE", "STUB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
