"""The ground under the emulators of cloud providers: what runs a sandbox, what it reaches, what was said, what goes wrong.

It knows no provider and imports neither sandboxio nor an adapter: a mistake of ours must not stand on both sides of a proof.
An emulator speaks a provider's wire protocol and translates what arrived, exactly that and nothing else, to

- a `Guest`: mounts, processes and a network of its own. Commands are children, started as the provider starts them; a signal
  reaches one process, what it leaves behind lives on, and nothing ends because somebody stopped waiting;
- an `Egress` of the `Outside`: open unless the wire said otherwise;
- a `Serving` with its `Recorder` and its `Faults`, for providers that speak HTTP. The recorder and the faults serve any other
  protocol as well.

It needs root, Linux, and what stands in the extra ``[emulation]``.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandboxio_contract.emulation.faults import KINDS, Fault, Faults, Kind
    from sandboxio_contract.emulation.guest import Guest, GuestGone, Machine, Started
    from sandboxio_contract.emulation.outside import EVERYTHING, Egress, Outside
    from sandboxio_contract.emulation.recorder import Exchange, Recorder
    from sandboxio_contract.emulation.serving import Request, Serving, Stream

__all__ = [
    "EVERYTHING",
    "KINDS",
    "Egress",
    "Exchange",
    "Fault",
    "Faults",
    "Guest",
    "GuestGone",
    "Kind",
    "Machine",
    "Outside",
    "Recorder",
    "Request",
    "Serving",
    "Started",
    "Stream",
]

_MODULES = {
    "faults": ("KINDS", "Fault", "Faults", "Kind"),
    "guest": ("Guest", "GuestGone", "Machine", "Started"),
    "outside": ("EVERYTHING", "Egress", "Outside"),
    "recorder": ("Exchange", "Recorder"),
    "serving": ("Request", "Serving", "Stream"),
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names}

# Lazy, because the first process of a guest starts from this package and a test waits for it.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _WHERE:
            message = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(message)
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
