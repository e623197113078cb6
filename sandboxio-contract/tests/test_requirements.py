"""The list of requirements, the rows, and what is said not to be built."""

import importlib
import inspect

from sandboxio_contract.liars.shown import LIES
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


def test_lies_speak_of_requirements_and_rows_that_there_are() -> None:
    names = {row.name: row.requirement for row in all_rows()}
    judged = {*names.values(), *DERIVED}
    for lie in LIES:
        assert lie.must
        assert lie.must | lie.may <= judged, lie.name
        assert not lie.must & lie.may, lie.name
        assert {names[row] for row in lie.rows} <= lie.must, lie.name


def test_a_lie_against_a_requirement_of_several_rows_says_which_of_them_convict() -> None:
    """Else one of them could go, and the others would convict for it."""
    rows = [row.requirement for row in all_rows()]
    for lie in LIES:
        assert lie.rows or all(rows.count(one) < 2 for one in lie.must), lie.name


def test_each_row_of_a_requirement_of_several_convicts_some_lie() -> None:
    rows = [row.requirement for row in all_rows()]
    convicting = {name for lie in LIES for name in lie.rows}
    assert {row.name for row in all_rows() if rows.count(row.requirement) > 1} - convicting == set()
