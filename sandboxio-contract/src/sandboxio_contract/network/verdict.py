"""The verdict on each check of a denied sandbox.

`violated` needs a fact: a true nonce came back, a server of the suite saw the token, a packet of this run opened a
connection, or the guard had to stop something. `proven` needs three: the probe was turned away, the same check was reached
by its control in this run, and every witness was silent. All else is `not-provable`, and says why.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sandboxio_contract.network.checks import Check, Checks
from sandboxio_contract.network.outcome import DENIED, Outcome, Result
from sandboxio_contract.network.witness import Witness

VerdictStatus = Literal["proven", "violated", "not-provable"]
# The guard's counters, and the kinds of checks that each of them speaks about.
_COUNTERS: Mapping[str, tuple[str, ...]] = {
    "address_off_link": ("tcp", "udp", "icmp", "dns", "dns-tcp"),
    "name_off_link": ("lookup", "dns", "dns-configured"),
    "port_off_host": ("gateway", "tcp"),
    "multicast_off_host": ("multicast",),
    "uplink": ("tcp", "udp", "icmp", "dns", "dns-tcp", "lookup", "dns-configured", "multicast"),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One check's verdict with its evidence, a sentence for the report."""

    status: VerdictStatus
    evidence: str


def judge(checks: Checks, outcome: Outcome, control: Outcome, witness: Witness) -> dict[str, Verdict]:
    """Return the verdict on every check of a sandbox that is expected to deny all egress.

    :param outcome: what the sandbox's probe of `checks` saw.
    :param control: what the references saw of the same checks, under their own tokens.
    :param witness: read after the probe had ended.
    """
    verdicts = {one.name: _judge(checks, one, outcome, control, witness) for one in checks}
    verdicts.update({name: Verdict("not-provable", reason) for name, reason in checks.missing.items()})
    return verdicts


def _judge(checks: Checks, check: Check, outcome: Outcome, control: Outcome, witness: Witness) -> Verdict:
    result = outcome.results.get(check.name, Result("error", "not tried"))
    fact = _leak(checks, check, result, witness)
    if fact:
        return Verdict("violated", fact)
    if outcome.token != checks.token:
        return Verdict("not-provable", "the results are those of another probe")
    if result.status not in DENIED:
        return Verdict("not-provable", _unclear(result))
    reached = control.results.get(check.name, Result("error", "not tried"))
    if reached.status != _control_status(check):
        return Verdict("not-provable", f"no control: the reference got {_words(reached)} for the same check")
    return Verdict("proven", f"{_words(result)}; the reference reached it; nothing arrived")


def _control_status(check: Check) -> str:
    # A vsock is only ever created, never connected: creation is all there is to observe, in a control too.
    return "answered" if check.kind == "vsock" else "reached"


def _leak(checks: Checks, check: Check, result: Result, witness: Witness) -> str:
    if result.status == "reached":
        return f"reached {_where(check)}: the nonce came back"
    if check.kind == "vsock" and result.status == "answered":
        return "an AF_VSOCK socket could be created: it leads to the machine's hypervisor, past every network namespace"
    seen = witness.saw(checks.token, check.name)
    if seen:
        return f"the {seen[0].server} saw the token ({seen[0].protocol} from {seen[0].source}): traffic left, the answer did not"
    opened = _openings(checks, check, witness)
    if opened:
        return f"{opened} connection attempt(s) arrived at {_where(check)}: traffic left, the answer did not"
    return _stopped(checks, check, witness)


def _openings(checks: Checks, check: Check, witness: Witness) -> int:
    if check.kind not in ("tcp", "dns-tcp"):
        return 0
    return sum(
        one.destination in check.addresses and one.port == check.port and one.when >= checks.created
        for one in witness.arrivals
    )


def _stopped(checks: Checks, check: Check, witness: Witness) -> str:
    for counter, kinds in _COUNTERS.items():
        moved = witness.drops.get(counter, 0) - checks.baseline.get(counter, 0)
        if moved > 0 and check.kind in kinds:
            return f"the guard had to stop {moved} packet(s) on their way out ({counter})"
    return ""


def _unclear(result: Result) -> str:
    if result.status == "forged":
        return "something answered in the canary's place: forged nonce"
    if result.status in ("answered", "resolved"):
        return f"something answered, but not the canary ({_words(result)})"
    return f"{_words(result)}: no denial was seen"


def _words(result: Result) -> str:
    return f"{result.status} ({result.detail})" if result.detail else result.status


def _where(check: Check) -> str:
    if check.kind in ("gateway", "multicast", "dns-configured", "lookup", "vsock"):
        return check.name
    return f"{', '.join(check.addresses)} port {check.port}" if check.port else ", ".join(check.addresses)
