"""The front of the adapter: light, and found by its name."""

import subprocess
import sys

import pytest
import sandboxio
from sandboxio_bubblewrap.config import BubblewrapConfig


def test_loading_the_hooks_loads_nothing_else() -> None:
    code = "import sys, sandboxio_bubblewrap.plugin; print(*[m for m in ('pydantic', 'anyio', 'ctypes') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


@pytest.mark.anyio
async def test_it_is_found_by_its_scheme() -> None:
    info = await sandboxio.backend_info("bubblewrap://")
    assert (info.name, info.distribution, info.tier.value) == ("bubblewrap", "sandboxio-bubblewrap", "container")


@pytest.mark.parametrize("group", ["given", "/given/../other", "/", "/a b", ""])
def test_a_group_that_is_no_path_below_the_mount_is_refused(group: str) -> None:
    with pytest.raises(sandboxio.ConfigurationError):
        BubblewrapConfig(cgroup=group)
