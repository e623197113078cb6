import os
from collections.abc import Iterator

import pytest
from sandboxio_contract.network import Arena, DockerReference, HostCanary

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="the host canary needs root")


@pytest.fixture
def arena() -> Iterator[Arena]:
    with Arena.start() as started:
        yield started


@pytest.fixture(scope="module")
def canary() -> Iterator[HostCanary]:
    if os.geteuid() != 0:
        pytest.skip("the host canary needs root")
    with HostCanary.start() as started:
        yield started


@pytest.fixture(scope="module")
def reference(canary: HostCanary) -> Iterator[DockerReference]:
    with DockerReference(canary) as made:
        yield made
