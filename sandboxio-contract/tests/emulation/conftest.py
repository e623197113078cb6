from collections.abc import Iterator

import pytest
from sandboxio_contract.emulation import Outside


@pytest.fixture
def outside() -> Iterator[Outside]:
    made = Outside.start()
    yield made
    made.close()
