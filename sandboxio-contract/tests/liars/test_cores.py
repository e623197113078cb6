"""A core that breaks one of its promises is convicted, and what the suite can't see proves nothing."""

import pytest
from sandboxio_contract.liars.cores import CORES, BrokenCore
from sandboxio_contract.liars.witnesses import SEEING, WITNESSES, BlindWitness
from sandboxio_contract.rows import all_rows
from sandboxio_contract.target import Target

from .judging import check, judged, on_stub, stub, wanted


@pytest.mark.usefixtures("haste")
@pytest.mark.parametrize("core", CORES, ids=lambda one: one.name)
def test_a_core_that_breaks_its_own_promise_is_convicted(core: BrokenCore) -> None:
    with core.applied():
        check(core, judged(stub(core.backend, core.adapter), wanted(core, on_stub)))


def test_a_fault_of_core_is_taken_back() -> None:
    for core in CORES:
        before = [of_core(where, name) for where, name, _ in core.faults]
        with core.applied():
            assert [of_core(where, name) for where, name, _ in core.faults] == [broken for _, _, broken in core.faults]
        assert [of_core(where, name) for where, name, _ in core.faults] == before


def of_core(where: object, name: str) -> object:
    return vars(where).get(name)


@pytest.mark.parametrize("blind", [SEEING, *WITNESSES], ids=lambda one: one.name)
def test_a_blind_witness_proves_nothing(blind: BlindWitness) -> None:
    target = Target("stub://", blind.ground(), register={"stub": "sandboxio_contract.liars.stubs:stub"})
    results = judged(target, [row for row in all_rows() if row.requirement in blind.must])
    assert {one.requirement for one in results} == blind.must
    assert {one.status for one in results} == {"proven" if blind is SEEING else "not-provable"}
