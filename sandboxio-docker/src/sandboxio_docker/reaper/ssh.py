"""A connection to the engine through the system's ssh: a program whose stdin and stdout are one socket.

Standard library only: the reaper's process imports this too, where it is needed.
"""

import os
import signal
import socket
import subprocess
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress

CONNECT_S = 15.0
PING = b"HEAD /_ping HTTP/1.1\r\nHost: docker\r\n\r\n"
"""Asked first: its answer shows that ssh got through, and nothing was asked of the engine if it did not."""
MAX_HEAD = 16 * 1024
MAX_WORDS = 4096
SILENT = "ssh ended without a word"
FIRST_PAUSE_S = 0.2
# sshd drops connections at random while ten others log in (MaxStartups 10:30:100, its default).
_BUSY = "kex_exchange_identification"

_children: "list[tuple[int, subprocess.Popen[bytes]]]" = []
"""Programs that were left or ended and are still to be waited for, and whose they are; no task or thread waits for them."""


class SshFailed(ConnectionError):
    """Ssh did not get through to an engine; the message is what it said itself."""

    @property
    def is_busy(self) -> bool:
        """Whether the other side had too many logins at that moment."""
        return _BUSY in str(self)


class Tunnel:
    """One running ssh.

    :ivar sock: the connection; whoever uses it closes it, then calls `leave` or `end`.
    """

    def __init__(self, command: Sequence[str]) -> None:
        """Start it.

        :raises SshFailed: there is no such program.
        """
        _reap()
        self.sock, theirs = socket.socketpair()
        try:
            with theirs:
                self._process: subprocess.Popen[bytes] = subprocess.Popen(
                    command,
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=subprocess.PIPE,
                    start_new_session=True,  # Ctrl-C is not meant for it, and no terminal is there to ask for a password
                )
        except BaseException as error:
            self.sock.close()
            if isinstance(error, OSError):
                problem = f"the program {command[0]} can't be started: {error.strerror}"
                raise SshFailed(problem) from None
            raise
        self._owner = os.getpid()
        self._words = b""

    @property
    def code(self) -> int | None:
        """How it ended; ``None`` while it runs. It is not waited for yet: `end` still means its number."""
        if self._process.returncode is None:
            with suppress(ChildProcessError):  # waited for by another thread just now
                ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if ended is None:
                    return None
                return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        return self._process.poll()

    def failure(self) -> SshFailed:
        """Return the error for a connection that ended, in ssh's own words."""
        return SshFailed(self.words() or SILENT)

    def words(self) -> str:
        """Return what it wrote to stderr until now; from the other side too, so only printable characters."""
        assert self._process.stderr is not None
        with suppress(BlockingIOError, ValueError):  # nothing yet, or closed
            fd = self._process.stderr.fileno()
            os.set_blocking(fd, False)
            self._words += os.read(fd, MAX_WORDS - len(self._words))
        text = self._words.decode("utf-8", "replace")
        return " ".join("".join(char if char.isprintable() else " " for char in text).split())

    def leave(self) -> None:
        """Let it end by itself, now that its socket is closed or only an answer is still to come."""
        if (
            self._owner == os.getpid()
        ):  # a forked child has a copy of the socket, and its parent's ssh is none of its own
            _children.append((self._owner, self._process))
            _reap()

    def end(self) -> None:
        """End it at once, with what it started."""
        if self._owner != os.getpid():
            return
        if self._process.returncode is None:  # its number is still its own, also where it ended by itself just now
            os.killpg(self._process.pid, signal.SIGKILL)
        assert self._process.stderr is not None
        self._process.stderr.close()
        self.leave()


class Connection(socket.socket):
    """A connection that is closed as a whole, at the latest with this process, unless that is killed.

    The end of its input alone ends ssh only once the other side ends too, and an engine never ends a stream that was
    attached to a container in its last moment (seen with Docker 20.10, 2026-11).
    """

    def __init__(self, tunnel: Tunnel) -> None:
        timeout = tunnel.sock.gettimeout()
        super().__init__(fileno=tunnel.sock.detach())
        self.settimeout(timeout)
        self._end = weakref.finalize(self, tunnel.end)

    def close(self) -> None:
        """Close it and end the program."""
        super().close()
        self._end()


def dial(command: Sequence[str], timeout: float) -> Tunnel:
    """Return a connection on which an engine has answered.

    :raises SshFailed: with ssh's own words.
    :raises TimeoutError: not within ``timeout`` seconds.
    """
    deadline, pause = time.monotonic() + timeout, FIRST_PAUSE_S
    while True:
        tunnel = Tunnel(command)
        try:
            _greet(tunnel, deadline)
        except BaseException as error:
            tunnel.sock.close()
            tunnel.end()
            if not isinstance(error, SshFailed) or not error.is_busy or time.monotonic() + pause > deadline:
                raise
        else:
            return tunnel
        time.sleep(pause)
        pause *= 2


def check_greeting(head: bytes, tunnel: Tunnel) -> bool:
    """Return whether the answer to `PING` is there, as far as ``head`` goes.

    :raises SshFailed: something else answers.
    """
    if not b"HTTP/1.".startswith(head[:7]):
        problem = f"what answers is no Docker engine: {head[:80]!r} {tunnel.words()}".strip()
        raise SshFailed(problem)
    if len(head) > MAX_HEAD:
        problem = "what answers is no Docker engine: its answer does not end"
        raise SshFailed(problem)
    return head.endswith(b"\r\n\r\n")


def _greet(tunnel: Tunnel, deadline: float) -> None:
    head = b""
    try:
        tunnel.sock.settimeout(max(deadline - time.monotonic(), 0.001))
        tunnel.sock.sendall(PING)
        while not check_greeting(head, tunnel):
            tunnel.sock.settimeout(max(deadline - time.monotonic(), 0.001))
            piece = tunnel.sock.recv(4096)
            if not piece:
                raise tunnel.failure()
            head += piece
    except (BrokenPipeError, ConnectionResetError):
        raise tunnel.failure() from None


def _reap() -> None:
    for child in tuple(_children):
        process = child[1]
        if process.poll() is not None and child in _children:
            _children.remove(child)
            if process.stderr is not None:
                process.stderr.close()


def _end_all() -> None:
    for owner, process in _children:
        if owner == os.getpid() and process.poll() is None:  # nobody is left who could read an answer
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    _reap()


# At the end of this process, after those that close their connections then: these finalizers were made later.
weakref.finalize(_reap, _end_all)
