"""One adapter by name; a broken one breaks only itself."""

import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
import sandboxio
from sandboxio import (
    BackendNotFound,
    BackendNotInstalled,
    BackendUnavailable,
    ConfigurationError,
    CreateTimeout,
    plugins,
)
from sandboxio.hookspecs import hookimpl
from sandboxio.redaction import Redactor

from .stub import StubBackend, StubConfig, register_plugin, registered

pytestmark = pytest.mark.anyio

GOOD = """
from sandboxio.hookspecs import hookimpl

@hookimpl
def sandboxio_backend_info():
    from dataclasses import replace
    import sandboxio_stub_plugins
    return replace(sandboxio_stub_plugins.{stub}._backend.info, name="{name}")

@hookimpl
def sandboxio_make_backend(config):
    import sandboxio_stub_plugins
    return sandboxio_stub_plugins.{stub}._backend
"""
BROKEN = {
    "importerror": "import no_such_sdk",
    "syntaxerror": "def (",
    "systemexit": "raise SystemExit(3)",
    "baseexception": "class Odd(BaseException): pass\nraise Odd('odd')",
    "asyncgenerator": "import sys\nsys.exit('bye')",
}


class Shelf:
    """Distributions on a path of their own."""

    def __init__(self, folder: Path, stub: StubBackend) -> None:
        self.folder = folder
        self.stub = stub
        self.modules: list[str] = []

    def add(self, distribution: str, backend: str, source: str, *, value: str | None = None) -> str:
        module = f"fake_{distribution.replace('-', '_')}"
        (self.folder / f"{module}.py").write_text(source)
        info = self.folder / f"{distribution.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{plugins.GROUP}]\n{backend} = {value or module}\n")
        self.modules.append(module)
        return module

    def good(self, distribution: str, backend: str) -> str:
        return self.add(distribution, backend, GOOD.format(stub=self.stub.info.name, name=backend))


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stub: StubBackend) -> Iterator[Shelf]:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(plugins, "_loaded", {})
    made = Shelf(tmp_path, stub)
    yield made
    for module in made.modules:
        sys.modules.pop(module, None)


async def test_a_good_adapter_works_beside_broken_ones_that_are_not_even_imported(shelf: Shelf) -> None:
    """PLG-01."""
    for number, source in enumerate(BROKEN.values()):
        shelf.add(f"broken-{number}", f"bad{number}", source)
    shelf.add("nonsense-value", "bad9", "", value="!!! not a value !!!")
    good = shelf.good("good-dist", "good1")
    async with sandboxio.create("good1://"):
        assert len(shelf.stub.sandboxes) == 1
    assert good in sys.modules
    assert [module for module in shelf.modules if module in sys.modules] == [good]
    assert {"good1", "bad0", "bad9"} <= set(plugins.installed())


@pytest.mark.parametrize("kind", BROKEN)
async def test_a_broken_adapter_is_named_with_its_distribution_and_cause(shelf: Shelf, kind: str) -> None:
    shelf.add(f"dist-{kind}", f"b-{kind}", BROKEN[kind])
    with pytest.raises(ConfigurationError, match=f"dist-{kind}") as caught:
        await sandboxio.create(f"b-{kind}://")
    assert f"b-{kind}" in str(caught.value)
    assert caught.value.__cause__ is not None


async def test_an_entry_point_that_cannot_be_read_is_an_error_of_ours(shelf: Shelf) -> None:
    shelf.add("odd-value", "odd1", "", value="!!! not a value !!!")
    with pytest.raises(ConfigurationError, match="odd-value"):
        await sandboxio.create("odd1://")


async def test_two_distributions_of_one_name_are_refused_before_either_is_imported(shelf: Shelf) -> None:
    first, second = shelf.good("first-dist", "twice"), shelf.good("second-dist", "twice")
    with pytest.raises(ConfigurationError, match="first-dist and second-dist"):
        await sandboxio.create("twice://")
    assert first not in sys.modules
    assert second not in sys.modules


async def test_a_missing_backend_of_ours_names_what_to_install() -> None:
    with pytest.raises(BackendNotInstalled, match="sandboxio-vercel"):
        await sandboxio.create("vercel://")


async def test_an_unknown_backend_names_what_is_installed(stub: StubBackend) -> None:
    with pytest.raises(BackendNotFound, match=stub.info.name):
        await sandboxio.create("no-such-backend://")


class Async:
    @hookimpl
    async def sandboxio_backend_info(self) -> object:
        return None


class Unknown:
    @hookimpl
    def sandboxio_no_such_hook(self) -> None: ...


class WrongArguments:
    @hookimpl
    def sandboxio_make_backend(self, configuration: object) -> None: ...


class Nothing: ...


class Failing:
    @hookimpl
    def sandboxio_backend_info(self) -> object:
        import no_such_sdk  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]

        return no_such_sdk  # pyright: ignore[reportUnknownVariableType]


class Exiting:
    @hookimpl
    def sandboxio_backend_info(self) -> object:
        raise SystemExit(1)


class Nonsense:
    @hookimpl
    def sandboxio_backend_info(self) -> object:
        return {"name": "nonsense"}


class Nameless:
    @hookimpl
    def sandboxio_backend_info(self) -> object:
        return StubBackend("another-name").info


@pytest.mark.parametrize(
    ("plugin", "text"),
    [
        (Async(), "async"),
        (Unknown(), "no plugin"),
        (WrongArguments(), "no plugin"),
        (Nothing(), "does not implement sandboxio_backend_info"),
        (Failing(), "no_such_sdk"),
        (Exiting(), "SystemExit"),
        (Nonsense(), "no BackendInfo"),
        (Nameless(), "no BackendInfo of the name"),
        (None, "NoneType|does not implement|no plugin"),
        (5, "does not implement|no plugin"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_an_object_that_is_no_adapter_is_a_configuration_error(plugin: object, text: str) -> None:
    name = f"noadapter_{type(plugin).__name__.lower()}"
    register_plugin(name, plugin)
    with pytest.raises(ConfigurationError, match=text) as caught:
        await sandboxio.create(f"{name}://")
    assert name in str(caught.value)


@pytest.mark.parametrize("port", [-1, 2, 99])
async def test_an_adapter_of_another_port_is_refused_naming_both_sides(port: int) -> None:
    stub = registered(port=port)
    with pytest.raises(ConfigurationError, match=f"port {port}") as caught:
        await sandboxio.create(f"{stub.info.name}://")
    assert "sandboxio-core" in str(caught.value)


async def test_an_adapter_of_the_port_before_is_taken() -> None:
    stub = registered(port=0)
    await sandboxio.plan(f"{stub.info.name}://")


async def test_a_backend_that_cannot_be_made_is_an_error_of_ours_without_secrets(stub: StubBackend) -> None:
    class Unmakeable:
        @hookimpl
        def sandboxio_backend_info(self) -> object:
            return StubBackend("unmakeable").info

        @hookimpl
        def sandboxio_make_backend(self, config: object) -> object:
            raise ValueError("bad key s3cr3t-value")

    register_plugin("unmakeable", Unmakeable())
    with pytest.raises(ConfigurationError, match="bad key") as caught:
        await sandboxio.create("unmakeable://", secrets={"K": "s3cr3t-value"})
    assert "s3cr3t" not in str(caught.value)
    assert "s3cr3t" not in str(caught.value.__cause__)
    assert caught.value.__context__ is caught.value.__cause__


@pytest.fixture
def hanging() -> tuple[str, threading.Event]:
    """Register an adapter that hangs until it is released, and return its name, too."""
    release = threading.Event()
    name = f"hanging{id(release)}"

    class Hanging:
        @hookimpl
        def sandboxio_backend_info(self) -> object:
            release.wait(30)
            return StubBackend(name).info

    register_plugin(name, Hanging())
    return name, release


async def test_an_import_that_hangs_is_a_create_timeout_and_holds_up_nobody_else(
    target: str, hanging: tuple[str, threading.Event]
) -> None:
    """PLG-01: hangs on import."""
    name, release = hanging
    try:
        with pytest.raises(CreateTimeout):
            await sandboxio.create(f"{name}://", timeout=0.2)
        async with sandboxio.create(target, timeout=10):
            pass
    finally:
        release.set()


async def test_an_import_that_hangs_holds_up_no_call_for_ever(
    monkeypatch: pytest.MonkeyPatch, hanging: tuple[str, threading.Event]
) -> None:
    """PLG-01: also where no deadline of the caller's holds."""
    name, release = hanging
    monkeypatch.setattr("sandboxio.request.LOOK_BOUND", 0.2)
    target = f"{name}://"
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: sandboxio.plan(target),
        lambda: sandboxio.backend_info(target),
        lambda: sandboxio.list_managed(target),
        lambda: sandboxio.kill_managed(target, "0123456789abcdef"),
    ]
    try:
        for call in calls:
            with pytest.raises(BackendUnavailable, match=r"not loaded within 0\.2 s"):
                await call()
    finally:
        release.set()


async def test_an_import_that_hangs_keeps_one_thread_and_none_of_the_programs(
    monkeypatch: pytest.MonkeyPatch, hanging: tuple[str, threading.Event]
) -> None:
    """PLG-01: however often it is tried; once it ends the adapter can be used."""
    name, release = hanging
    monkeypatch.setattr("sandboxio.plugins.LOAD_BOUND", 0.1)
    monkeypatch.setattr("sandboxio.request.LOOK_BOUND", 0.05)
    try:
        for _ in range(6):
            with pytest.raises(BackendUnavailable, match="not loaded within"):
                await sandboxio.backend_info(f"{name}://")
        assert anyio.to_thread.current_default_thread_limiter().borrowed_tokens == 0
        monkeypatch.setattr("sandboxio.request.LOOK_BOUND", 20)
        with pytest.raises(BackendUnavailable, match="is still being loaded"):
            await sandboxio.backend_info(f"{name}://")
    finally:
        release.set()
    monkeypatch.setattr("sandboxio.plugins.LOAD_BOUND", 20)
    assert (await sandboxio.backend_info(f"{name}://")).name == name


async def test_an_adapter_is_loaded_once(stub: StubBackend) -> None:
    loaded = await anyio.to_thread.run_sync(plugins.load, stub.info.name)
    assert plugins.load(stub.info.name) is loaded
    assert loaded.make_backend(StubConfig(), Redactor(())) is stub


def test_a_name_is_registered_once(stub: StubBackend) -> None:
    sandboxio.register(stub.info.name, f"sandboxio_stub_plugins:{stub.info.name}")
    with pytest.raises(ConfigurationError, match="registered already"):
        sandboxio.register(stub.info.name, "another:object")


def test_a_name_of_an_installed_adapter_cannot_be_taken(shelf: Shelf) -> None:
    shelf.good("taken-dist", "taken")
    with pytest.raises(ConfigurationError, match="registered already"):
        sandboxio.register("taken", "another:object")
