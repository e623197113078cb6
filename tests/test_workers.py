"""What goes to one worker of `make test`, and what may go on at once."""

from conftest import unit_of

CONTRACT = "sandboxio-contract/tests/test_docker_contract.py"
LIARS = "sandboxio-contract/tests/liars/test_on_docker.py"


def test_what_the_machine_has_once_is_one_workers() -> None:
    canary = "sandboxio-contract/tests/network/test_host_canary.py::test_it"
    for other in (f"{CONTRACT}::test_it[machine-trio]", f"{LIARS}::test_it[machine-liar-open]"):
        assert unit_of(other) == unit_of(canary)


def test_a_file_stays_together_unless_its_tests_share_nothing() -> None:
    assert unit_of("tests/test_it.py::test_one[a]") == unit_of("tests/test_it.py::test_two")
    assert unit_of(f"{LIARS}::test_it[liar-forks]") != unit_of(f"{LIARS}::test_it[liar-keeps]")
    assert unit_of(f"{CONTRACT}::test_one[ends]") == unit_of(f"{CONTRACT}::test_two[ends]")
    assert unit_of(f"{CONTRACT}::test_one[ends]") != unit_of(f"{CONTRACT}::test_one[rest]")
