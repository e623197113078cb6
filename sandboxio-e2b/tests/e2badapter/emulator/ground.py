"""The emulator as the contract's ground for ``e2b://``."""

from sandboxio_contract.ground.emulated import EmulatedGround
from sandboxio_contract.ground.wire import Call

from .emulator import KEY, Emulator


def target(emulator: Emulator, template: str = "") -> str:
    """Return the DSN by which the adapter reaches an emulator."""
    return f"e2b://{template}?api_url={emulator.address}&sandbox_url={emulator.address}"


def ground(emulator: Emulator) -> EmulatedGround:
    """Return the ground."""
    return EmulatedGround(
        "e2b",
        target(emulator),
        emulator,
        absent=target(emulator, "absent"),
        creates=_creates,
        destroys=_destroys,
        alters=_alters,
        environment={"E2B_API_KEY": KEY},
    )


def _creates(call: Call) -> bool:
    return call.method == "POST" and call.path == "/v2/sandboxes"


def _destroys(call: Call) -> bool:
    return call.method == "DELETE" and call.path.startswith("/sandboxes/")


def _alters(call: Call) -> bool:
    return call.method == "PUT" and call.path.endswith("/network")
