"""The network ground of the contract: canaries, the shipped probe, its verdicts, and the references for its controls.

```python
with HostCanary.start() as canary:  # raises NotProvable, and then no probe was sent
    with DockerReference(canary) as reference:
        checks = canary.checks(neighbour=reference.neighbour)
        argv, stdin = probe_command(checks)  # to be run in the sandbox
        outcome = parse_probe(checks, exit_code, stdout)
        control = reference.probe(checks)
        verdicts = judge(checks, outcome, control, canary.witness())
```

No packet of a probe leaves the machine, also when the backend lies; see `guard`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandboxio_contract.network.arena import Arena, Completed
    from sandboxio_contract.network.checks import Check, Checks, probe_command
    from sandboxio_contract.network.outcome import Outcome, Result, merged, parse_probe
    from sandboxio_contract.network.plan import Neighbour
    from sandboxio_contract.network.probe_sh import shell_command
    from sandboxio_contract.network.reason import NotProvable
    from sandboxio_contract.network.reference import DockerReference, neighbour_command
    from sandboxio_contract.network.verdict import Verdict, judge
    from sandboxio_contract.network.witness import Witness
    from sandboxio_contract.network.world import HostCanary, cleanup

__all__ = [
    "Arena",
    "Check",
    "Checks",
    "Completed",
    "DockerReference",
    "HostCanary",
    "Neighbour",
    "NotProvable",
    "Outcome",
    "Result",
    "Verdict",
    "Witness",
    "cleanup",
    "judge",
    "merged",
    "neighbour_command",
    "parse_probe",
    "probe_command",
    "shell_command",
]

_WHERE = {
    "Arena": "arena",
    "Check": "checks",
    "Checks": "checks",
    "Completed": "arena",
    "DockerReference": "reference",
    "HostCanary": "world",
    "Neighbour": "plan",
    "NotProvable": "reason",
    "Outcome": "outcome",
    "Result": "outcome",
    "Verdict": "verdict",
    "Witness": "witness",
    "cleanup": "world",
    "judge": "verdict",
    "merged": "outcome",
    "neighbour_command": "reference",
    "parse_probe": "outcome",
    "probe_command": "checks",
    "shell_command": "probe_sh",
}

# Lazy, because the supervisor starts from this package and a run waits for it.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _WHERE:
            message = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(message)
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
