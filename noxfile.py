"""The repository's verbs.

`lint`, `types` and `tests` use the environment nox itself runs in (`make venv`); `wheels` and `lowest` make their own.
Our distributions are always installed by path, never from an index.
"""

import json
import os
import shutil
import sys
import tomllib
from pathlib import Path

import nox
from packaging.requirements import Requirement

nox.needs_version = ">=2024.4"
nox.options.sessions = ["lint", "types", "tests"]

DISTRIBUTIONS = ("sandboxio-core", "sandboxio-docker", "sandboxio-bubblewrap", "sandboxio-e2b", "sandboxio-contract")
ALL = (".", *DISTRIBUTIONS)
PYTHON = sys.executable
CONTRACT_IMAGES = ("python", "user", *(f"{image}?accept_vsock=1" for image in ("python-minimal", "busybox", "static")))
EMBEDDED = "bubblewrap"
UNIT_TESTS = (
    "-m",
    "not docker and not emulated",
    "tests/test_origin.py",
    *(f"{folder}/tests" for folder in DISTRIBUTIONS),
)


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """Run the whole suite."""
    session.run(PYTHON, "-m", "pytest", *session.posargs)


@nox.session(name="liars-full", venv_backend="none")
def liars_full(session: nox.Session) -> None:
    """Judge every liar of the contract by every row that can be judged on what it is built on: hours, on an engine."""
    session.run(
        PYTHON,
        "-m",
        "pytest",
        "sandboxio-contract/tests/liars",
        *session.posargs,
        env={"SANDBOXIO_LIARS": "full"},
    )


@nox.session(venv_backend="none")
def lint(session: nox.Session) -> None:
    """Check style, layout and the import rules."""
    session.run(PYTHON, "-m", "ruff", "check", ".")
    session.run(PYTHON, "-m", "ruff", "format", "--check", ".")
    session.run(str(Path(PYTHON).with_name("lint-imports")))


@nox.session(venv_backend="none")
def types(session: nox.Session) -> None:
    """Check types with mypy and pyright, both strict."""
    session.run(PYTHON, "-m", "mypy", "noxfile.py", "conftest.py", "benchmarks", "engine", "tests")
    for folder in DISTRIBUTIONS:  # one run each: their test modules share names
        session.run(PYTHON, "-m", "mypy", f"{folder}/src", f"{folder}/tests")
    session.run(PYTHON, "-m", "mypy", "examples/adapter-template/src", "examples/adapter-template/tests")
    session.run(PYTHON, "-m", "pyright")


@nox.session(venv_backend="venv")
def wheels(session: nox.Session) -> None:
    """Build every distribution, install the wheels by path, and run the unit tests on them."""
    dist = Path(session.create_tmp(), "dist")
    shutil.rmtree(dist, ignore_errors=True)
    for folder in ALL:
        session.run(PYTHON, "-m", "build", "--no-isolation", "--outdir", str(dist), folder, external=True, silent=True)
    session.install("-r", "requirements/test.txt", *(str(wheel) for wheel in dist.glob("*.whl")))
    session.run("python", "-m", "pytest", *UNIT_TESTS, *session.posargs, env={"SANDBOXIO_EXPECT_ORIGIN": ".whl"})


@nox.session(python="3.11", venv_backend="venv")
def lowest(session: nox.Session) -> None:
    """Run the unit tests on the lowest version of everything the distributions claim to support."""
    lowest_versions = dict(bound for folder in DISTRIBUTIONS for bound in lower_bounds(Path(folder)))
    constraints = Path(session.create_tmp(), "lowest.txt")
    constraints.write_text("".join(f"{name}=={version}\n" for name, version in lowest_versions.items()))
    tools = [line for line in pinned_tools() if Requirement(line).name not in lowest_versions]
    session.install("--constraint", str(constraints), *tools, *(f"./{folder}" for folder in ALL))
    session.run("python", "-m", "pytest", *UNIT_TESTS, *session.posargs)


@nox.session(venv_backend="none")
def contract(session: nox.Session) -> None:
    """Judge Docker by the whole contract on each test image, and bubblewrap, or what is named; about ten minutes each."""
    folder = Path(session.create_tmp())
    violated: list[str] = []
    for image in session.posargs or (*CONTRACT_IMAGES, EMBEDDED):
        report = folder / f"{image.partition('?')[0]}.json"
        report.unlink(missing_ok=True)
        dsn = f"{EMBEDDED}://" if image == EMBEDDED else f"docker://sandboxio-test/{image}"
        target = ("--sandboxio-target", dsn, "--sandboxio-report", str(report))
        # Its sandboxes are on the judging process's own network, which must have no uplink then.
        apart = ("unshare", "--net") if image == EMBEDDED else ()
        # An image without a shell leaves rows that nobody can tell; they fail the run, and here they are told of only.
        judging = (PYTHON, "-m", "pytest", "-q", "-p", "sandboxio_contract", "-c", os.devnull, *target)
        session.run(*apart, *judging, success_codes=(0, 1), external=True)
        rules = json.loads(report.read_text())["requirements"]
        violated += [f"{name} on {image}" for name, rule in rules.items() if rule["verdict"] == "violated"]
    if violated:
        session.error(f"violated: {', '.join(violated)}")


@nox.session(venv_backend="none")
def template(session: nox.Session) -> None:
    """Follow the guide to writing an adapter to its end, with the whole contract on the template: half an hour."""
    whole = {"SANDBOXIO_WHOLE_GUIDE": "1", "SANDBOXIO_REQUIRE": "docker"}
    session.run(PYTHON, "-m", "pytest", "tests/test_adapter_template.py", *session.posargs, env=whole)


@nox.session(venv_backend="venv")
def bench(session: nox.Session) -> None:
    """Measure against the engine's plain way, the docker command and llm-sandbox, which alone lives in this environment."""
    session.install("-r", "benchmarks/requirements.txt")
    peer = Path(session.bin, "python")
    session.run(PYTHON, "-m", "benchmarks.run", "--llm-python", str(peer), *session.posargs, external=True)


def lower_bounds(folder: Path) -> list[tuple[str, str]]:
    """Return the name and lowest version of each third-party dependency."""
    project = tomllib.loads(Path(folder, "pyproject.toml").read_text())["project"]
    requirements = [Requirement(line) for line in project["dependencies"]]
    return [(need.name, bound.version) for need in requirements for bound in need.specifier if bound.operator == ">="]


def pinned_tools() -> list[str]:
    """Return the requirements of a test run, without their comments."""
    lines = (line.split("#")[0].strip() for line in Path("requirements/test.txt").read_text().splitlines())
    return [line for line in lines if line]
