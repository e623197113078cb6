"""The policy tables in the READMEs are what the adapters' plans say today."""

import re
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import sandboxio
from sandboxio_contract.policytable import END, made

ROOT = Path(__file__).parents[1]
READMES = [*ROOT.glob("sandboxio-*/README.md"), *ROOT.glob("examples/*/README.md")]
TABLE = re.compile(r"<!-- policy-table (\S+) -->\n\n(.*?)\n" + re.escape(END), re.DOTALL)
TABLES = [(path, one[1], one[2]) for path in READMES for one in TABLE.finditer(path.read_text(encoding="utf-8"))]


@pytest.fixture(scope="module", autouse=True)
def template() -> None:
    """Make the adapter template known, which is installed nowhere."""
    sys.path.append(str(ROOT / "examples" / "adapter-template" / "src"))
    with suppress(sandboxio.ConfigurationError):  # unless it is
        sandboxio.register("dockercli", "acme_sandboxio.plugin")


@pytest.mark.parametrize("path, target, table", TABLES, ids=[str(path.relative_to(ROOT)) for path, _, _ in TABLES])
def test_a_table_is_what_the_adapter_plans(
    path: Path, target: str, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/engine.sock")  # nobody is asked, so nobody has to answer
    assert table == made(target), f"run: sandboxio-contract policy-table {target} --into {path.relative_to(ROOT)}"


def test_every_adapter_has_a_table() -> None:
    assert {path.parent.name for path, _, _ in TABLES} >= {
        "sandboxio-docker",
        "sandboxio-bubblewrap",
        "sandboxio-e2b",
        "adapter-template",
    }
