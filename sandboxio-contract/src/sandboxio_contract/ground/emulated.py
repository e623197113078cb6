"""The ground of an emulated provider: asked directly, in this process, never through the adapter."""

import contextlib
import json
import os
import subprocess
import zipfile
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sandboxio_contract.emulation import Guest, Machine, Outside, Recorder
from sandboxio_contract.emulation.reference import EmulatedNetwork
from sandboxio_contract.ground.base import Ground, NetworkGround, Object, Spied
from sandboxio_contract.ground.dsn import with_template
from sandboxio_contract.ground.wire import Call
from sandboxio_contract.verdict import Inconclusive

_WHERE = "import site; print(site.getusersitepackages())"
_GUESTS = {"HOME": Machine().home, "PATH": "/usr/bin:/bin"}


@dataclass(frozen=True, slots=True)
class Sight:
    """One sandbox of an emulated provider.

    :param metadata: the caller's labels, the adapter's own left out.
    :param caps: what the provider says its caps are, by policy item.
    :param told: everything that the provider tells about it.
    """

    state: str
    metadata: Mapping[str, str]
    guest: Guest
    address: str
    caps: Mapping[str, float]
    told: Mapping[str, object]


class Emulated(Protocol):
    """What an emulator offers to the ground; all of it may be called from any thread."""

    @property
    def recorder(self) -> Recorder:
        """What was said on the wire."""
        ...

    def outside(self) -> Outside:
        """Return what its sandboxes reach."""
        ...

    def sights(self) -> Mapping[str, Sight]:
        """Return every sandbox by its id."""
        ...

    def template_with(self, files: Mapping[str, bytes]) -> AbstractContextManager[str]:
        """Have a template whose sandboxes hold these files of the ordinary user's, for the block. Yields its name."""
        ...

    def end(self, sandbox_id: str) -> None:
        """End a sandbox behind its owner's back; one that is gone is ended."""
        ...

    def close(self) -> None:
        """End everything."""
        ...


class EmulatedGround(Ground):
    """Looks into an emulator that stands for as long as the target is judged.

    :param dsn: the target, by which the adapter reaches the emulator.
    :param absent: the same with a template that the provider has not.
    :param creates: whether a request makes a sandbox.
    :param destroys: whether one ends it.
    :param alters: whether one changes what a sandbox that exists may reach.
    :param environment: the variables that the account's key is in, for as long as a row is judged.
    """

    emulator = True
    fetches = False
    outlives_owner = True

    def __init__(
        self,
        kind: str,
        dsn: str,
        provider: Emulated,
        *,
        absent: str,
        creates: Callable[[Call], bool],
        destroys: Callable[[Call], bool],
        alters: Callable[[Call], bool],
        environment: Mapping[str, str],
    ) -> None:
        super().__init__(kind)
        self._environment = {**environment, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        self.provider = provider
        self._dsn, self._absent = dsn, absent
        self._spied = (creates, destroys, alters)
        self._network: EmulatedNetwork | None = None

    @contextlib.contextmanager
    def surroundings(self) -> Generator[None]:
        """Have the emulator's key, and no proxy on the way to it."""
        kept = {name: os.environ.get(name) for name in self._environment}
        os.environ.update(self._environment)
        try:
            yield
        finally:
            for name, value in kept.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

    def objects(self, mark: Mapping[str, str]) -> list[Object]:
        """Return sandboxes of any state that carry the metadata."""
        sights = self.provider.sights().items()
        return [Object("sandbox", name, one.state) for name, one in sights if mark.items() <= one.metadata.items()]

    def exists(self, sandbox_id: str) -> bool:
        """Whether the provider still has it."""
        return sandbox_id in self.provider.sights()

    def lose(self, sandbox_id: str) -> None:
        """End it behind the adapter's back."""
        self.provider.end(sandbox_id)

    def inspect(self, sandbox_id: str) -> Mapping[str, object]:
        """Return what the provider tells, and the caller's labels as ``Metadata``."""
        sight = self._sight(sandbox_id)
        return {**sight.told, "Metadata": dict(sight.metadata)}

    def processes(self, sandbox_id: str) -> int:
        """Return how many processes share the sandbox's network on this host, its holder left out."""
        holder = self._sight(sandbox_id).guest.pid
        own = os.stat(f"/proc/{holder}/ns/net").st_ino  # noqa: PTH116
        return sum(_namespace(pid) == own for pid in os.listdir("/proc") if pid.isdigit()) - 1  # noqa: PTH208

    def status(self, sandbox_id: str) -> str:
        """Return what this host's kernel says of the first process."""
        holder = self._sight(sandbox_id).guest.pid
        children = Path(f"/proc/{holder}/task/{holder}/children").read_text(encoding="ascii").split()
        return Path(f"/proc/{children[0]}/status").read_text(encoding="utf-8")

    def address(self, sandbox_id: str) -> str:
        """Return its address."""
        return self._sight(sandbox_id).address

    def caps(self, sandbox_id: str) -> Mapping[str, float]:
        """Return what the provider says."""
        return self._sight(sandbox_id).caps

    def networking(self, sandbox_id: str) -> str:
        """Return the filter that stands in the sandbox's namespace."""
        return EmulatedNetwork(self.provider.outside(), self.guest).rules(sandbox_id)

    def description(self, sandbox_id: str) -> str:
        """Return everything that the provider tells, and what was said to it but for each command's own environment."""
        return json.dumps([sandbox_id, self._sight(sandbox_id).told])

    def brokered(self, sandbox_id: str) -> None:
        """Return nothing: no broker is emulated."""

    def storage(self, sandbox_id: str) -> None:
        """Return nothing: what a sandbox writes goes with it."""

    def blocked_attempt(self, sandbox_id: str) -> None:
        """Return nothing: nothing counts what is blocked."""

    def absent_template(self) -> str:
        """Return the target with a template that the provider has not."""
        return self._absent

    @contextlib.contextmanager
    def prepared(self, wheels: Path, package: str) -> Generator[str]:
        """Unpack a package's wheels where the guests' Python looks for what its user installed."""
        asked = subprocess.run(["python3", "-c", _WHERE], capture_output=True, text=True, check=True, env=_GUESTS)
        files: dict[str, bytes] = {}
        for wheel in wheels.glob(f"{package}-*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                files |= {f"{asked.stdout.strip()}/{name}": archive.read(name) for name in archive.namelist()}
        with self.provider.template_with(files) as name:
            yield with_template(self._dsn, name)

    @contextlib.contextmanager
    def spied(self) -> Generator[Spied]:
        """Return the emulator's own recorder."""
        try:
            yield Spied(self._dsn, self.provider.recorder, *self._spied)
        finally:
            self.provider.recorder.open_gates()

    def network(self) -> NetworkGround:
        """Return the arena that the sandboxes reach, whose canary answers for every address."""
        if self._network is None:
            self._network = EmulatedNetwork(self.provider.outside(), self.guest)
        return self._network

    def release_network(self) -> None:
        """End the listeners of rows; the arena stays, since the sandboxes are in it."""
        if self._network is not None:
            self._network.close()
            self._network = None

    def close(self) -> None:
        """End the emulator."""
        self.release_network()
        self.provider.close()

    def guest(self, sandbox_id: str) -> Guest:
        """Return what a sandbox is made of."""
        return self._sight(sandbox_id).guest

    def _sight(self, sandbox_id: str) -> Sight:
        found = self.provider.sights().get(sandbox_id)
        if found is None:
            raise Inconclusive(f"the emulator does not know {sandbox_id[:12]}")
        return found


def _namespace(pid: str) -> int | None:
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino  # noqa: PTH116
    except OSError:
        return None
