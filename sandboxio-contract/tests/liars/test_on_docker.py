"""The liars that wrap the real adapter are convicted by the rows that must, and by no row that may not."""

import pytest
from sandboxio_contract.ground.docker import DockerGround
from sandboxio_contract.liars import LIARS, Liar
from sandboxio_contract.target import Target

from .judging import check, judged, wanted


@pytest.mark.docker
@pytest.mark.network
@pytest.mark.parametrize("liar", [one for one in LIARS if one.is_real], ids=lambda one: one.name)
def test_a_liar_on_docker_is_convicted_by_the_right_rows(liar: Liar) -> None:
    target = Target(liar.dsn, DockerGround(liar.dsn), register={liar.name: liar.adapter})
    check(liar, judged(target, wanted(liar, lambda _: True)))
