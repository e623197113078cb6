import ast
from pathlib import Path

import pytest
from sandboxio_contract import network


def test_every_public_name_is_where_the_table_says() -> None:
    table: dict[str, str] = network._WHERE
    assert sorted(table) == sorted(network.__all__)
    for name in network.__all__:
        assert getattr(network, name).__module__ == f"sandboxio_contract.network.{table[name]}"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        network.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_the_ground_imports_neither_core_nor_an_adapter() -> None:
    for path in Path(str(network.__file__)).parent.glob("*.py"):
        tree = ast.parse(path.read_text())
        names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
        names += [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        ours = {name.split(".")[0] for name in names if name.startswith("sandboxio")}
        assert ours <= {"sandboxio_contract"}, path.name
