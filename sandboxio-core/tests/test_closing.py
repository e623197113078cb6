"""A backend is closed once for each time that it was made, however its use ended."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
import pytest
import sandboxio
from sandboxio import CapabilityNotSupported, NetworkPolicy, SandboxError

from .stub import StubBackend, raising, stalling

pytestmark = pytest.mark.anyio


async def used(target: str) -> object:
    async with sandboxio.create(target) as sandbox:
        return await sandbox.run(["true"])


CALLS: list[Callable[[str], Awaitable[object]]] = [
    used,
    lambda target: sandboxio.plan(target),
    lambda target: sandboxio.plan(target, probe=True),
    lambda target: sandboxio.list_managed(target),
    lambda target: sandboxio.kill_managed(target, "id-of-one-that-is-gone"),
]


@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
async def test_what_was_made_for_a_call_is_closed_after_it(
    stub: StubBackend, target: str, call: Callable[[str], Awaitable[object]]
) -> None:
    await call(target)
    assert stub.closed == 1
    for gate in ("probe", "provision", "list"):
        stub.gates.at(gate, "before", raising(then=ValueError("no")))
    with suppress(SandboxError):
        await call(target)
    assert stub.closed == 2


async def test_a_sandbox_in_use_keeps_it_open(stub: StubBackend, target: str) -> None:
    async with sandboxio.create(target) as sandbox:
        await sandboxio.plan(target)
        assert stub.closed == 1
        await sandbox.run(["true"])
    assert stub.closed == 2
    await sandbox.kill()
    assert stub.closed == 2


async def test_it_is_closed_after_a_refusal_and_after_a_cancellation(stub: StubBackend, target: str) -> None:
    with pytest.raises(CapabilityNotSupported):
        await sandboxio.create(target, network=NetworkPolicy(egress="learn"))
    assert stub.closed == 1
    stub.gates.at("probe", "before", stalling)
    with anyio.move_on_after(0.05):
        await sandboxio.create(target)
    assert stub.closed == 2


async def test_a_backend_that_fails_to_close_replaces_no_error_and_no_result(
    stub: StubBackend, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def aclose() -> None:
        await anyio.lowlevel.checkpoint()
        raise ValueError("can't")

    monkeypatch.setattr(stub, "aclose", aclose)
    assert await sandboxio.list_managed(target) == []
    await used(target)
