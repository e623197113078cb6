"""`docs/write-an-adapter.md` is followed as it stands, with the template; what comes of it conforms.

Its blocks tagged `guide` are one session in bash: those of `sh` are commands, those of `python` are files. A block tagged
`whole` is run with SANDBOXIO_WHOLE_GUIDE=1, in `nox -s template`.
"""

import ast
import json
import os
import shlex
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "write-an-adapter.md"
TEMPLATE = ROOT / "examples" / "adapter-template"
WHOLE = os.environ.get("SANDBOXIO_WHOLE_GUIDE") == "1"
PART = ("NET-01", "NET-02", "NET-14", "TMO-01", "TMO-07", "CAP-07", "SEC-05", "TEN-04", "ISO-04", "FIL-03", "TRD-07")
"""Beside what the guide itself runs: denials, refusals, and something of each group."""
NOT_PROVABLE = {"TEN-02"}
"""What the template's README says can't be told of it."""


def session() -> Iterator[str]:
    """Yield the commands of the guide, files written by here-documents."""
    for token in MarkdownIt().parse(PAGE.read_text(encoding="utf-8")):
        words = token.info.split()
        if token.type != "fence" or "guide" not in words or ("whole" in words and not WHOLE):
            continue
        if words[0] == "sh":
            yield token.content
        else:
            name = shlex.quote(words[-1])
            yield f"mkdir -p $(dirname {name}); cat > {name} <<'END OF FILE'\n{token.content}END OF FILE\n"


def bash(script: str, folder: Path) -> str:
    """Run a script as a reader would, every line of it having to succeed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    environment |= {"SANDBOXIO_CHECKOUT": str(ROOT), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    done = subprocess.run(
        ["bash", "-euxo", "pipefail"],
        input=script,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=3000 if WHOLE else 600,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which the guide was followed."""
    folder = tmp_path_factory.mktemp("guide")
    bash("\n".join(session()), folder)
    return folder


@pytest.mark.docker
@pytest.mark.network
def test_the_guide_is_followed_literally_and_ends_well(followed: Path) -> None:
    assert "**refused**" in (followed / "my-adapter" / "policies.md").read_text()
    local = json.loads((followed / "my-local" / "local.json").read_text())["requirements"]
    assert "violated" not in {entry["verdict"] for entry in local.values()}
    if WHOLE:
        told = json.loads((followed / "my-adapter" / "conformance.json").read_text())["requirements"]
        verdicts = {name: entry["verdict"] for name, entry in told.items()}
        assert {name for name, verdict in verdicts.items() if verdict == "not-provable"} == NOT_PROVABLE
        assert not {"violated", "not run", "not built"} & set(verdicts.values())


@pytest.mark.docker
@pytest.mark.network
def test_ours_came_from_the_checkout(followed: Path) -> None:
    code = "from importlib.metadata import distributions as d\nfor one in d(): print(one.metadata['Name'], one.read_text('direct_url.json'))"
    lines = bash(f".venv/bin/python -c {shlex.quote(code)} 2>/dev/null", followed / "my-adapter").splitlines()
    ours = [line for line in lines if line.startswith(("sandboxio", "my-sandboxio"))]
    assert len(ours) == 3
    assert all("file://" in line for line in ours)


@pytest.mark.docker
@pytest.mark.network
def test_a_part_of_the_contract_is_clean(followed: Path) -> None:
    only = " ".join(f"--sandboxio-only {one}" for one in PART)
    said = bash(f".venv/bin/python -m pytest --sandboxio-report part.json {only}", followed / "my-adapter")
    told = json.loads((followed / "my-adapter" / "part.json").read_text())["requirements"]
    verdicts = {name: told[name]["verdict"] for name in (*PART, "TRIO-01")}
    assert verdicts.pop("NET-02") == "proven with residual", said
    assert verdicts.pop("SEC-05") == "not applicable"
    assert set(verdicts.values()) == {"proven", "refused"}, said
    parts = told["NET-02"]["rows"][0]["parts"]
    assert {part["name"] for part in parts if part["verdict"] != "proven"} == {"vsock"}


SHOW_ENVIRONMENT = """
import anyio, sandboxio

async def main():
    async with sandboxio.create("mycli://sandboxio-test/python?accept_vsock=1") as sandbox:
        print("inside:", repr((await sandbox.run("env")).stdout))

anyio.run(main)
"""


@pytest.mark.docker
@pytest.mark.network
def test_the_hosts_proxies_do_not_reach_a_sandbox(followed: Path, tmp_path: Path) -> None:
    """The docker command tells each container of those in its configuration, with their passwords."""
    (tmp_path / "config.json").write_text('{"proxies": {"default": {"httpProxy": "http://me:canary@proxy.test:1"}}}')
    script = f"DOCKER_CONFIG={tmp_path} .venv/bin/python -c {shlex.quote(SHOW_ENVIRONMENT)}"
    inside = next(line for line in bash(script, followed / "my-adapter").splitlines() if line.startswith("inside:"))
    assert "HOME=/tmp" in inside
    assert "canary" not in inside


ASKED = """
from acme_sandboxio.backend import DockerCli
from acme_sandboxio.info import DockerCliConfig
print(*DockerCli(DockerCliConfig()).exec_argv("an-id", ["HOME", "TOKEN"], stdin=False))
"""


def test_a_commands_own_variables_do_not_choose_the_engine() -> None:
    environment = {**os.environ, "PYTHONPATH": str(TEMPLATE / "src"), "DOCKER_HOST": "unix:///elsewhere.sock"}
    done = subprocess.run([sys.executable, "-c", ASKED], env=environment, capture_output=True, text=True, check=True)
    words = [
        "docker",
        "--host=unix:///elsewhere.sock",
        "exec",
        "--user=65534:65534",
        "--env=HOME",
        "--env=TOKEN",
        "an-id",
    ]
    assert done.stdout.split() == words


def test_the_templates_code_is_under_200_lines_and_its_contract_under_ten() -> None:
    assert sum(code_lines(path) for path in TEMPLATE.glob("src/**/*.py")) < 200
    assert len((TEMPLATE / "tests" / "test_contract.py").read_text().splitlines()) < 10


def code_lines(path: Path) -> int:
    """Count the lines that are neither blank nor comments nor docstrings."""
    with tokenize.open(path) as file:
        source = file.read()
    told = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = tokenize.generate_tokens(iter(source.splitlines(keepends=True)).__next__)
    code = {line for one in tokens if one.type not in silent for line in range(one.start[0], one.end[0] + 1)}
    return len(code - told)


def test_lines_of_code_are_counted_right(tmp_path: Path) -> None:
    page = tmp_path / "a.py"
    page.write_text(
        '"""A page.\n\nMore."""\n\nx = 1  # said\n# not\ny = """\n\n"""\n\n\ndef f() -> None:\n    """Told."""\n'
    )
    assert code_lines(page) == 5
