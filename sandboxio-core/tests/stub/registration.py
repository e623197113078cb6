"""How a stub becomes a backend that a target can name."""

import itertools
import sys
from types import ModuleType

import sandboxio
from sandboxio.hookspecs import hookimpl
from sandboxio.isolation import IsolationTier
from sandboxio.port import PORT, Backend, BackendInfo
from sandboxio.target import BackendConfig

from .backend import StubBackend

_plugins = sys.modules.setdefault("sandboxio_stub_plugins", ModuleType("sandboxio_stub_plugins"))
_numbers = itertools.count()


class StubPlugin:
    def __init__(self, backend: StubBackend) -> None:
        self._backend = backend

    @hookimpl
    def sandboxio_backend_info(self) -> BackendInfo:
        return self._backend.info

    @hookimpl
    def sandboxio_make_backend(self, config: BackendConfig) -> Backend:
        return self._backend


def registered(*, tier: IsolationTier = IsolationTier.CONTAINER, caps: bool = True, port: int = PORT) -> StubBackend:
    """Return a fresh stub that the target ``f"{stub.info.name}://"`` names."""
    name = f"stub{next(_numbers)}"
    backend = StubBackend(name, tier=tier, caps=caps, port=port)
    register_plugin(name, StubPlugin(backend))
    return backend


def register_plugin(name: str, plugin: object) -> None:
    setattr(_plugins, name, plugin)
    sandboxio.register(name, f"sandboxio_stub_plugins:{name}")
