"""An organisation's own plugins: guards and audit sinks, for every sandbox of the process.

They come from the entry-point group ``sandboxio.plugins``, or from `register`. All of them are loaded before the first
sandbox is made; one that can't be loaded stops every creation, since what it would have blocked is not known.
"""

import threading
from collections.abc import Iterable
from typing import cast

import importlib_metadata
import pluggy

from sandboxio import hookspecs
from sandboxio.errors import ConfigurationError
from sandboxio.redaction import safe_str

GROUP = "sandboxio.plugins"

_lock = threading.Lock()
_registered: dict[str, object] = {}
_installed: dict[str, object] | None = None


class Extension:
    """One loaded plugin."""

    def __init__(self, name: str, plugin: object) -> None:
        self.name = name
        self.plugin = plugin
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)
        try:
            self._manager.register(plugin, name=name)
            self._manager.check_pending()
        except Exception as error:  # pluggy's own, and what looking at a strange object raises
            raise self.broken(error) from error

    def broken(self, error: BaseException) -> ConfigurationError:
        """Return the error for what it raised."""
        return _broken(self.name, error)

    def implements(self, hook: str) -> bool:
        """Whether it has an implementation of a hook."""
        return bool(getattr(self._manager.hook, hook).get_hookimpls())

    def call(self, hook: str, **arguments: object) -> object:
        """Call its implementation; ``None`` if that returns none."""
        answers: list[object] = getattr(self._manager.hook, hook)(**arguments)
        return answers[0] if answers else None


def register(plugin: object, name: str | None = None) -> None:
    """Add a plugin: an object or module with implementations of the hooks for organisations.

    :param name: guards are asked in the order of their names; the class's or module's by default.
    :raises ConfigurationError: the name is taken, or it is no plugin.
    """
    chosen = name or str(getattr(plugin, "__name__", type(plugin).__name__))
    Extension(chosen, plugin)
    with _lock:
        if chosen in _registered:
            raise ConfigurationError(f"a plugin named {chosen!r} is registered already", hint="pass name=")
        _registered[chosen] = plugin


def unregister(name: str) -> None:
    """Remove a plugin that `register` added; one that is not there is no error."""
    with _lock:
        _registered.pop(name, None)


def is_empty() -> bool:
    """Whether it is known that there is no plugin: then nobody has to be asked, in no thread."""
    return _installed == {} and not _registered


def loaded(hook: str) -> list[Extension]:
    """Return the plugins that implement a hook, by name; imports them at the first call.

    :raises ConfigurationError: one can't be loaded, or two have one name.
    """
    global _installed
    with _lock:
        if _installed is None:
            _installed = _load()
        twice = sorted(_installed.keys() & _registered.keys())
        if twice:
            raise ConfigurationError(f"two plugins are named {twice[0]!r}", hint="register one of them with name=")
        both = {**_installed, **_registered}
    extensions = [Extension(name, both[name]) for name in sorted(both)]
    return [extension for extension in extensions if extension.implements(hook)]


def _load() -> dict[str, object]:
    points = cast("Iterable[importlib_metadata.EntryPoint]", importlib_metadata.entry_points(group=GROUP))  # pyright: ignore[reportUnknownMemberType]
    found: dict[str, object] = {}
    for point in points:
        if point.name in found:
            raise ConfigurationError(f"two plugins are named {point.name!r}", hint="uninstall one of them")
        try:
            found[point.name] = point.load()
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # a plugin may even call sys.exit()
            raise _broken(point.name, error) from error
    return found


def _broken(name: str, error: BaseException) -> ConfigurationError:
    return ConfigurationError(
        f"the plugin {name!r} can't be loaded: {type(error).__name__}: {safe_str(error)}",
        hint=f"repair or uninstall it; no sandbox is made without the plugins of {GROUP}",
    )
