"""Every liar is convicted by the rows that must, by no row that may not, and the honest one by none."""

import pytest
from sandboxio_contract.ground.docker import DockerGround
from sandboxio_contract.liars import LIARS, Liar
from sandboxio_contract.liars.grounds import StubGround
from sandboxio_contract.rows import all_rows
from sandboxio_contract.run import Result, run_row
from sandboxio_contract.target import Target

SAMPLE = {"NET-06", "NET-14", "ISO-04", "TMO-01", "RUN-04"}
"""Quick rows that every liar meets besides its own, so that a conviction of the wrong kind shows."""
STUB_ROWS = {
    *("NET-01", "NET-05", "NET-06", "TMO-01", "TMO-02", "TMO-03", "TMO-05", "CAP-02", "ISO-01", "ISO-04", "RUN-01"),
    *("RUN-04", "TRD-01", "TRD-02", "TRD-03", "TRD-04", "TRD-05", "TRD-08", "LOOP-01", "TRD-07"),
}
"""What can be judged on the stub, which isolates nothing and has no network."""
DOCKER_IMAGE = "sandboxio-test/python"


def judged(target: Target, requirements: set[str], loop: str = "asyncio") -> list[Result]:
    try:
        return [run_row(row, target, loop) for row in all_rows() if row.requirement in requirements]  # type: ignore[arg-type]
    finally:
        target.close()


def convictions(liar: Liar, target: Target, requirements: set[str]) -> set[str]:
    return {result.requirement for result in judged(target, requirements) if result.status == "violated"}


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_the_honest_stub_is_acquitted(loop: str) -> None:
    target = Target("stub://", StubGround("stub"), register={"stub": "sandboxio_contract.liars.stubs:stub"})
    results = judged(target, STUB_ROWS, loop)
    assert {result.requirement for result in results} == STUB_ROWS
    assert [result for result in results if result.status not in ("proven", "refused")] == []


@pytest.mark.parametrize("liar", [one for one in LIARS if one.base == "stub"], ids=lambda one: one.name)
def test_a_liar_on_the_stub_is_convicted_by_the_right_rows(liar: Liar) -> None:
    target = Target(f"{liar.name}://", StubGround(liar.name), register={liar.name: liar.adapter})
    found = convictions(liar, target, {*liar.must, *(SAMPLE & STUB_ROWS)})
    assert liar.must <= found, f"not convicted: {liar.lie}"
    assert found <= liar.must | liar.may


@pytest.mark.docker
@pytest.mark.network
@pytest.mark.parametrize("liar", [one for one in LIARS if one.base == "docker"], ids=lambda one: one.name)
def test_a_liar_on_docker_is_convicted_by_the_right_rows(liar: Liar) -> None:
    dsn = f"{liar.name}://{DOCKER_IMAGE}"
    target = Target(dsn, DockerGround(dsn), register={liar.name: liar.adapter})
    found = convictions(liar, target, {*liar.must, *SAMPLE})
    assert liar.must <= found, f"not convicted: {liar.lie}"
    assert found <= liar.must | liar.may
