"""The lists of lies are whole: many, of names of their own, and for each requirement one that it alone must convict."""

from pathlib import Path

import pytest
from sandboxio_contract import cli
from sandboxio_contract.liars import LIARS
from sandboxio_contract.liars.shown import LIES
from sandboxio_contract.requirements import DERIVED, RULES
from sandboxio_contract.rows import all_rows


def test_each_requirement_has_a_lie_that_nothing_else_must_convict() -> None:
    alone = {requirement for lie in LIES if len(lie.must) == 1 for requirement in lie.must}
    assert set(RULES) - alone == set()


def test_lies_are_many_and_have_names_of_their_own() -> None:
    names = [lie.name for lie in LIES]
    assert len(set(names)) == len(names)
    assert len(LIARS) >= 60


def test_the_readme_says_what_is_convicted(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["liars"]) == 0
    readme = Path(__file__).parents[2].joinpath("README.md").read_text(encoding="utf-8")
    shown = readme.partition("<!-- liars -->\n")[2].partition("<!-- end -->\n")[0]
    assert shown.strip() == capsys.readouterr().out.strip(), "put in what `sandboxio-contract liars` prints"


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
