"""Witnesses that saw nothing: where the suite's own control fails, a denial is told to be not provable, never proven.

They are grounds whose canaries and references are scripted; no packet is sent. NET-03 is judged on the stub with them.
"""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from sandboxio_contract.ground.base import NetworkGround
from sandboxio_contract.liars.grounds import StubGround
from sandboxio_contract.network.checks import Check, Checks
from sandboxio_contract.network.outcome import Outcome, parse_probe
from sandboxio_contract.network.plan import Neighbour
from sandboxio_contract.network.tokens import new_token
from sandboxio_contract.network.witness import Witness
from sandboxio_contract.verdict import Inconclusive

KEY = b"the key of nobody's canary, for scripted answers"
CHECKS = (
    Check("tcp4-80", "tcp", ("192.0.2.1",), 80, KEY),
    Check("tcp6-80", "tcp", ("2001:db8::1",), 80, KEY),
    Check("dns4-udp", "dns", ("192.0.2.1",), 53, KEY),
)
"""Nothing is ever sent there: who is asked is the script."""


@dataclass(frozen=True, slots=True)
class BlindWitness:
    """One ground whose control shows nothing.

    :param lie: what is wrong with it.
    :param says: what the probe of the reference prints, and its exit code.
    :param missing: checks that can't be offered, with the reason.
    :param must: requirements that can't be proven with it.
    """

    name: str
    lie: str
    says: Callable[[Checks], tuple[int, str]]
    missing: tuple[tuple[str, str], ...] = ()
    must: Set[str] = frozenset({"NET-03"})
    may: Set[str] = frozenset()
    rows: Set[str] = frozenset()

    def ground(self) -> StubGround:
        """Return it, as a ground of the stub."""
        return _Ground(self)


class _Ground(StubGround):
    def __init__(self, blind: BlindWitness) -> None:
        super().__init__("stub")
        self._blind = blind

    def network(self) -> NetworkGround:
        return _Network(self._blind)


class _Network:
    def __init__(self, blind: BlindWitness) -> None:
        self._blind = blind

    def checks(self, *, neighbour: Neighbour | None = None, late: bool = False, only: Sequence[str] = ()) -> Checks:
        missing = dict(self._blind.missing)
        return Checks(tuple(one for one in CHECKS if one.name not in missing), new_token(), missing)

    def control(self, checks: Checks) -> Outcome:
        fresh = checks.renewed()
        code, text = self._blind.says(fresh)
        return parse_probe(fresh, code, text.encode())

    def neighbour(self) -> Neighbour:
        return Neighbour("192.0.2.2", 80, KEY)

    def witness(self) -> Witness:
        raise Inconclusive("nobody watches")

    def beside(self, sandbox_id: str, checks: Checks) -> Outcome:
        raise Inconclusive("nobody is sent there")

    def listen_beside(self, sandbox_id: str, address: str) -> Neighbour:
        raise Inconclusive("nobody listens there")


def _lines(checks: Checks, *, refused: str = "", forged: str = "") -> tuple[int, str]:
    lines = [
        f"check {one.name} refused ECONNREFUSED"
        if one.name == refused
        else f"check {one.name} reached {'0' * 8 if one.name == forged else checks.expected(one)}"
        for one in checks
    ]
    return 40, "\n".join([*lines, "end ok"])


SEEING = BlindWitness("witness-sees", "none: the reference reaches everything", _lines)
"""The control of the controls: with it NET-03 is proven."""

WITNESSES: tuple[BlindWitness, ...] = (
    BlindWitness(
        "witness-deaf", "the reference can't reach one of the targets", lambda checks: _lines(checks, refused="tcp6-80")
    ),
    BlindWitness(
        "witness-fooled", "something else answers in a canary's place", lambda checks: _lines(checks, forged="dns4-udp")
    ),
    BlindWitness(
        "witness-dumb", "the reference's probe does not run to its end", lambda checks: (40, _lines(checks)[1][:-6])
    ),
    BlindWitness("witness-toolless", "the reference has no tool to probe with", lambda _: (127, "")),
    BlindWitness("witness-short", "this machine has no IPv6 to probe", _lines, (("tcp6-80", "no IPv6 here"),)),
)
