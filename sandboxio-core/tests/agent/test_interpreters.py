"""The program inside runs on what images have: Python 3.8 and later, with and without ctypes."""

import ast
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sandboxio.port import Exit

from .harness import AS_FIRST_PROCESS, local_agent
from .test_files import content, pieces
from .test_kill import without_ctypes

INSIDE = sorted(Path(importlib.util.find_spec("sandboxio.agent.inside").submodule_search_locations[0]).glob("*.py"))  # type: ignore[union-attr,index]
ALLOWED = {
    "__future__",
    "_signal",
    "_socket",
    "errno",
    "fcntl",
    "gc",
    "posix",
    "resource",
    "select",
    "struct",
    "sys",
    "time",
}


def interpreters() -> list[str]:
    """Return every Python 3.8 or later of this machine."""
    places = [Path(sys.executable), Path("/usr/bin/python3")]
    places += [Path(path) for minor in range(8, 20) if (path := shutil.which(f"python3.{minor}"))]
    places += sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3"))
    found: dict[str, str] = {}
    for place in places:
        code = "import sys; assert sys.version_info >= (3, 8); print(sys.version_info[:3], sys.base_prefix)"
        answer = subprocess.run([str(place), "-c", code], capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            found.setdefault(answer.stdout, str(place))
    return list(found.values())


@pytest.mark.parametrize("file", INSIDE, ids=lambda file: file.stem)
def test_the_program_is_python_3_8_and_imports_only_what_every_build_has(file: Path) -> None:
    tree = ast.parse(file.read_text(), feature_version=(3, 8))
    hidden = [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    unseen = {id(child) for node in hidden for body in node.body for child in ast.walk(body)}
    for node in ast.walk(tree):
        if id(node) in unseen:
            continue
        if isinstance(node, ast.Import):
            assert {name.name for name in node.names} <= ALLOWED
        if isinstance(node, ast.ImportFrom):
            assert node.level or node.module in ALLOWED


@pytest.mark.parametrize("file", INSIDE, ids=lambda file: file.stem)
def test_no_module_of_it_is_longer_than_300_lines(file: Path) -> None:
    assert len(file.read_text().splitlines()) <= 300


@pytest.mark.anyio
@pytest.mark.parametrize("ctypes", [True, False], ids=["ctypes", "no-ctypes"])
@pytest.mark.parametrize("python", interpreters())
async def test_it_works_on_every_interpreter(python: str, ctypes: bool, tmp_path: Path) -> None:
    # Without ctypes an agent that isn't the first process can't tell its strays from those of this machine.
    program, prefix = (None, ()) if ctypes else (without_ctypes(), AS_FIRST_PROCESS)
    async with local_agent(python=python, prefix=prefix, program=program, workdir=str(tmp_path)) as agent:
        assert agent.session.report.has_ctypes is ctypes
        result = await agent.run("sh", "-c", "echo out; echo err >&2; exit 3")
        assert (result.stdout, result.stderr, result.exit) == (b"out\n", b"err\n", Exit(3))
        assert (await agent.run("no-such-program")).exit.code == 127
        assert (await agent.run("sh", "{code}", code=b"echo code")).stdout == b"code\n"
        driver = await agent.start("sh", "-c", "sleep 600 & sleep 600")
        assert await driver.kill() == "tree"
        path = tmp_path / "folder" / "file"
        await agent.session.write(str(path), pieces(b"x" * 200_000))
        assert await content(agent, path) == b"x" * 200_000
        assert [entry.path for entry in await agent.session.list(str(path.parent))] == [str(path)]
        await agent.session.remove(str(path.parent), recursive=True)
        assert not path.parent.exists()
