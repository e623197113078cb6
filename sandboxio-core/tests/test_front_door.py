"""`import sandboxio`: light, complete, and the same for people, type checkers and the interpreter."""

import ast
import subprocess
import sys
import time
from pathlib import Path

import pytest
import sandboxio

SOURCE = Path(sandboxio.__file__)
TREE = ast.parse(SOURCE.read_text())


def type_block() -> dict[str, str]:
    """Return the names that type checkers see, and the modules that they come from."""
    (block,) = [
        node
        for node in TREE.body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    ]
    found: dict[str, str] = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            assert alias.asname is None
            found[alias.name] = str(node.module).removeprefix("sandboxio.")
    return found


def test_table_all_and_type_block_agree() -> None:
    assert type_block() == sandboxio._WHERE  # pyright: ignore[reportAttributeAccessIssue]
    assert sorted(type_block()) == sorted(sandboxio.__all__)
    assert len(set(sandboxio.__all__)) == len(sandboxio.__all__)


@pytest.mark.parametrize("name", sandboxio.__all__)
def test_each_public_name_is_what_its_module_holds(name: str) -> None:
    value = getattr(sandboxio, name)
    assert value is getattr(sys.modules[f"sandboxio.{type_block()[name]}"], name)
    assert vars(sandboxio)[name] is value, "it is looked up once"


@pytest.mark.parametrize("name", sandboxio.__all__)
def test_no_module_takes_the_place_of_a_public_name(name: str) -> None:
    assert not (SOURCE.parent / f"{name}.py").exists()
    assert not (SOURCE.parent / name).exists()


def test_no_error_is_a_builtin_or_shadows_one() -> None:
    import builtins

    for name in sandboxio.__all__:
        assert not hasattr(builtins, name), name
        value = getattr(sandboxio, name)
        if isinstance(value, type) and issubclass(value, sandboxio.SandboxError):
            parents = [cls for cls in value.__mro__ if cls.__module__ == "builtins"]
            assert parents == [Exception, BaseException, object]


def test_a_typo_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="creat"):
        sandboxio.creat  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # noqa: B018


def test_dir_lists_the_public_names() -> None:
    assert set(sandboxio.__all__) <= set(dir(sandboxio))


def loaded_by(statement: str) -> set[str]:
    """Return the modules that a fresh interpreter loads for one statement."""
    program = f"import sys; before = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - before))"
    environment = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    answer = subprocess.run(
        [sys.executable, "-S", "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return set(answer.stdout.split())


def test_importing_the_package_loads_nothing_else() -> None:
    assert loaded_by("import sandboxio") == {"sandboxio"}


@pytest.mark.parametrize(
    ("name", "modules"),
    [
        ("SandboxError", {"sandboxio.errors"}),
        ("Capability", {"sandboxio.capabilities"}),
        ("IsolationTier", {"sandboxio.isolation"}),
    ],
)
def test_names_of_the_standard_library_alone_load_no_third_party_module(name: str, modules: set[str]) -> None:
    loaded = loaded_by(f"import sandboxio; sandboxio.{name}")
    ours = {module for module in loaded if module.startswith("sandboxio.")}
    assert ours == modules
    third = {"anyio", "trio", "pydantic", "pydantic_core", "pluggy", "importlib_metadata", "asyncio"}
    assert not loaded & third


def test_nothing_loads_an_adapter_trio_or_an_sdk() -> None:
    loaded = loaded_by("import sandboxio.api")
    forbidden = {"trio", "docker", "requests", "sandboxio_docker", "e2b", "modal", "pytest", "hypothesis"}
    assert not loaded & forbidden


def test_importing_the_package_is_quick() -> None:
    """A loose ceiling; which modules are loaded is the exact test."""
    best = min(_seconds("import sandboxio") for _ in range(5))
    assert best < 0.05


def _seconds(statement: str) -> float:
    program = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    environment = {"PYTHONPATH": str(SOURCE.parent.parent)}
    started = time.perf_counter()
    answer = subprocess.run(
        [sys.executable, "-S", "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert time.perf_counter() > started
    return float(answer.stdout)


def test_every_module_has_at_most_three_hundred_lines_and_no_grab_bag_name() -> None:
    for path in SOURCE.parent.glob("*.py"):
        assert path.stem not in {"utils", "util", "helpers", "common", "misc"}
        assert len(path.read_text().splitlines()) <= 300, path.name
