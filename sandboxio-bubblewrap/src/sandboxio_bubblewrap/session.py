"""From the socket of a sandbox that was started to the session that its agent serves."""

import time

from sandboxio.agent.report import BootReport
from sandboxio.agent.session import AgentSession, AgentUnfit, open_agent
from sandboxio.errors import PolicyNotEnforced

from sandboxio_bubblewrap.rootfs import UID, WORK
from sandboxio_bubblewrap.stream import SocketStream

BOOT_TIMEOUT = 30.0
"""Seconds for the boot report. It takes a tenth of one; many at once on a busy machine take longer."""
WITH_OWNER = "a bubblewrap sandbox ends with its owner: no daemon is there to keep it"


async def open_session(
    stream: SocketStream, expires_at: float, pid: int, interfaces: frozenset[str] | None, *, same_python: bool
) -> AgentSession:
    """Start the conversation with the agent, and compare what it sees with the policies.

    :param pid: the first process on this machine, which becomes the session's ``native``.
    :param interfaces: the network interfaces that it must see and no others; ``None``: this machine's network is shared.
    :param same_python: whether the agent's interpreter is this process's own.
    :raises AgentUnfit: no agent answered. :raises PolicyNotEnforced: a policy does not hold inside.
    """
    lifetime = max(expires_at - time.time(), 0.01)
    session = await open_agent(
        stream, lifetime=lifetime, workdir=WORK, same_python=same_python, boot_timeout=BOOT_TIMEOUT
    )
    try:
        check_inside(session.report, interfaces)
    except BaseException:
        await session.aclose()
        raise
    session.native = pid
    session.kept_by_owner = WITH_OWNER
    session.user_hint = "leave user= out: a sandbox has one user, and no capability to become another"
    return session


def check_inside(report: BootReport, interfaces: frozenset[str] | None) -> None:
    """Judge the agent's report: extra evidence, never instead of what the kernel says on this side."""
    if not report.memory_closed or not report.descriptors_closed:
        raise AgentUnfit("the agent's memory and descriptors can't be closed to the commands it starts")
    if not report.no_new_privileges or report.capabilities or report.bounding or report.uid != UID:
        raise PolicyNotEnforced(
            f"the sandbox has the capabilities {report.capabilities:#x} (at most {report.bounding:#x}) as user {report.uid}"
        )
    if set(report.counters) != {"memory", "pids"}:
        raise PolicyNotEnforced("the sandbox does not see the counters of its control groups, so no hit would be told")
    if interfaces is None:
        return
    if report.interfaces is None or frozenset(report.interfaces) != interfaces:
        raise PolicyNotEnforced(f"the sandbox sees the interfaces {report.interfaces}, not {sorted(interfaces)}")
    if {report.vsock, report.io_uring, report.foreign} != {"refused"}:
        raise PolicyNotEnforced(
            f"vsock sockets, which no network namespace confines, are {report.vsock} in this sandbox, io_uring {report.io_uring}, other"
            f" processors' calls {report.foreign}",
            hint="use a template whose python3 has ctypes, so that the agent can install its filter",
        )
