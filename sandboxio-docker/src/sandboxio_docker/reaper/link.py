"""The owner's end of one reaper process: start it, tell it, ask it, end it."""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from sandboxio_docker.endpoint import Endpoint

from .messages import LINE_LIMIT, decode, encode
from .owner_watch import process_start

# The reaper outlives its owner, so it must not carry the owner's credentials: only what a Python may need to start.
_KEPT_VARIABLES = (
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "DYLD_FALLBACK_LIBRARY_PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)
# And what ssh needs to find its configuration and to log in.
_KEPT_FOR_SSH = ("PATH", "HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK")
_FORK_S = 1.0
# A program that has put SIGPIPE back to its default must not die because the reaper did.
_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)


class ReaperUnavailable(Exception):
    """No reaper answers: what isn't armed must not be created, or only with the lifetime as its last guard."""


class LinkLost(Exception):
    """This reaper is gone or doesn't react: another one has to take over."""


class Link:
    """A running reaper, or one that is being started. Not thread-safe.

    :param sock: our end of its pipe.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.pid = 0
        self._sock = sock
        self._pidfd: int | None = None
        self._received = b""
        self._asked = 0

    def greet(self, hello: dict[str, object], timeout: float) -> None:
        """Say who we are and where the engine is; return once the reaper listens.

        :raises LinkLost: no answer.
        :raises ReaperUnavailable: it can't work here, for example because a TLS file is unreadable.
        """
        pid = self.ask(hello, timeout)["pid"]
        assert isinstance(pid, int)
        self.pid = pid
        self._pidfd = _pidfd(pid)

    def tell(self, message: dict[str, object]) -> None:
        """Send without waiting.

        :raises LinkLost: the reaper is gone, or hasn't read for so long that its pipe is full.
        """
        line = encode(message)
        try:
            self._sock.settimeout(0)
            sent = self._sock.send(line, _NO_SIGNAL)
        except OSError as error:
            raise LinkLost(str(error)) from error
        if sent != len(line):
            problem = "the reaper doesn't read"
            raise LinkLost(problem)

    def ask(self, message: dict[str, object], timeout: float) -> dict[str, object]:
        """Send and return the answer, within ``timeout`` seconds.

        :raises LinkLost: no answer.
        :raises ReaperUnavailable: the answer is an error.
        """
        self._asked += 1
        deadline = time.monotonic() + timeout
        try:
            self._sock.settimeout(timeout)
            self._sock.sendall(encode({"n": self._asked, **message}), _NO_SIGNAL)
            answer = self._receive(self._asked, deadline)
        except (OSError, ValueError) as error:
            problem = f"no answer within {timeout} s" if isinstance(error, TimeoutError) else str(error)
            raise LinkLost(problem) from error
        if "error" in answer:
            problem = f"the reaper refuses: {answer['error']}"
            raise ReaperUnavailable(problem)
        return answer

    def _receive(self, number: int, deadline: float) -> dict[str, object]:
        # Answers of other numbers belong to calls that were interrupted.
        while True:
            while b"\n" not in self._received:
                self._sock.settimeout(max(deadline - time.monotonic(), 0.001))
                piece = self._sock.recv(LINE_LIMIT)
                if not piece:
                    problem = "the reaper has ended"
                    raise OSError(problem)
                self._received += piece
            line, _, self._received = self._received.partition(b"\n")
            answer = decode(line)
            if answer.get("n") == number:
                return answer

    def abandon(self) -> None:
        """End this reaper, then close: closing alone would tell it that its owner has ended, and it would reap."""
        with suppress(ProcessLookupError):
            if self._pidfd is not None:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            elif not self._has_ended():
                os.kill(self.pid, signal.SIGKILL)
        self.close()
        # It is a child of ours only where we adopt orphans ourselves (PID 1 of a container, a subreaper).
        with suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)

    def close(self) -> None:
        """Close our descriptors, nothing else: what a forked child does with those it inherited."""
        self._sock.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    def _has_ended(self) -> bool:
        # The other end is held by the reaper alone: as long as it is open, the process number is the reaper's.
        poll = select.poll()
        poll.register(self._sock, 0)
        return any(event & select.POLLHUP for _, event in poll.poll(0))


def start(endpoint: Endpoint, timeout: float) -> Link:
    """Start a reaper for the engine at ``endpoint`` and return once it listens.

    :raises ReaperUnavailable: it doesn't within ``timeout`` seconds, or can't run here.
    """
    ours, theirs = socket.socketpair()
    link = Link(ours)
    try:
        with theirs:
            child = _launch(theirs, _environment(endpoint))
        try:
            link.greet(_hello(endpoint), timeout)
        finally:
            _wait(child)
    except (OSError, LinkLost, ReaperUnavailable) as error:
        link.close()
        problem = f"the reaper doesn't start: {error}"
        raise ReaperUnavailable(problem) from error
    except BaseException:
        link.close()  # which ends the reaper too: it holds nothing yet
        raise
    return link


def _environment(endpoint: Endpoint) -> dict[str, str]:
    kept = _KEPT_VARIABLES if endpoint.ssh_command is None else (*_KEPT_VARIABLES, *_KEPT_FOR_SSH)
    return {name: os.environ[name] for name in kept if name in os.environ}


def _launch(theirs: socket.socket, environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    # A frozen program is its own interpreter: it would start itself once more.
    if os.name != "posix" or not sys.executable or getattr(sys, "frozen", False):
        problem = "it needs a POSIX system and a Python interpreter to run it"
        raise OSError(problem)
    program = Path(__file__).with_name("launch.py")
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(program), str(theirs.fileno())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],  # and every other descriptor is closed
        cwd="/",
        env=environment,
        start_new_session=True,  # Ctrl-C in the owner's terminal is not meant for the reaper
    )


def _wait(child: "subprocess.Popen[bytes]") -> None:
    # What we started forks and ends at once; the reaper is what it leaves behind. A program that doesn't is no Python.
    try:
        child.wait(_FORK_S)
    except BaseException as problem:
        child.kill()
        child.wait()
        if not isinstance(problem, subprocess.TimeoutExpired):
            raise


def _hello(endpoint: Endpoint) -> dict[str, object]:
    where: dict[str, object] = {"path": endpoint.socket_path, "command": endpoint.ssh_command}
    if endpoint.is_network:
        host, port = endpoint.address
        where.update(host=host, port=port, tls=endpoint.is_tls, verify=endpoint.verify)
        for name in ("ca", "cert", "key"):
            file = getattr(endpoint, name)
            where[name] = None if file is None else str(Path(file).absolute())  # the reaper's directory is /
    pid = os.getpid()
    return {"do": "hello", "owner": pid, "started": process_start(pid), "where": where}


def _pidfd(pid: int) -> int | None:
    opener = getattr(os, "pidfd_open", None)
    if opener is None:
        return None
    try:
        return int(opener(pid))
    except OSError:
        return None
