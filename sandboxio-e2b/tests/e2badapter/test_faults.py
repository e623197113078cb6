"""Every request × everything that can go wrong with it: an error of ours or success, in time, nothing run twice, nothing left."""

import os
import secrets
import time
from collections.abc import Callable

import anyio
import pytest
import sandboxio
from sandboxio import SandboxError
from sandboxio_contract.emulation import KINDS, Kind
from sandboxio_contract.ground.wire import Call

from .emulator.emulator import KEY, Emulator

pytestmark = [
    pytest.mark.network,
    pytest.mark.emulated,
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::sandboxio.SandboxWarning"),
]

LIFE = 6
"""Seconds that a sandbox lives whose end could not be asked for."""
GRACE = "1"
REQUESTS: dict[str, Callable[[Call], bool]] = {
    "template": lambda call: call.path == "/default-templates",
    "create": lambda call: call == Call("POST", "/v2/sandboxes"),
    "observe": lambda call: call.method == "GET" and call.path.startswith("/sandboxes/"),
    "list": lambda call: call == Call("GET", "/v2/sandboxes"),
    "start": lambda call: call.path == "/process.Process/Start",
    "input": lambda call: call.path == "/process.Process/SendInput",
    "close": lambda call: call.path == "/process.Process/CloseStdin",
    "upload": lambda call: call == Call("POST", "/files"),
    "download": lambda call: call == Call("GET", "/files"),
    "kill": lambda call: call.method == "DELETE",
}
LARGE = os.urandom(300_000)


async def life(dsn: str, word: str) -> str:
    """Use everything once; return what went wrong."""
    try:
        async with sandboxio.create(dsn, timeout=LIFE, secrets={"TOKEN": f"secret-{word}"}) as sandbox:
            echoed = await sandbox.run(
                ["sh", "-c", f"cat; echo {word} >> said; wc -l < said"], stdin=b"x\n", timeout=1.5
            )
            assert echoed.stdout == "x\n1\n"
            await sandbox.files.write("large", LARGE)
            assert await sandbox.files.read("large") == LARGE
            with anyio.move_on_after(1):  # core itself would wait for a minute
                found = await sandboxio.list_managed(dsn)
                assert [one.sandbox_id for one in found] == [sandbox.id]
    except SandboxError as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


CASES = [
    pytest.param(("asyncio", "trio")[(row + column) % 2], request_, kind, id=f"{request_}-{kind}")
    for row, request_ in enumerate(REQUESTS)
    for column, kind in enumerate(KINDS)
]
"""Each on one of the two event loops, in turn."""


@pytest.mark.parametrize(("anyio_backend", "request_", "kind"), CASES)
async def test_a_fault_is_an_error_of_ours_or_nothing_at_all(
    emulator: Emulator, dsn: str, monkeypatch: pytest.MonkeyPatch, request_: str, kind: Kind
) -> None:
    monkeypatch.setenv("SBX_TEARDOWN_GRACE", GRACE)
    word = secrets.token_hex(8)
    fault = emulator.faults.strike(kind, REQUESTS[request_], times=None if kind == "500" else 1)
    started = time.monotonic()
    told = await life(dsn, word)
    took = time.monotonic() - started
    emulator.faults.clear()
    assert took < 2 * LIFE + 4, told
    with anyio.move_on_after(LIFE + 5):
        while emulator.sights():
            await anyio.sleep(0.05)
    assert emulator.sights() == {}, told
    assert fault.struck or told != "nothing", "the request was never made"
    ran = [one for machine in emulator.control.history for one in machine if word in one]
    assert len(ran) <= 1
    assert_nothing_leaked(emulator, word)


def assert_nothing_leaked(emulator: Emulator, word: str) -> None:
    """The key is in one header, and a secret nowhere but in the environment of the commands that get it."""
    assert {place.rpartition(" ")[2].lower() for place in emulator.recorder.places_of(KEY)} <= {"x-api-key"}
    shown = emulator.recorder.lines()
    assert KEY not in shown
    assert f"secret-{word}" not in shown
    places = emulator.recorder.places_of(f"secret-{word}")
    assert set(places) <= {"POST /process.Process/Start body"}
