"""What starts commands and touches files when it is told to: root's, and beside the first process, which reaps orphans."""

import array
import contextlib
import errno
import json
import os
import resource
import select
import signal
import socket
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

from sandboxio_contract.emulation.inside.files import CALLS

MESSAGE = 1 << 20


def _woken(_number: int, _frame: object) -> None:
    """Wake the loop, by the descriptor that is told of signals."""


def _bound(memory_mb: int, processes: int) -> None:
    """Keep a command within what its machine would have, where that is this one; and behind whoever serves it."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_mb * 2**20, memory_mb * 2**20))
    resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(5)


class Init:
    """Serves the emulator until it is gone; commands are its children."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._started: set[int] = set()
        # Ours only: the program that each command becomes gets its default back.
        signal.signal(signal.SIGCHLD, _woken)
        self._woken, wake = socket.socketpair()
        for one in (self._woken, wake):
            one.setblocking(False)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        self._wake = wake

    def serve(self) -> None:
        """Carry out requests; never returns before the emulator is gone."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self._control.fileno():
                    data, descriptors, _, _ = socket.recv_fds(self._control, MESSAGE, 4)
                    if not data:
                        return
                    self._carry_out(json.loads(data), descriptors)
                else:
                    with contextlib.suppress(BlockingIOError):
                        self._woken.recv(4096)
            self._reap()

    def _carry_out(self, request: dict[str, Any], descriptors: list[int]) -> None:
        try:
            getattr(self, f"_{request['do']}")(request, descriptors)
        except OSError as error:
            self.say(request, error=error.errno, text=str(error))
        finally:
            for one in descriptors:
                os.close(one)

    def _start(self, request: dict[str, Any], descriptors: list[int]) -> None:
        """Start a command with three descriptors as its streams."""
        if not Path(request["cwd"]).is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "no such working directory")
        stdin, stdout, stderr = descriptors
        started = subprocess.Popen(
            request["argv"],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=request["cwd"],
            env=request["env"],
            user=request["uid"],
            group=request["uid"],
            extra_groups=[],
            start_new_session=request["session"],
            preexec_fn=partial(_bound, request["memory_mb"], request["processes"]),  # noqa: PLW1509 - there is one thread
        )
        started.returncode = 0  # its end is told by `_reap`, which waits for all there are
        self._started.add(started.pid)
        self.say(request, pid=started.pid)

    def _signal(self, request: dict[str, Any], _: list[int]) -> None:
        """Send a signal to one process that was started here, and to no other."""
        if request["pid"] not in self._started:
            raise ProcessLookupError(errno.ESRCH, "no such process")
        os.kill(request["pid"], request["signal"])
        self.say(request)

    def _file(self, request: dict[str, Any], descriptors: list[int]) -> None:
        """Do something with a file, as the user that is named and in a process of its own: it may take its time."""
        pid = os.fork()
        if pid:
            return
        try:
            os.setgroups([])
            os.setresgid(request["uid"], request["uid"], request["uid"])
            os.setresuid(request["uid"], request["uid"], request["uid"])
            os.umask(0o022)
            CALLS[request["call"]](partial(self.say, request), *request["arguments"])
        except OSError as error:
            self.say(request, error=error.errno, text=str(error))
        finally:
            os._exit(0)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._started:
                self._started.discard(pid)
                self.say({"id": 0}, ended=pid, status=status)

    def say(self, request: dict[str, Any], descriptors: "list[int] | None" = None, **answer: Any) -> None:
        """Send an answer; nobody may be there any more."""
        data = json.dumps({"id": request["id"], **answer}).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        with contextlib.suppress(BrokenPipeError):
            self._control.sendmsg([data], rights)
