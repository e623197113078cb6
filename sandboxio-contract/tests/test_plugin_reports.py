"""What a run leaves for other programs to read, and that nothing of it is lost between workers."""

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sandboxio_contract.cli import main
from sandboxio_contract.conformance import Conformance, conformance_schema
from sandboxio_contract.requirements import RULES
from sandboxio_contract.rows import all_rows
from sandboxio_contract.scheduling import group_of

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
CONFTEST = """
import sandboxio
for name in ("stub", "liar_late"):
    sandboxio.register(name.replace("_", "-"), f"sandboxio_contract.liars.stubs:{name}")
"""
ONE_FILE = """
from sandboxio_contract import Contract
from sandboxio_contract.liars.grounds import StubGround

contract = Contract("{name}://", ground=StubGround("{name}"))
"""
ONLY = ("NET-05", "NET-06", "NET-14", "ISO-02", "ISO-04", "TRD-07")

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "200")
    pytester.makeconftest(CONFTEST)
    only = [word for one in ONLY for word in ("--sandboxio-only", one)]
    return lambda *arguments: pytester.runpytest_subprocess(
        "-p", "sandboxio_contract", "--sandboxio-report", "conformance.json", *only, *arguments
    )


def told(pytester: pytest.Pytester) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((pytester.path / "conformance.json").read_text())
    Conformance.model_validate(data)
    return data


def verdicts(data: dict[str, Any]) -> dict[str, tuple[str, Counter[tuple[str, str]]]]:
    return {
        name: (entry["verdict"], Counter((row["row"], row["loop"]) for row in entry["rows"]))
        for name, entry in data["requirements"].items()
    }


def table(done: pytest.RunResult) -> list[str]:
    return [" ".join(line.split()[:2]) for line in done.outlines if line.split(" ")[0] in RULES]


def test_workers_tell_what_one_process_tells(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(test_contract=ONE_FILE.format(name="stub"))
    alone = run("test_contract.py")
    first = told(pytester)
    together = run("test_contract.py", "-n", "2")
    second = told(pytester)
    assert alone.ret == together.ret == 0
    assert table(alone) == table(together)
    assert {name.split(" ")[0] for name in table(together)} == {*ONLY, "TRIO-01"}
    one, two = verdicts(first), verdicts(second)
    left = "TRD-07"  # each worker looks at what is left of it
    assert two.pop(left)[0] == one.pop(left)[0] == "proven"
    assert one == two


def test_rows_of_one_module_go_to_one_worker(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(test_contract=ONE_FILE.format(name="stub"))
    for arguments in (("test_contract.py", "--dist", "loadgroup"), ("--sandboxio-target", "stub://")):
        done = run(*arguments, "-n", "2", "-v")
        found: dict[str, set[str]] = {}
        for line in done.outlines:
            told = re.match(r"\[(gw\d)\].*::(NET|ISO)-\d\d-", line)
            if told:
                found.setdefault(told[2], set()).add(told[1])
        assert set(found) == {"NET", "ISO"}  # one module each, as it happens
        assert all(len(workers) == 1 for workers in found.values()), done.outlines


def test_a_group_is_the_module_of_a_row() -> None:
    for row in all_rows():
        group = group_of(f"test_it.py::contract::{row.requirement}-{row.name}-trio")
        module = row.check.__module__.rpartition(".")[2]
        assert group == f"rows of {'network' if module == 'fixed' else module}"
    assert group_of("test_it.py::test_one[NET-02-deny_denies-uvloop]") is None
    assert group_of("test_it.py::NET-99-no_such_row-trio") is None


def test_each_worker_looks_at_what_is_left_of_it(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(test_contract=ONE_FILE.format(name="stub"))
    pytester.makeconftest(
        f"""{CONFTEST}
from sandboxio_contract.ground import Object
from sandboxio_contract.liars.grounds import StubGround

StubGround.objects = lambda ground, mark: [Object("sandbox", "kept", "running")]
"""
    )
    done = run("test_contract.py", "-n", "2")
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    done.stdout.fnmatch_lines(["TRD-07   violated *left behind: *", "FAILED: TRD-07 violated"])


def test_a_target_of_the_command_line_needs_no_file_with_workers_either(run: Run) -> None:
    done = run("--sandboxio-target", "stub://", "--numprocesses", "2")
    done.stdout.fnmatch_lines(["*contract: stub://*", "NET-14   refused *", "ISO-02   proven *"])
    assert {name.split(" ")[0] for name in table(done)} == {*ONLY, "TRIO-01"}


def test_several_targets_have_a_report_each(pytester: pytest.Pytester, run: Run) -> None:
    done = run("--sandboxio-target", "stub://", "--sandboxio-target", "liar-late://", "--sandboxio-only", "ISO-02")
    done.stdout.fnmatch_lines(["*contract: stub://*", "*contract: liar-late://*"])
    files = sorted(path.name for path in pytester.path.glob("*.json"))
    assert files == ["conformance-liar-late.json", "conformance-stub.json"]
    assert main(["render", *files]) == 0


def test_junit_has_id_verdict_and_evidence_of_each_row(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(test_contract=ONE_FILE.format(name="liar-late"))
    run("test_contract.py", "--junitxml", "junit.xml")
    cases = ElementTree.parse(pytester.path / "junit.xml").getroot().findall(".//testcase")
    found = [{one.get("name"): one.get("value") for one in case.findall("properties/property")} for case in cases]
    assert {one["requirement"] for one in found} == set(ONLY)
    assert all(set(one) == {"target", "requirement", "verdict", "evidence"} and one["evidence"] for one in found)
    assert {one["target"] for one in found} == {"liar-late://"}
    convicted = [one for one in found if one["verdict"] == "violated"]
    assert [one["requirement"] for one in convicted][:2] == ["NET-05", "NET-05"]
    assert "refused only after POST /sandboxes" in str(convicted[0]["evidence"])
    failed = [case for case in cases if case.find("failure") is not None]
    assert len(failed) == len(convicted)


def test_a_live_account_that_no_ground_can_judge_is_a_usage_error(pytester: pytest.Pytester, run: Run) -> None:
    done = run("--sandboxio-target", "stub://", "--sandboxio-live")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*--sandboxio-live: there is no way to judge an account of stub://*"])
    pytester.makepyfile(test_contract=ONE_FILE.format(name="stub"))
    assert run("test_contract.py", "--sandboxio-live").ret != 0


def test_it_runs_from_an_empty_folder_by_name_alone(tmp_path: Path) -> None:
    """As a user would: neither a file nor a setting, only the plugin's name."""
    command = [sys.executable, "-m", "pytest", "-p", "sandboxio_contract", "--sandboxio-target", "fake://"]
    command += ["--sandboxio-only", "NET-06", "--sandboxio-strict", "--sandboxio-report", "deep/conformance.json"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "SANDBOXIO"))}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    data = json.loads((tmp_path / "deep" / "conformance.json").read_text())
    assert data["requirements"]["NET-06"]["verdict"] == "refused"


WITHOUT_PYTEST = """
import sys
import anyio
from sandboxio_contract.rows.policies import learning_is_refused
from sandboxio_contract.target import Target

target = Target("fake://")
for loop in ("asyncio", "trio"):
    finding = anyio.run(learning_is_refused, target, backend=loop)
    print(finding.status, "pytest" in sys.modules)
target.close()
"""


def test_a_check_is_a_function_that_needs_no_pytest() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_PYTEST], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["refused False"] * 2, done.stderr


def test_the_published_schema_is_the_reports() -> None:
    published = json.loads((ROOT / "docs" / "conformance.schema.json").read_text())
    told = "run: python -m sandboxio_contract.conformance > docs/conformance.schema.json"
    assert published == conformance_schema(), told


def test_render_refuses_what_is_no_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "one.json"
    for content in ('{"schema": 1}', "[1]", "nothing"):
        page.write_text(content)
        assert main(["render", str(page)]) == 1
    assert "is no conformance.json" in capsys.readouterr().err
