"""The row about errors: mapped, explained, and free of secrets."""

import re
import secrets
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from sandboxio import ConfigurationError, PathNotFound, SandboxError, SandboxGone

from sandboxio_contract.rows import row
from sandboxio_contract.rows.inside import has_files, raises
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, Inconclusive, Part, require, summed


@row("ERR-01", within=90)
async def every_error_is_one_of_ours(target: Target) -> Finding:
    """Whatever goes wrong has a code, a fix, a page and the native cause, and holds no secret anywhere."""
    word = f"canary{secrets.token_hex(8)}"
    options: dict[str, Any] = {"secrets": {"CANARY": word}}
    await target.need_sandbox()
    parts = [await _absent_template(target, word, options)]
    sb = await target.create(**options)
    async with sb:
        wrong: dict[str, tuple[type[SandboxError], Callable[[], Awaitable[Any]]]] = {
            "missing directory": (ConfigurationError, lambda: sb.run(["true"], cwd=f"/no/{word}")),
            "bad argument": (ConfigurationError, lambda: sb.run([])),
            "bad variable": (ConfigurationError, lambda: sb.run(["true"], env={"A=B": word})),
            "clash": (ConfigurationError, lambda: sb.run(["true"], env={"CANARY": word})),
        }
        if await has_files(sb):
            wrong["missing file"] = (PathNotFound, lambda: sb.files.read(f"no/{word}"))
        for name, (kind, call) in wrong.items():
            parts.append(_explained(name, await raises(kind, call(), name), word))
        parts.append(await _lost(target, sb, word))
    return summed(parts)


async def _absent_template(target: Target, word: str, options: dict[str, Any]) -> Part:
    try:
        dsn = target.ground.absent_template()
    except Inconclusive as reason:
        return Part("absent template", "not-provable", str(reason))
    error = await raises(SandboxError, target.create(dsn=dsn, **options), "a template that can't be had")
    template = dsn.partition("://")[2].partition("?")[0]
    require(template in error.message, f"the error about an absent template does not name it: {error.message}")
    require(error.__cause__ is not None or "127.0.0.1" in error.message, "the provider's own answer is lost")
    return _explained("absent template", error, word)


async def _lost(target: Target, sb: Any, word: str) -> Part:
    try:
        await target.look(target.ground.lose, sb.id)
    except Inconclusive as reason:
        return Part("lost sandbox", "not-provable", str(reason))
    return _explained("lost sandbox", await raises(SandboxGone, sb.run(["true"]), "run() in a lost sandbox"), word)


def _explained(name: str, error: SandboxError, word: str) -> Part:
    require(re.fullmatch(r"SBX_E\d{4}", error.code), f"{name}: the error has no code: {error.code!r}")
    require(error.hint.strip(), f"{name}: the error names no fix: {error.message}")
    require(error.url == f"docs/errors/{error.code}.md", f"{name}: the error's page is {error.url!r}")
    require(word not in repr(error) + "".join(traceback.format_exception(error)), f"{name}: a secret shows")
    cause = error.__cause__
    return Part(name, "proven", f"{error.code}, {type(cause).__name__ if cause else 'no native cause'}")
