"""Whether a target's commands run apart from this machine's processes: hostile code is let loose nowhere else.

Whoever wrote a backend may run its commands right here, as the suite's own stub does. What an attack then writes into each
descriptor that it can reach is written into those of this machine's daemons.
"""

from pathlib import Path

from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Inconclusive

_PYTHON = """
import os
print(os.readlink("/proc/self/ns/pid"))
print(open("/proc/sys/kernel/random/boot_id").read())
"""
_SHELL = "readlink /proc/self/ns/pid && cat /proc/sys/kernel/random/boot_id"


async def need_isolation(target: Target) -> None:
    """:raises Inconclusive: its commands share this machine's processes, or nothing tells that they don't."""
    if target.isolated is None:
        async with target.sandbox() as sb:
            result = await sb.run(["python3", "-c", _PYTHON])
            if result.exit_code != 0:
                result = await sb.run(["sh", "-c", _SHELL])
        there = result.stdout.split() if result.exit_code == 0 else []
        target.isolated = bool(there) and there != process_namespace()
    if not target.isolated:
        raise Inconclusive("its commands may share this machine's processes, and no attack is let loose on those")


def process_namespace() -> list[str]:
    """Return what tells this process's pid namespace from any other, of any machine; nothing where there is no /proc."""
    try:
        return [str(Path("/proc/self/ns/pid").readlink()), Path("/proc/sys/kernel/random/boot_id").read_text().strip()]
    except OSError:
        return []
