"""A supervisor as the agent holds it."""

from __future__ import annotations

import errno
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket
from struct import pack

from .pipes import Sink
from .wire import ORDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .command import Command
    from .keeper import Keeper


class Worker:
    """One supervisor, with the command that it has or none."""

    def __init__(self, agent: Keeper, pid: int, ctl: int) -> None:
        self.pid = pid
        self.command: Command | None = None
        self.reusable = True
        self.ctl = Sink(agent, ctl, self.passed_on, self.broken)

    def give(self, spec: int, code: int, stdio: tuple[int, ...]) -> bool:
        """Make it take a command and the ends of its pipes, none if it was forked with them; the body follows.

        False if no descriptor can be passed now: the kernel counts those on their way by user, and any sandbox of the
        same user can keep that count at its limit.
        """
        carrier = socket(AF_UNIX, SOCK_STREAM, 0, self.ctl.fd)
        rights = [(SOL_SOCKET, SCM_RIGHTS, pack("3i", *stdio))] if stdio else []
        try:
            carrier.sendmsg([ORDER.pack(b"S", spec, code)], rights)
        except OSError as error:  # but for that limit: it ended just now, and `Keeper.reap` will learn of it
            return error.errno != errno.ETOOMANYREFS
        finally:
            carrier.detach()
        return True

    def passed_on(self, count: int) -> None:
        """Count what it took of the body."""
        if self.command:
            self.command.grant(count)

    def broken(self) -> None:
        """It takes no more: it ended, and `Keeper.reap` will learn of it."""
