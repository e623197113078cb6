"""The policy table: what an adapter plans, asked of nobody."""

from pathlib import Path

import pytest
from sandboxio import NetworkPolicy, Plan
from sandboxio.port import Facts
from sandboxio.spec import SandboxSpec
from sandboxio.testing import FakeBackend, use
from sandboxio_contract.cli import main
from sandboxio_contract.policytable import GRID, HEAD, made


def rows(table: str) -> dict[str, list[str]]:
    """Return the cells after the first by what was asked for, the first line of each."""
    found: dict[str, list[str]] = {}
    for line in table.split("\n\n")[0].splitlines()[2:]:
        asked, *rest = line.strip("| ").split(" | ")
        found.setdefault(asked, rest)
    return found


def test_what_is_enforced_is_told_with_layer_and_by_whom_and_what_is_refused_with_its_error() -> None:
    with use(FakeBackend()):
        found = rows(made("fake://"))
    deny = found['`egress="deny"`, the default']
    assert deny[0].startswith("`network.egress = deny`: ")
    assert dict(zip(HEAD[2:5], deny[1:4], strict=True)) == {
        "enforced by": "provider",
        "evidence": "attested",
        "strength": "interface",
    }
    assert found['`egress="learn"`'][0].startswith("**refused**: CapabilityNotSupported (SBX_E1101): ")
    assert found["`require_isolation=MICROVM`"][0].startswith("**refused**: ConfigurationError (SBX_E1000): ")


def test_every_kind_of_policy_is_asked_for() -> None:
    networks = [wish.options["network"] for wish in GRID if "network" in wish.options]
    assert {one.egress for one in networks} == {"deny", "allow", "learn"}
    assert NetworkPolicy() in networks
    assert {name for wish in GRID for name in wish.options} == {
        "network",
        "resources",
        "timeout",
        "require_isolation",
        "metadata",
        "secrets",
    }


class Silent(FakeBackend):
    """One that must not be asked."""

    async def probe(self, spec: SandboxSpec) -> Facts:
        raise AssertionError

    async def provision(self, plan: Plan) -> str:
        raise AssertionError


def test_nobody_is_asked() -> None:
    with use(Silent()):
        assert "AssertionError" not in made("fake://")


def test_no_value_of_a_secret_is_in_a_table() -> None:
    value = next(wish.options["secrets"]["TOKEN"] for wish in GRID if "secrets" in wish.options)
    with use(FakeBackend()):
        assert value not in made("fake://")


def test_a_table_is_written_between_its_marks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "README.md"
    page.write_text("before\n<!-- policy-table fake:// -->\nold\n<!-- end of policy-table -->\nafter\n")
    assert main(["policy-table", "fake://", "--into", str(page)]) == 0
    text = page.read_text()
    assert text.startswith("before\n<!-- policy-table fake:// -->\n\n| asked for | ")
    assert text.endswith("\n\n<!-- end of policy-table -->\nafter\n")
    assert "old" not in text
    assert main(["policy-table", "fake://", "--into", str(page)]) == 0
    assert page.read_text() == text
    assert "is as it should be" in capsys.readouterr().out


def test_what_can_t_be_made_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "README.md"
    page.write_text("no marks")
    assert main(["policy-table", "fake://", "--into", str(page)]) == 1
    assert main(["policy-table", "nosuch://"]) == 1
    told = capsys.readouterr().err
    assert "there is no <!-- policy-table fake:// -->" in told
    assert "nosuch" in told
