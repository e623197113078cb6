"""TRD-05, CAN-01: wherever `create()` is interrupted, nothing is left and the interruption comes out as what it was."""

from collections.abc import Callable

import pytest
import sandboxio
from sandboxio.port import Facts, TransportUnfit

from .interruptions import WAYS, interrupt
from .stub import StubBackend, raising, registered

MANY = 200


def sweep(way: str, make: Callable[[], StubBackend]) -> int:
    """Interrupt at each suspension until one run ends uninterrupted; return how many there were."""
    for at in range(1, MANY):
        stub = make()

        async def body(stub: StubBackend = stub) -> None:
            async with sandboxio.create(f"{stub.info.name}://"):
                pass

        outcome = interrupt(way, body, at)
        assert outcome.error is None, f"at suspension {at}: {outcome.error!r}"
        assert outcome.surfaced == outcome.delivered, f"at suspension {at} the interruption did not come out"
        assert stub.sandboxes == {}, f"at suspension {at} a sandbox was left"
        assert not outcome.warned, f"at suspension {at}: {outcome.warned[0].message}"
        assert all(session.closed or not session.drivers for session in stub.sessions)
        if not outcome.delivered:
            return at - 1
    pytest.fail("the sweep did not end")


@pytest.mark.parametrize("way", WAYS)
def test_an_interruption_at_any_suspension_of_create_and_kill_leaves_nothing(way: str) -> None:
    assert sweep(way, registered) > 15


@pytest.mark.parametrize("way", WAYS)
def test_an_interruption_at_any_suspension_of_a_creation_with_the_other_transport_leaves_nothing(way: str) -> None:
    def make() -> StubBackend:
        stub = registered()
        stub.gates.at("open", "committed", raising(TransportUnfit("no agent", Facts())))
        return stub

    assert sweep(way, make) > 25


@pytest.mark.parametrize("way", WAYS)
def test_an_interruption_at_any_suspension_of_a_creation_that_fails_leaves_nothing(way: str) -> None:
    """CAN-03: the request commits, its answer is an error."""
    for at in range(1, MANY):
        stub = registered()
        stub.gates.at("provision", "committed", raising(OSError("504")))

        async def body(stub: StubBackend = stub) -> None:
            with pytest.raises(sandboxio.CreationError):
                await sandboxio.create(f"{stub.info.name}://")

        outcome = interrupt(way, body, at)
        assert outcome.error is None, f"at suspension {at}: {outcome.error!r}"
        assert outcome.surfaced == outcome.delivered, f"at suspension {at} the interruption did not come out"
        assert stub.sandboxes == {}, f"at suspension {at} a sandbox was left"
        assert not outcome.warned
        if not outcome.delivered:
            assert at > 10
            return
    pytest.fail("the sweep did not end")
