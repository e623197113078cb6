"""Liars on the real Docker adapter whose agent is not what core sends: it forgets a defence, and says that it has it."""

from collections.abc import Callable
from typing import Any

from sandboxio.planning import Plan

from sandboxio_contract.liars.dockers import Adapter, sending

_LAST = "main(t,"
"""What the agent's bootstrap ends with; each lie is told before it, in names that the bootstrap has not."""

_GLASS = """
from sandboxio_agent import boot, native
def prctl(self, option, value, honest=native.Native.prctl):
    return True if option == native.DUMPABLE else honest(self, option, value)
native.Native.prctl = prctl
boot.probe = lambda *given, honest=boot.probe: {**honest(*given), "memory": 13, "descriptors": 13}
"""
_LEADER = """
import posix
from sandboxio_agent import supervisor
def kill_all(self):
    if self.leader > 0:
        posix.kill(self.leader, 9)
    self.reap()
    return True
supervisor.Supervisor.kill_all = kill_all
"""
_CROWDED = """
from sandboxio_agent import worker
worker.Worker.give = lambda *given, honest=worker.Worker.give: honest(*given) or True
"""
_CREDULOUS = """
from sandboxio_agent import command
def deliver(self, kind, data, honest=command.Command.deliver):
    if b"forged" in data:
        self.has_exited(0)
    else:
        honest(self, kind, data)
command.Command.deliver = deliver
"""


def _patched(lie: str) -> Callable[[Plan], Plan]:
    def alter(plan: Plan) -> Plan:
        container: Any = plan.parameters["container"]
        *rest, bootstrap = container["Cmd"]
        head, last, tail = bootstrap.rpartition(_LAST)
        return sending(plan, {}, Cmd=[*rest, head + lie.lstrip() + last + tail])

    return alter


liar_glass = Adapter("liar-glass", _patched(_GLASS))
liar_leader = Adapter("liar-leader", _patched(_LEADER))
liar_crowded = Adapter("liar-crowded", _patched(_CROWDED))
liar_credulous = Adapter("liar-credulous", _patched(_CREDULOUS))
