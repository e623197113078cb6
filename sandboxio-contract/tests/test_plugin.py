"""The plugin as an adapter's repository uses it: without a test file, and with one of a few lines."""

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

pytest_plugins = ["pytester"]

Run = Callable[..., pytest.RunResult]

CONFTEST = """
import sandboxio
sandboxio.register("stub", "sandboxio_contract.liars.stubs:stub")
sandboxio.register("liar-late", "sandboxio_contract.liars.stubs:liar_late")
"""
ONE_FILE = """
from sandboxio_contract import Contract
from sandboxio_contract.liars.grounds import StubGround

contract = Contract("{name}://", only={only!r}, ground=StubGround("{name}"))
"""
QUICK = ["--sandboxio-only", "NET-14", "--sandboxio-only", "ISO-04"]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "200")
    pytester.makeconftest(CONFTEST)
    return lambda *arguments: pytester.runpytest_subprocess("-p", "sandboxio_contract", *arguments)


def test_a_target_needs_no_test_file(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(test_other="def test_other(): assert False")
    done = run("--sandboxio-target", "stub://", *QUICK)
    done.stdout.fnmatch_lines(["*contract: stub://*", "NET-14   refused *", "ISO-04   not-provable *"])
    assert "test_other" not in done.stdout.str()


def test_what_can_only_not_be_told_fails_the_run(run: Run) -> None:
    # By its DSN alone the suite knows no way to look at a stub: whether a refusal came first can't be told.
    done = run("--sandboxio-target", "stub://", *QUICK)
    done.stdout.fnmatch_lines(["FAILED: ISO-04 has only not-provable rows"])
    assert done.ret == pytest.ExitCode.TESTS_FAILED


def test_one_short_file_judges_an_adapter(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(test_contract=ONE_FILE.format(name="stub", only=["NET-14", "ISO-04", "TRD-01"]))
    done = run("--sandboxio-report", "conformance.json", "test_contract.py")
    done.stdout.fnmatch_lines(["TRD-01   proven *", "ISO-04   refused *", "TRIO-01 *proven *"])
    assert done.ret == 0
    data = json.loads((pytester.path / "conformance.json").read_text())
    assert data["requirements"]["TRD-01"]["verdict"] == "proven"
    loops = [row["loop"] for row in data["requirements"]["TRD-01"]["rows"]]
    assert sorted(loops) == ["asyncio"] * 2 + ["trio"] * 2
    assert data["versions"]["pytest"] == pytest.__version__


def test_a_violation_fails_and_shows_the_fact(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(test_contract=ONE_FILE.format(name="liar-late", only=["NET-05"]))
    done = run("test_contract.py")
    done.stdout.fnmatch_lines(["*refused only after POST /sandboxes*", "FAILED: NET-05 violated"])
    assert done.ret == pytest.ExitCode.TESTS_FAILED


def test_a_strict_run_fails_on_what_no_row_judges(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makeconftest(f"{CONFTEST}\nfrom sandboxio_contract import report\nreport.NOT_BUILT = {{'SEC-01'}}")
    pytester.makepyfile(test_contract=ONE_FILE.format(name="stub", only=["NET-14"]))
    assert run("test_contract.py").ret == 0
    done = run("test_contract.py", "--sandboxio-strict")
    done.stdout.fnmatch_lines(["FAILED: NET-02 was judged by no row", "FAILED: SEC-01 is not built"])
    assert done.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("name", ["NET-99", "NOT-*"])
def test_an_unknown_requirement_is_a_usage_error(run: Run, name: str) -> None:
    done = run("--sandboxio-target", "stub://", "--sandboxio-only", "NET-14", "--sandboxio-only", name)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert f"there is no requirement {name}\n" in done.stderr.str()


def test_requirements_can_be_named_by_their_beginning(run: Run) -> None:
    done = run("--sandboxio-target", "stub://", "--sandboxio-only", "ISO-0[24]")
    assert [line.split()[0] for line in done.outlines if line.startswith(("ISO-", "NET-"))] == ["ISO-02", "ISO-04"]


def test_other_test_runs_do_not_pay_for_the_plugin(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="import sys\ndef test_it():\n    assert not {'sandboxio', 'pydantic', 'trio'} & set(sys.modules)"
    )
    done = pytester.runpytest_subprocess("-p", "sandboxio_contract", "-p", "no:anyio")
    done.assert_outcomes(passed=1)
    assert "contract:" not in done.stdout.str()


def test_the_package_itself_loads_nothing() -> None:
    code = "import sys, sandboxio_contract.plugin; print(sorted({'sandboxio', 'pydantic', 'anyio'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
