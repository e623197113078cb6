"""The liars that wrap the real adapter are convicted by the rows that must, and by no row that may not."""

import pytest
from sandboxio_contract.ground.docker import DockerGround
from sandboxio_contract.liars import LIARS, Liar
from sandboxio_contract.target import Target

from .judging import check, judged, wanted


def name(liar: Liar) -> str:
    """Name the liar; one that is judged by what this machine has once begins as the scheduler wants it."""
    of_machine = liar.module == "networks" or "CAP-03" in liar.must
    return f"machine-{liar.name}" if of_machine else liar.name


@pytest.mark.docker
@pytest.mark.network
@pytest.mark.parametrize("liar", [one for one in LIARS if one.is_real], ids=name)
def test_a_liar_on_docker_is_convicted_by_the_right_rows(liar: Liar) -> None:
    target = Target(liar.dsn, DockerGround(liar.dsn), register={liar.name: liar.adapter})
    check(liar, judged(target, wanted(liar, lambda _: True)))
