"""The list of requirements, the rows, and what is said not to be built."""

import importlib
import inspect

from sandboxio_contract.requirements import DERIVED, NOT_BUILT, RULES
from sandboxio_contract.rows import MODULES, all_rows


def test_each_requirement_has_rows_or_is_said_not_to_be_built() -> None:
    judged = {row.requirement for row in all_rows()}
    assert judged | NOT_BUILT | DERIVED == set(RULES)
    assert not judged & NOT_BUILT
    assert not DERIVED & (judged | NOT_BUILT)


def test_each_row_says_what_it_promises_and_has_a_name_of_its_own() -> None:
    names = [row.name for row in all_rows()]
    assert len(names) == len(set(names))
    assert all(inspect.getdoc(row.check) for row in all_rows())


def test_a_check_is_a_plain_async_function() -> None:
    assert all(inspect.iscoroutinefunction(row.check) for row in all_rows())


def test_what_is_left_of_the_run_is_looked_at_last() -> None:
    assert all_rows()[-1].requirement == "TRD-07"


def test_every_module_with_rows_is_named() -> None:
    package = importlib.import_module("sandboxio_contract.rows")
    assert {row.check.__module__.rpartition(".")[2] for row in all_rows()} == set(MODULES)
    assert package.all_rows() == all_rows()
