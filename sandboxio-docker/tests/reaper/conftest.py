"""What the reaper's tests share."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandboxio_docker.reaper import Reaper

from .fake_engine import FakeEngine
from .owner import Owner


@pytest.fixture
def engine() -> Iterator[FakeEngine]:
    # Not `tmp_path`: a unix socket's path has room for about a hundred characters.
    with tempfile.TemporaryDirectory(prefix="sbxr") as folder:
        fake = FakeEngine(Path(folder) / "engine.sock")
        fake.start()
        yield fake
        fake.close()


@pytest.fixture
def reaper(engine: FakeEngine) -> Iterator[Reaper]:
    """A reaper of this test process, ended without reaping."""
    handle = Reaper(engine.endpoint)
    yield handle
    handle._drop_link()


@pytest.fixture
def owners() -> Iterator[list[Owner]]:
    started: list[Owner] = []
    yield started
    for owner in started:
        owner.end()
