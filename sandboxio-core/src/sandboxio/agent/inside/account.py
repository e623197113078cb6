"""Commands of another user than the agent's."""

from __future__ import annotations

import errno
import posix as os
from struct import pack, unpack

from .launch import NICE, PATH, StartError, find_program
from .native import DUMPABLE, Native
from .wire import BAD_CWD, BAD_USER, leave, read_exactly, slurp

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import NoReturn
else:
    import _signal as signal


def lines_of(path: str) -> list[list[bytes]]:
    """Return the usable lines of the user or group database."""
    lines = [line.split(b":") for line in slurp(path).split(b"\n")]
    return [line for line in lines if len(line) > 3 and line[2].isdigit()]


class Account:
    """A user, by ``user`` or ``user:group``, names or numbers.

    `groups` begins with the primary one; `is_own`: it is who this process is.
    """

    def __init__(self, text: bytes) -> None:
        name, _, group = text.partition(b":")
        self.home = b"/"
        for line in lines_of("/etc/passwd"):
            if name in (line[0], line[2]) and len(line) > 5:
                name, user, group, self.home = line[0], line[2], group or line[3], line[5]
                break
        else:
            user, group = name, group or name
        groups: list[int] = []
        for line in lines_of("/etc/group"):
            if group == line[0]:
                group = line[2]
            if name in line[3].split(b","):
                groups.append(int(line[2]))
        if not (user.isdigit() and group.isdigit()):
            raise StartError(BAD_USER, errno.ENOENT)
        self.user = int(user)
        self.groups = [int(group), *groups]
        self.is_own = (self.user, self.groups[0]) == (os.geteuid(), os.getegid())

    def spawn(self, argv: list[bytes], env: dict[bytes, bytes], cwd: bytes, native: Native | None) -> int:
        """Start a program as this user, in a session of its own.

        Only the child switches. Who watches over the command stays who it is: that user's processes can't even send it
        a signal, and it can end them as long as it has the capability KILL.
        """
        told, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(told)
            self._become_program(argv, env, cwd, native, tell)
        os.close(tell)
        answer = read_exactly(told, 8)
        os.close(told)
        if not answer:
            return pid
        os.waitpid(pid, 0)
        stage, number = unpack(">2I", answer) if len(answer) == 8 else (0, errno.EIO)
        if stage:
            raise StartError(stage, number)
        raise OSError(number, "")

    def _become_program(
        self, argv: list[bytes], env: dict[bytes, bytes], cwd: bytes, native: Native | None, tell: int
    ) -> NoReturn:
        stage, number = BAD_USER, errno.EPERM
        try:
            os.setsid()
            try:
                os.setpriority(os.PRIO_PROCESS, 0, NICE)
            except OSError:  # it waits further behind already, as all that an engine starts which was itself put behind
                pass
            os.setgroups(self.groups)
            os.setgid(self.groups[0])
            os.setuid(self.user)
            if native:
                native.prctl(DUMPABLE, 0)  # the switch may have changed it, and what this process holds is the agent's
            stage = BAD_CWD
            os.chdir(cwd)
            stage = 0
            for one in signal.valid_signals():
                if one not in (signal.SIGKILL, signal.SIGSTOP):
                    signal.signal(one, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            os.execve(find_program(argv[0], env.get(b"PATH", PATH)), argv, env)
        except OSError as error:
            number = error.errno or errno.EPERM
        finally:
            os.write(tell, pack(">2I", stage, number))
            leave(127)
