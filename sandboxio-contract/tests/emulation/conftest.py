import os
from collections.abc import Iterator

import pytest
from sandboxio_contract.emulation import Outside


@pytest.fixture(autouse=True)
def _needs_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("emulated sandboxes need root: they have namespaces of their own")


@pytest.fixture
def outside() -> Iterator[Outside]:
    made = Outside.start()
    yield made
    made.close()
