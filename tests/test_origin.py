"""No distribution of ours may come from an index: the names there belong to another project."""

import json
import os
from importlib.metadata import Distribution, distributions

import pytest

OURS = [found for found in distributions() if found.metadata["Name"].startswith("sandboxio")]


def test_ours_are_installed() -> None:
    assert {"sandboxio", "sandboxio-core"} <= {found.metadata["Name"] for found in OURS}


@pytest.mark.parametrize("distribution", OURS, ids=lambda found: found.metadata["Name"])
def test_each_of_ours_was_installed_by_path(distribution: Distribution) -> None:
    url = origin(distribution)["url"]
    assert url.startswith("file://")
    assert url.endswith(os.environ.get("SANDBOXIO_EXPECT_ORIGIN", ""))  # `.whl` in `nox -s wheels`


def origin(distribution: Distribution) -> dict[str, str]:
    """Return what pip noted about where it took the distribution from; it notes nothing for an index."""
    noted = distribution.read_text("direct_url.json")
    assert noted, f"{distribution.metadata['Name']} {distribution.version} was taken from an index"
    found: dict[str, str] = json.loads(noted)
    return found
