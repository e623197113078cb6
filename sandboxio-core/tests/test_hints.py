"""ERR-01: each error that core raises says what to do about it, in the place where it is raised."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sandboxio
from sandboxio import ConfigurationError, SandboxError, errors

SOURCES = sorted(Path(sandboxio.__file__ or "").parent.rglob("*.py"))
SPECIFIC = (errors.FileSystemError, errors.SandboxGone, errors.SandboxTimeout, errors.ResourceLimitExceeded)
"""Classes of which one fix fits all, or that work it out."""


def raised(source: str) -> Iterator[tuple[int, ast.Call]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            cls = getattr(errors, node.func.id, None)
            if isinstance(cls, type) and issubclass(cls, SandboxError) and not issubclass(cls, SPECIFIC):
                yield node.lineno, node


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_each_error_names_its_fix_where_it_is_raised(path: Path) -> None:
    without = [line for line, call in raised(path.read_text()) if "hint" not in {key.arg for key in call.keywords}]
    assert without == []


def test_an_error_without_a_fix_would_be_seen() -> None:
    assert [line for line, _ in raised("x = 1\nraise ConfigurationError('no')")] == [2]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"resources": {"cpu": 1}}, "Resources(cpu="),
    ({"network": "deny"}, 'NetworkPolicy(egress="deny"'),
    ({"require_isolation": "MICROVM"}, "IsolationTier.MICROVM"),
    ({"env": ["A=1"]}, "env={'NAME': 'value'}"),
    ({"env": {"A": 1}}, "str(value)"),
    ({"secrets": "value"}, "secrets={'NAME': 'value'}"),
    ({"secrets": {"A": None}}, "pass text"),
    ({"secrets": {"A": ""}}, "env="),
    ({"metadata": {"a": 1}}, "tenant_id"),
    ({"timeout": None}, "there is no unlimited"),
    ({"target": 5}, "docker://"),
    ({"redact_output": 1}, "True or False"),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("arguments", "fix"), WRONG, ids=[next(iter(arguments)) for arguments, _ in WRONG])
async def test_a_wrong_argument_says_what_to_pass(target: str, arguments: dict[str, Any], fix: str) -> None:
    given: dict[str, Any] = {"target": target, **arguments}
    with pytest.raises(SandboxError) as caught:
        await sandboxio.create(**given)
    assert fix in str(caught.value).partition("Fix: ")[2]


@pytest.mark.anyio
async def test_none_stands_for_no_secrets(target: str) -> None:
    assert (await sandboxio.plan(target, secrets=None, env=None)).spec.secrets == {}


@pytest.mark.anyio
@pytest.mark.parametrize("cmd", [[], "", [""], [b"true"], None, 5])
async def test_a_wrong_command_says_what_to_pass(target: str, cmd: Any) -> None:
    async with sandboxio.create(target) as sandbox:
        if cmd == "":
            return  # an empty script is one: it does nothing and ends with 0
        with pytest.raises(ConfigurationError, match=r"run\(\['program', 'argument'\]\)"):
            await sandbox.run(cmd)


@pytest.mark.anyio
async def test_an_adapter_that_does_not_exist_yet_is_not_to_be_installed() -> None:
    for name in ("modal", "vercel"):
        with pytest.raises(sandboxio.BackendNotInstalled, match=f"no release of sandboxio-{name} yet"):
            await sandboxio.create(f"{name}://")
