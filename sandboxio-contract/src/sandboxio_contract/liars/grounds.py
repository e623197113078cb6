"""The ground of the stub and its liars: their world itself."""

import contextlib
import shutil
import tempfile
from collections.abc import Generator, Mapping, Set
from pathlib import Path

from sandboxio_contract.ground.base import Ground, Object, Spied
from sandboxio_contract.ground.wire import Call
from sandboxio_contract.liars.stub import ABSENT
from sandboxio_contract.liars.world import FOLDER, World, worlds


class StubGround(Ground):
    """Looks into the world of the stub of one name."""

    def __init__(self, name: str) -> None:
        super().__init__("stub")
        self._name = name

    @property
    def _world(self) -> World:
        return worlds.setdefault(self._name, World())

    def objects(self, mark: Mapping[str, str]) -> list[Object]:
        """Return the sandboxes that carry the labels."""
        found = list(self._world.records.values())
        return [Object("sandbox", one.identity, "running") for one in found if mark.items() <= one.labels.items()]

    def exists(self, sandbox_id: str) -> bool:
        """Whether the world holds it; that of another process shows by its folder."""
        world = self._world
        return sandbox_id in world.records or (sandbox_id not in world.known and bool(_folders(sandbox_id)))

    def lose(self, sandbox_id: str) -> None:
        """Drop it."""
        self._world.drop(sandbox_id)
        for folder in _folders(sandbox_id):
            shutil.rmtree(folder, ignore_errors=True)

    def inspect(self, sandbox_id: str) -> Mapping[str, object]:
        """Return its labels."""
        return {"Metadata": dict(self._world.records[sandbox_id].labels)}

    def brokered(self, sandbox_id: str) -> Set[str] | None:
        """Return what the world's broker holds."""
        world = self._world
        return frozenset(world.brokered.get(sandbox_id, ())) if "broker" in world.offers else None

    def storage(self, sandbox_id: str) -> str | None:
        """Return the place in the world's volume."""
        return self._world.stored.get(sandbox_id)

    def blocked_attempt(self, sandbox_id: str) -> int | None:
        """Count one, where the world counts; nothing is sent anywhere."""
        world = self._world
        if "count" not in world.offers:
            return None
        world.denials[sandbox_id] = world.denials.get(sandbox_id, 0) + 1
        return world.denials[sandbox_id]

    def absent_template(self) -> str:
        """Return the template that no stub has."""
        return f"{self._name}://{ABSENT}"

    @contextlib.contextmanager
    def spied(self) -> Generator[Spied]:
        """Return the world's own record of requests."""
        world = self._world
        try:
            yield Spied(f"{self._name}://", world, _creates, _destroys)
        finally:
            world.open_gates()

    def close(self) -> None:
        """End what liars left alive."""
        world = self._world
        for identity in list(world.records):
            world.drop(identity)


def _folders(sandbox_id: str) -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"{FOLDER}{sandbox_id}-*"))


def _creates(call: Call) -> bool:
    return call.method == "POST"


def _destroys(call: Call) -> bool:
    return call.method == "DELETE"
