"""The first process of an emulated sandbox: it makes the root file system, starts commands and touches files when told to.

It is told by one socket, and its end is the sandbox's: when the emulator is gone the kernel kills everything here. It does
what a provider's own agent does and no more. A command is a plain child, in nobody's own session unless that is asked for;
a signal goes to the process that was started and to no other; what a command leaves behind lives on.

It runs as a program of its own. All that it needs is imported before the root changes.
"""

import json
import os
import socket
import sys

from sandboxio_contract.emulation.inside import kernel
from sandboxio_contract.emulation.inside.init import MESSAGE, Init
from sandboxio_contract.emulation.inside.root import make_root, open_loopback


def main() -> None:
    """Become the parent of an emulated sandbox: its namespaces are this process's, its first process the child."""
    control = socket.socket(fileno=int(sys.argv[1]))
    order = json.loads(control.recv(MESSAGE))
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
    init = Init(control)
    try:
        make_root(order)
        socket.sethostname(order["hostname"])
        open_loopback()
        kernel.drop_capabilities()
    except OSError as error:
        init.say({"id": 0}, failed=str(error))
        os._exit(1)
    init.say({"id": 0}, ready=True)
    init.serve()
    os._exit(0)
