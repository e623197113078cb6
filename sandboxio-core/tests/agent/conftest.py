"""What the agent's tests share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from .harness import Local, local_agent


@pytest.fixture
async def agent(anyio_backend: str, tmp_path: Path) -> AsyncIterator[Local]:
    """An agent whose default working directory is ``tmp_path``."""
    async with local_agent(workdir=str(tmp_path)) as local:
        yield local
