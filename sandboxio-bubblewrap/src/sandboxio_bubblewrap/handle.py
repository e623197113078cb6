"""What the adapter calls: the one warden of this process, started with the first sandbox."""

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from sandboxio_bubblewrap import state
from sandboxio_bubblewrap.warden import MESSAGE

ANSWER = 15.0
"""Seconds for the answer to one request; it takes some thousandths, and waits behind others."""
START = 10.0
KEPT_VARIABLES = ("LD_LIBRARY_PATH",)
"""All that a Python may need to start: the warden must not carry its owner's credentials."""


class WardenLost(Exception):
    """The warden is gone, and all its sandboxes with it, or it does not answer."""


class WardenRefuses(Exception):
    """The warden could not do what was asked; its text is the kernel's."""


class Handle:
    """This process's end. Every method may be called from any thread, and waits for the answer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._owner = 0
        self._count = 0

    def start(self, order: Mapping[str, object], descriptors: Sequence[int]) -> int:
        """Make a sandbox and return its first process.

        :param order: see `warden`. :param descriptors: see `warden.FIXED`; they stay this process's own.
        :raises WardenRefuses: it could not be made. :raises WardenLost: no warden can be had.
        """
        memory = os.memfd_create("order", os.MFD_CLOEXEC)
        try:
            with open(os.dup(memory), "w", encoding="utf-8") as file:  # noqa: PTH123 - it has no path
                json.dump(order, file)
            os.lseek(memory, 0, os.SEEK_SET)
            answer = self._ask({"do": "start"}, (memory, *descriptors), fresh=True)
        finally:
            os.close(memory)
        pid = answer["pid"]
        assert isinstance(pid, int)
        return pid

    def link(self, name: str, pid: int) -> None:
        """Have a sandbox's network namespace linked to the outside as its record says.

        :param pid: its own first process. :raises WardenRefuses: it can't be.
        """
        if not self._ask({"do": "link", "name": name, "pid": pid}, (), fresh=False)["known"]:
            raise WardenRefuses("it ended before it had its network")

    def end(self, name: str) -> bool:
        """Have a sandbox ended; false if it is none of this process's."""
        try:
            return bool(self._ask({"do": "end", "name": name}, (), fresh=False)["known"])
        except WardenLost:
            return False

    def _ask(self, message: dict[str, object], descriptors: Sequence[int], *, fresh: bool) -> dict[str, object]:
        with self._lock:
            if self._owner != os.getpid():  # after a fork the child has sandboxes of its own, none at first
                self._hang_up()
            if self._socket is None:
                if not fresh:
                    raise WardenLost("there is no warden")
                self._socket, self._owner = _started(), os.getpid()
                atexit.register(self._hang_up)
            try:
                return self._exchanged(self._socket, message, descriptors)
            except OSError as error:
                self._hang_up()
                raise WardenLost(f"the warden is gone: {error}") from error

    def _exchanged(
        self, sock: socket.socket, message: dict[str, object], descriptors: Sequence[int]
    ) -> dict[str, object]:
        self._count += 1
        socket.send_fds(sock, [json.dumps({"n": self._count, **message}).encode()], list(descriptors))
        while True:
            data = sock.recv(MESSAGE)
            if not data:
                raise ConnectionResetError("it has ended")
            answer: dict[str, object] = json.loads(data)
            if answer["n"] != self._count:
                continue  # the answer to a call that was interrupted
            if "error" in answer:
                raise WardenRefuses(str(answer["error"]))
            return answer

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _started() -> socket.socket:
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(ANSWER)
    with its:
        start = state.start_of(os.getpid())
        argv = [
            sys.executable,
            "-I",
            "-S",
            str(Path(__file__).with_name("launch.py")),
            str(its.fileno()),
            str(os.getpid()),
        ]
        kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        try:
            subprocess.run(
                [*argv, str(start)],
                pass_fds=(its.fileno(),),
                env=kept,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                timeout=START,
                check=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            ours.close()
            raise WardenLost(f"the warden could not be started: {error}") from error
    return ours


_handle = Handle()


def handle() -> Handle:
    """Return the one handle of this process."""
    return _handle
