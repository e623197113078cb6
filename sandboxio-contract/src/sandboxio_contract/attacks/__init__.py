"""What hostile code does inside a sandbox, as programs that rows send there.

Python where the image has it, also without `ctypes` and `resource`; else POSIX sh. Each attempt is first made on a
process of the attacker's own, which nothing protects: what fails there proves nothing of what is protected. Nothing
here uses up what a host would suffer from (inotify instances, queued signals, message queues are counted by user id
for the whole machine), or sends a packet.
"""

from sandboxio_contract.attacks.exhaust import EXHAUST
from sandboxio_contract.attacks.forge import FORGE
from sandboxio_contract.attacks.reach import ATTEMPTS, REACH, SIEGE
from sandboxio_contract.attacks.resist import RESIST
from sandboxio_contract.attacks.shell import SHELL_EXHAUST, SHELL_FORGE, SHELL_REACH, SHELL_RESIST, SHELL_SIEGE

__all__ = [
    "ATTEMPTS",
    "EXHAUST",
    "FORGE",
    "REACH",
    "RESIST",
    "SHELL_EXHAUST",
    "SHELL_FORGE",
    "SHELL_REACH",
    "SHELL_RESIST",
    "SHELL_SIEGE",
    "SIEGE",
]
