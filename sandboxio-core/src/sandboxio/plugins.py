"""Find and load the one adapter that a target names.

pluggy's bulk loading would import every installed adapter and stop at the first broken one, so exactly one entry point
is resolved by name, loaded, registered and checked.
"""

import inspect
import threading
from collections.abc import Iterable
from typing import cast

import importlib_metadata
import pluggy

from sandboxio import __version__, hookspecs
from sandboxio.errors import BackendNotFound, BackendNotInstalled, BackendUnavailable, ConfigurationError, SandboxError
from sandboxio.port import PORT, Backend, BackendInfo
from sandboxio.redaction import Redactor, raise_from, safe_str, shown_name
from sandboxio.target import BackendConfig

GROUP = "sandboxio.backends"
OURS = ("bubblewrap", "daytona", "docker", "e2b", "modal", "vercel")
"""Backends whose adapters this project ships or will ship."""
WRITTEN = ("bubblewrap", "docker", "e2b")
"""Those whose adapters exist."""

LOAD_BOUND = 60.0
"""Seconds that a call waits for another one that loads the same adapter."""
SLOW_HINT = "see what it waits for: importing its module, or a file or network that the import needs"
"""What to do about an adapter that takes too long to load."""

_loaded: dict[str, "Adapter"] = {}
_registered: dict[str, str] = {}
_loading: dict[str, threading.Lock] = {}
_lock = threading.Lock()


class Adapter:
    """One loaded adapter; the only place that calls its hooks."""

    def __init__(self, name: str, distribution: str, plugin: object) -> None:
        self.name = name
        self.distribution = distribution
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._check(plugin)
        self.info = self._ask_info()

    def make_backend(self, config: BackendConfig, redactor: Redactor) -> Backend:
        """Call the adapter's `sandboxio_make_backend`; what it raises is masked."""
        try:
            made = self._call("sandboxio_make_backend", config=config)
        except SandboxError as error:
            raise_from(redactor.error(error), error.__cause__)
        return cast("Backend", made)

    def _check(self, plugin: object) -> None:
        try:
            self._manager.register(plugin, name=self.name)
            self._manager.check_pending()
        except Exception as error:  # pluggy's own, and what looking at a strange object raises
            raise ConfigurationError(f"{self._who()} is no plugin of sandboxio: {error}", hint=self._repair) from error
        for caller in self._manager.get_hookcallers(plugin) or ():
            for implementation in caller.get_hookimpls():
                if inspect.iscoroutinefunction(implementation.function):
                    raise ConfigurationError(
                        f"{self._who()}: {caller.name} is async; hooks are synchronous", hint=self._repair
                    )

    def _ask_info(self) -> BackendInfo:
        info = self._call("sandboxio_backend_info")
        if not isinstance(info, BackendInfo) or info.name != self.name:
            raise ConfigurationError(f"{self._who()} gave no BackendInfo of the name {self.name!r}", hint=self._repair)
        if info.port not in (PORT, PORT - 1):
            raise ConfigurationError(
                f"{self._who()} implements port {info.port}, sandboxio-core {__version__} speaks {PORT} and {PORT - 1}",
                hint=f"install releases of sandboxio-core and {self.distribution} that go together",
            )
        return info

    def _call(self, hook: str, **arguments: object) -> object:
        """Call one hook; an SDK that can't be imported, or that exits, breaks this adapter only."""
        try:
            answers = getattr(self._manager.hook, hook)(**arguments)
        except (SandboxError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            raise ConfigurationError(
                f"{self._who()} failed in {hook}: {type(error).__name__}: {safe_str(error)}",
                hint=f"repair or reinstall {self.distribution} and the SDK that it needs",
            ) from error
        if len(answers) != 1:
            raise ConfigurationError(f"{self._who()} does not implement {hook}", hint=self._repair)
        return answers[0]

    @property
    def _repair(self) -> str:
        return f"this is a defect of {self.distribution}; see sandboxio.hookspecs for what an adapter implements"

    def _who(self) -> str:
        return f"the backend {self.name!r} of {self.distribution}"


def register(name: str, target: str) -> None:
    """Make a backend known without an entry point.

    :param name: the DSN scheme.
    :param target: ``"package.module"`` or ``"package.module:object"`` with the hook implementations.
    :raises ConfigurationError: the name is taken.
    """
    with _lock:
        if _registered.get(name, target) != target or (name not in _registered and _entry_points(name)):
            raise ConfigurationError(
                f"a backend named {shown_name(name)} is registered already", hint="register it under another name"
            )
        _registered[name] = target


def installed() -> list[str]:
    """Return the names of all backends that could be loaded; nothing is imported."""
    return sorted({point.name for point in _entry_points()} | set(_registered))


def load(name: str) -> Adapter:
    """Load the adapter of one backend; repeated calls return the same object.

    :raises BackendNotInstalled: the backend is one of ours and its distribution is missing.
    :raises BackendNotFound: nobody offers the name.
    :raises ConfigurationError: two distributions offer it, or the adapter is broken.
    :raises BackendUnavailable: an earlier call has been loading it for `LOAD_BOUND` seconds.
    """
    with _lock:
        loading = _loading.setdefault(name, threading.Lock())
    # One lock per name: an adapter whose import hangs holds up nobody else, and keeps one thread, not one for every try.
    if not loading.acquire(timeout=LOAD_BOUND):
        raise BackendUnavailable(
            f"the backend {shown_name(name)} is still being loaded by an earlier call",
            hint=SLOW_HINT,
        )
    try:
        adapter = _loaded.get(name)
        if adapter is None:
            adapter = _loaded[name] = _load(name)
        return adapter
    finally:
        loading.release()


def _entry_points(name: str | None = None) -> list[importlib_metadata.EntryPoint]:
    points = cast("Iterable[importlib_metadata.EntryPoint]", importlib_metadata.entry_points(group=GROUP))  # pyright: ignore[reportUnknownMemberType]
    return [point for point in points if name is None or point.name == name]


def _load(name: str) -> Adapter:
    if name in _registered:
        point = importlib_metadata.EntryPoint(name, _registered[name], GROUP)
        return _activate(name, "register()", point)
    points = {(point.dist.name if point.dist else "?"): point for point in _entry_points(name)}
    if not points:
        raise _missing(name)
    if len(points) > 1:
        raise ConfigurationError(
            f"the distributions {' and '.join(sorted(points))} both offer a backend named {name!r}",
            hint="uninstall one of them",
        )
    distribution, point = next(iter(points.items()))
    return _activate(name, distribution, point)


def _activate(name: str, distribution: str, point: importlib_metadata.EntryPoint) -> Adapter:
    try:
        plugin = point.load()
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # a plugin may even call sys.exit(); it must break only itself
        raise ConfigurationError(
            f"the backend {name!r} of {distribution} ({point.value}) can't be imported:"
            f" {type(error).__name__}: {safe_str(error)}",
            hint=f"repair or reinstall {distribution}",
        ) from error
    return Adapter(name, distribution, plugin)


def _missing(name: str) -> ConfigurationError:
    known = ", ".join(installed()) or "none"
    if name in OURS:
        return BackendNotInstalled(f"the backend {name!r} is not installed (installed: {known})", hint=_how(name))
    return BackendNotFound(
        f"no backend is named {shown_name(name)} (installed: {known})",
        hint="check the spelling, or install its adapter",
    )


def _how(name: str) -> str:
    if name not in WRITTEN:
        return f"there is no release of sandboxio-{name} yet; use one of {', '.join(WRITTEN)}"
    # Never by name from an index: there the names of some of our distributions belong to another project.
    return f"install sandboxio-{name} from the checkout or the wheels of sandboxio-core {__version__}, by its path"
