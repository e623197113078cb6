"""The pytest plugin of core: the fixture ``sbx_fake``."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sandboxio.testing import FakeBackend


@pytest.fixture
def sbx_fake() -> "Iterator[FakeBackend]":
    """A fresh provider in memory, which ``fake://`` names while the test runs; a sandbox left alive fails the test."""
    from sandboxio.testing import FakeBackend, use

    with use(FakeBackend()) as fake:
        yield fake
    left = [sandbox.sandbox_id for sandbox in fake.alive]
    assert not left, f"the test left sandboxes alive: {', '.join(left)}; use `async with sandboxio.create(…)`"
