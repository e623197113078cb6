"""What the adapter's tests share."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandboxio_docker.backend import DockerBackend
from sandboxio_docker.config import DockerConfig

from .scripted_engine import ScriptedEngine


class RecordingReaper:
    """Stands in for the reaper and notes what it was told."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self._engine = engine
        self.told: list[tuple[object, ...]] = []

    def expect(self, name: str, expires_at: float) -> None:
        self.told.append(("expect", name, expires_at, len(self._engine.asked("POST"))))

    def have(self, name: str, container_id: str) -> None:
        self.told.append(("have", name, container_id))

    def network(self, name: str, network_id: str) -> None:
        self.told.append(("network", name, network_id))

    def disk(self, name: str, limit_bytes: int, *, speaks: bool) -> None:
        assert speaks  # each image here takes the agent
        self.told.append(("disk", name, limit_bytes))

    def forget(self, name: str) -> None:
        self.told.append(("forget", name))

    def verbs(self) -> list[object]:
        return [told[0] for told in self.told]


@pytest.fixture
def engine() -> Iterator[ScriptedEngine]:
    # Not `tmp_path`: a unix socket's path has room for about a hundred characters.
    with tempfile.TemporaryDirectory(prefix="sbxd") as folder:
        scripted = ScriptedEngine(Path(folder) / "engine.sock")
        yield scripted
        scripted.close()


@pytest.fixture
def backend(engine: ScriptedEngine) -> Iterator[DockerBackend]:
    made = DockerBackend(DockerConfig(host=engine.host))
    made._reaper = RecordingReaper(engine)  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
    yield made
    if made._engine._client is not None:
        made._engine._client[1].close()


@pytest.fixture
def reaper(backend: DockerBackend) -> RecordingReaper:
    assert isinstance(backend._reaper, RecordingReaper)
    return backend._reaper
