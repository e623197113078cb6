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
