"""The first process of an emulated sandbox: it makes the root file system, starts commands and touches files when told to.

It is told by one socket, and its end is the sandbox's: when the emulator is gone the kernel kills everything here. It does
what a provider's own agent does and no more. A command is a plain child, in nobody's own session unless that is asked for;
a signal goes to the process that was started and to no other; what a command leaves behind lives on.

They are children of a factory, a program of its own. All that they need is imported before the root changes.
"""

import json
import os
import signal
import socket
import sys
from typing import Any

from sandboxio_contract.emulation.inside import kernel
from sandboxio_contract.emulation.inside.init import MESSAGE, Init
from sandboxio_contract.emulation.inside.root import make_root, open_loopback


def main() -> None:
    """Be the factory: start a sandbox for each order that comes with its control socket, until the emulator is gone.

    All that a first process imports is imported here, once.
    """
    orders = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps them
    while True:
        data, descriptors, _, _ = socket.recv_fds(orders, MESSAGE, 1)
        if not data:
            return
        pid = os.fork()
        if pid == 0:
            orders.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                hold(socket.socket(fileno=descriptors[0]), json.loads(data))
            finally:
                os._exit(0)
        os.close(descriptors[0])
        orders.send(str(pid).encode())


def hold(control: socket.socket, order: "dict[str, Any]") -> None:
    """Become the parent of an emulated sandbox: its namespaces are this process's, its first process the child."""
    kernel.unshare(kernel.NEW_NS | kernel.NEW_UTS | kernel.NEW_IPC | kernel.NEW_PID | kernel.NEW_NET)
    child = os.fork()
    if child:
        control.close()
        os.waitpid(child, 0)
        return
    # The parent's end is this one's: else it would stay where the parent was killed alone.
    kernel.die_with_parent()
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    try:
        make_root(order)
        socket.sethostname(order["hostname"])
        open_loopback()
        kernel.drop_capabilities()
    except OSError as error:
        Init(control).say({"id": 0}, failed=str(error))
        os._exit(1)
    server = os.fork()
    if server:
        control.close()
        reap_until(server)
        os._exit(0)
    kernel.die_with_parent()
    init = Init(control)
    init.say({"id": 0}, ready=True)
    init.serve()
    os._exit(0)


def reap_until(server: int) -> None:
    """Be the first process: take in orphans until the one that serves has ended."""
    while os.wait()[0] != server:
        pass
