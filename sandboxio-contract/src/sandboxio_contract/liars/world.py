"""What the stub's provider holds: sandboxes in memory, a record of requests, and gates."""

import os
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from sandboxio_contract.ground.wire import Call, Gate, Place

FOLDER = "sandboxio-stub-"
"""How a sandbox's folder begins; its id follows."""


@dataclass(slots=True)
class Record:
    """One sandbox as its world holds it."""

    identity: str
    name: str
    labels: Mapping[str, str]
    expires_at: float
    folder: str
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list["subprocess.Popen[bytes]"])
    is_over: bool = False

    def end(self) -> None:
        """End every process."""
        self.is_over = True
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if process.stdin is not None:
                with suppress(OSError):
                    process.stdin.close()


class World:
    """What the provider holds, its recorder and its gates; one per backend name.

    :ivar known: every sandbox that it ever made; those of another process have a folder only.
    :ivar offers: ``"broker"`` and ``"count"`` where it has a broker for secrets, or counts what it blocks.
    :ivar brokered: the broker's secrets, by sandbox. :ivar stored: places in lasting storage. :ivar denials: the counts.
    """

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.forgotten: set[str] = set()
        self.known: set[str] = set()
        self.enforces_lifetime = True
        self.offers: set[str] = set()
        self.brokered: dict[str, Mapping[str, str]] = {}
        self.stored: dict[str, str] = {}
        self.denials: dict[str, int] = {}
        self._calls: list[Call] = []
        self._gates: list[Gate] = []
        self._lock = threading.Lock()

    @property
    def calls(self) -> tuple[Call, ...]:
        """The requests so far."""
        return tuple(self._calls)

    def gate(self, matches: Callable[[Call], bool], place: Place) -> Gate:
        """Hold each matching request from now on."""
        gate = Gate(matches, place)
        self._gates.append(gate)
        return gate

    def open_gates(self) -> None:
        """Let everything through and forget the gates."""
        for gate in self._gates:
            gate.open()
        self._gates.clear()

    def make(self, name: str, labels: Mapping[str, str], lifetime: float) -> str:
        """Carry out a creation; it blocks at gates."""
        call = self._asked("POST", "/sandboxes")
        identity = uuid.uuid4().hex
        with self._lock:
            folder = tempfile.mkdtemp(prefix=f"{FOLDER}{identity}-")
            self.known.add(identity)
            self.records[identity] = Record(identity, name, dict(labels), time.time() + lifetime, folder)
        if self.enforces_lifetime:
            timer = threading.Timer(lifetime, self.drop, (identity,))
            timer.daemon = True
            timer.start()
        self._answered(call)
        return identity

    def remove(self, identity: str) -> None:
        """Carry out a removal; what is gone is success."""
        call = self._asked("DELETE", f"/sandboxes/{identity}")
        self.drop(identity)
        self._answered(call)

    def drop(self, identity: str) -> None:
        """Remove a sandbox without a request."""
        with self._lock:
            record = self.records.pop(identity, None)
        if record is not None:
            record.end()
            subprocess.run(["rm", "-rf", "--", record.folder], check=False)

    def look(self, identity: str) -> Record | None:
        """Return one sandbox that lives."""
        self._answered(self._asked("GET", f"/sandboxes/{identity}"))
        record = self.records.get(identity)
        if record is not None and time.time() >= record.expires_at:
            self.drop(identity)
            return None
        return record

    def _asked(self, method: str, path: str) -> Call:
        call = Call(method, path)
        self._calls.append(call)
        for gate in tuple(self._gates):
            gate.pass_through(call, "before send")
        return call

    def _answered(self, call: Call) -> None:
        for gate in tuple(self._gates):
            gate.pass_through(call, "after commit")


worlds: dict[str, World] = {}
