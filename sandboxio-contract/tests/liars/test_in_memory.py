"""The liars that are stubs are convicted by the rows that must, by no row that may not, and the honest stub by none."""

import pytest
from sandboxio_contract.liars import LIARS, Liar
from sandboxio_contract.report import judge
from sandboxio_contract.requirements import DERIVED
from sandboxio_contract.rows import LOOPS, Loop, all_rows

from .judging import OF_THE_WORLD, ON_STUB, check, judged, on_stub, stub, wanted


@pytest.mark.usefixtures("haste")
@pytest.mark.parametrize("loop", LOOPS)
def test_the_honest_stub_is_acquitted(loop: Loop) -> None:
    results = judged(stub("stub", "sandboxio_contract.liars.stubs:stub"), filter(on_stub, all_rows()), [loop])
    assert {result.requirement for result in results} == ON_STUB
    assert [result for result in results if result.status not in ("proven", "refused")] == []


@pytest.mark.usefixtures("haste")
@pytest.mark.parametrize(
    "name, module, requirement",
    [
        ("stub-fixed", "promises", "CAP-06"),
        ("stub-keyed", "promises", "SEC-05"),
        ("stub-unknown", "promises", "ISO-03"),
        ("stub-leaky", "promises", "NET-11"),
        ("stub-brokered", "offers", "SEC-03"),
        ("stub-stored", "offers", "TEN-03"),
        ("stub-counting", "offers", "NET-07"),
        ("stub-talkative", "commands", "SEC-01"),
        ("stub-talkative", "commands", "ERR-01"),
    ],
)
def test_an_honest_stub_of_another_kind_is_acquitted(name: str, module: str, requirement: str) -> None:
    target = stub(name, f"sandboxio_contract.liars.{module}:{name.replace('-', '_')}")
    results = judged(
        target, [row for row in all_rows() if row.requirement == requirement and row.name not in OF_THE_WORLD]
    )
    assert [result for result in results if result.status not in ("proven", "refused")] == []


@pytest.mark.usefixtures("haste")
@pytest.mark.parametrize(
    "liar", [one for one in LIARS if not one.is_real and not one.must & DERIVED], ids=lambda one: one.name
)
def test_a_liar_on_the_stub_is_convicted_by_the_right_rows(liar: Liar) -> None:
    target, rows = stub(liar.name, liar.adapter), wanted(liar, on_stub)
    check(liar, judged(target, rows))


@pytest.mark.usefixtures("haste")
@pytest.mark.parametrize("liar", [one for one in LIARS if one.must & DERIVED], ids=lambda one: one.name)
def test_a_liar_of_all_rows_is_convicted_by_both_loops(liar: Liar) -> None:
    target = stub(liar.name, liar.adapter)
    results = judged(target, wanted(liar, on_stub), LOOPS)
    lines = {line.requirement: line.status for line in judge(target.dsn, results).lines}
    assert {lines[requirement] for requirement in liar.must} == {"violated"}, f"not convicted: {liar.lie}"
    assert [one.requirement for one in results if one.status == "violated" and one.loop == "asyncio"] == []
