"""The answering processes that a supervisor keeps: forked from it, and dead the moment it is."""

import contextlib
import json
import os
import signal
import socket
from collections.abc import Callable
from typing import cast

from sandboxio_contract.network.canary import Responder
from sandboxio_contract.network.kernel import NEW_NET, die_with, unshare
from sandboxio_contract.network.reason import NotProvable

_SECONDS = 5.0


class Server:
    """One forked process that answers probes. It comes up in two steps, so that its namespace can be furnished between."""

    def __init__(self, prepare: Callable[[], Responder], *, namespace: bool) -> None:
        self._control, theirs = socket.socketpair()
        self._control.settimeout(_SECONDS)
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            self._control.close()
            _child(prepare, theirs, parent, namespace=namespace)
        theirs.close()
        self._lines = self._control.makefile("rb")
        self._expect(b"unshared")

    def open(self) -> None:
        """Let it open its sockets.

        :raises NotProvable: with code `canary`, if it can't.
        """
        self._control.sendall(b"g")
        self._expect(b"open")

    def report(self) -> dict[str, list[object]]:
        """Ask what it saw.

        :raises NotProvable: with code `canary`, if it is dead: then its silence means nothing.
        """
        try:
            self._control.sendall(b"?")
            return cast("dict[str, list[object]]", json.loads(self._lines.readline()))
        except (OSError, ValueError) as error:
            raise NotProvable("canary", "a server of the suite died during the run") from error

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self._lines.close()
        self._control.close()

    def _expect(self, word: bytes) -> None:
        try:
            line = self._lines.readline().strip()
        except OSError as error:
            raise NotProvable("canary", "a server of the suite did not come up in time") from error
        if line != word:
            raise NotProvable("canary", f"a server of the suite did not come up: {line.decode() or 'it died'}")


def _child(prepare: Callable[[], Responder], control: socket.socket, parent: int, *, namespace: bool) -> None:
    """Serve until the supervisor is gone; never returns."""
    try:
        die_with(parent)
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1):  # the owner's pipes: held here they would never end
            os.dup2(nothing, descriptor)
        if namespace:
            unshare(NEW_NET)
        control.sendall(b"unshared\n")
        if control.recv(1) == b"g":
            responder = prepare()
            control.sendall(b"open\n")
            responder.serve(control)
    except OSError as error:
        with contextlib.suppress(OSError):
            control.sendall(f"{error}\n".encode())
    finally:
        os._exit(0)
