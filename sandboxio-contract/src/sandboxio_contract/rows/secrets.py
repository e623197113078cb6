"""Rows about secrets: they reach every command, and nothing else shows them."""

import contextlib
import io
import os
import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import quote

import sandboxio
from sandboxio import ConfigurationError, ExecResult, Sandbox
from sandboxio.cli import main

from sandboxio_contract.leaving import Leaving, shown_forms, spoken_forms, watched
from sandboxio_contract.rows import row
from sandboxio_contract.rows.inside import DEADLINE, ends_one_tree, need_shell, output_of
from sandboxio_contract.rows.refusing import recorded
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, Inconclusive, Part, proven, require, summed

ARGUMENTS = "cat /proc/[0-9]*/cmdline 2>/dev/null; true"
"""Shows the arguments of every process that a sandbox has, those that end meanwhile aside."""
PRINTED = 'printf %s "$CANARY"'
CONTROLLED = ("errors", "audit queue", "audit file", "log", "spans")
"""Where something that is no secret must be found, so that finding no secret there means something."""


@row("SEC-01")
async def secrets_reach_commands_by_their_environment_alone(target: Target) -> Finding:
    """They are apart from `env`, in the environment of every kind of command, and in no process's arguments."""
    word = f"canary{secrets.token_hex(12)}"
    marker = f"marker{secrets.token_hex(8)}"
    async with recorded(target) as asking:
        both: dict[str, Any] = {"env": {"CANARY": "x"}, "secrets": {"CANARY": word}}
        parts = [await asking.refuses("one name in both", ConfigurationError, no_call=True, **both)]
    async with target.sandbox(secrets={"CANARY": word}, env={"PLAIN": marker}) as sb:
        await need_shell(sb)
        async with sb.stream(["sh", "-c", PRINTED]) as proc:
            streamed = b"".join([chunk.data async for chunk in proc])
        seen = {
            "run": await output_of(sb, ["sh", "-c", PRINTED]),
            "run of a string": await output_of(sb, PRINTED),
            "run_code": (await sb.run_code(PRINTED, language="shell")).stdout,
            "stream": streamed.decode(),
        }
        for name, value in seen.items():
            require(value == word, f"the secret does not reach a command of {name}")
            parts.append(Part(name, "proven", "the secret is in its environment"))
        arguments = await output_of(sb, ["sh", "-c", ARGUMENTS, marker])
    if marker not in arguments:
        raise Inconclusive("what processes were started with can't be seen inside, so nothing about it is proven")
    held = any(form in arguments for form in shown_forms(word))
    parts.append(Part("arguments", "violated" if held else "proven", "a process's arguments" if held else "not there"))
    return summed(parts)


@row("SEC-03", world=True)
async def secrets_go_by_the_providers_broker(target: Target) -> Finding:
    """Where the provider has a broker for secrets, each of them is given to commands by it."""
    word = f"canary{secrets.token_hex(12)}"
    async with target.sandbox(secrets={"CANARY": word}) as sb:
        brokered = await target.look(target.ground.brokered, sb.id)
        if brokered is None:
            return Finding("not applicable", "the provider has no broker for secrets")
        require("CANARY" in brokered, "the provider has a broker, and the adapter hands the secret over by another way")
        await need_shell(sb)
        require(await output_of(sb, ["sh", "-c", PRINTED]) == word, "the broker's secret does not reach a command")
    return proven("it is with the provider's broker, and reaches a command")


@row("SEC-01", within=90)
async def no_secret_leaves(target: Target) -> Finding:
    """After successes and failures of many kinds no secret is in a log, warning, error, repr, record, span, label or output."""
    word = f"q7\"é <&'{secrets.token_hex(8)}Zk"
    marker = f"marker{secrets.token_hex(8)}"
    with watched() as leaving:
        with leaving.watching():
            await _refusals(target, leaving, word)
            await _operations(target, leaving, word, marker)
            leaving.add("output of the command line", await target.look(_command_line, target.dsn, word))
        seen = leaving.holding([marker])
        unseen = [source for source in CONTROLLED if source in leaving.texts and not seen[source]]
        if unseen:
            raise Inconclusive(f"not even what is no secret was found in {', '.join(unseen)}")
        known = [word, *(value for name in (await target.info()).credentials if (value := os.environ.get(name)))]
        held = leaving.holding([form for one in known for form in shown_forms(one)])
    return summed(
        Part(source, "violated" if shows else "proven", "a secret stands there" if shows else "none there")
        for source, shows in held.items()
    )


async def _refusals(target: Target, leaving: Leaving, word: str) -> None:
    given: dict[str, Any] = {"secrets": {"CANARY": word}, "audit": leaving.audit}
    wrong: list[dict[str, Any]] = [
        {"metadata": {"k": f"a {word} b"}},
        {"env": {"CANARY": word}},
        {"env": {f"{word}=": "v"}},
        {"env": {"A": f"{word}\0"}},
        {"timeout": word},
        {"resources": word},
    ]
    for options in wrong:
        await _noted(leaving, partial(_made, target, {**given, **options}))
    with contextlib.suppress(sandboxio.SandboxError):
        plan = await sandboxio.plan(target.dsn, secrets={"CANARY": word}, probe=True)
        leaving.add("reprs", repr(plan), repr(plan.parameters))
    await _noted(leaving, lambda: sandboxio.kill_managed(target.dsn, word))


async def _made(target: Target, options: dict[str, Any]) -> object:
    made = await target.create(**options)
    await made.kill()
    return made


async def _operations(target: Target, leaving: Leaving, word: str, marker: str) -> None:
    async with target.sandbox(secrets={"CANARY": word}, audit=leaving.audit) as sb:
        with contextlib.suppress(Inconclusive):
            held = await target.look(_labels, target, sb.id)
            if target.token in held:  # else they are not what the provider holds
                leaving.add("labels", held)
        for call in _calls(target, sb, word, marker):
            await _noted(leaving, call)
        shown = [repr(getattr(sb, name)) for name in vars(sb) if not name.startswith("_")]
        leaving.add("reprs", repr(sb), repr(sb.info()), *shown)
        with contextlib.suppress(Inconclusive):
            if ends_one_tree(sb):
                await target.look(target.ground.lose, sb.id)
            await _noted(leaving, lambda: sb.run(["true", word]))


def _calls(target: Target, sb: Sandbox, word: str, marker: str) -> list[Callable[[], Awaitable[object]]]:
    files, spoken = sb.files, spoken_forms(word)

    async def stream() -> None:
        async with sb.stream(["true", word]) as proc:
            await proc.wait()

    async def connect() -> None:
        await (await sandboxio.connect(target.dsn, sb.id, metadata={"k": word})).kill()

    return [
        lambda: sb.run(["echo", marker]),
        lambda: sb.run(["true"], cwd=f"/no/{marker}"),
        lambda: files.read(f"no/{marker}"),
        lambda: sb.run(["true", word]),
        lambda: sb.run(["false", word]),
        lambda: sb.run([f"no-{word}"]),
        lambda: sb.run(["true", *spoken.values()]),
        *(partial(sb.run, ["true"], cwd=f"/no/{said}") for said in spoken.values()),
        lambda: sb.run([]),
        lambda: sb.run(["true", f"{word}\0"]),
        lambda: sb.run(["true"], env={"A=B": word}),
        lambda: sb.run(["true"], env={"CANARY": word}),
        lambda: sb.run(["true"], cwd=f"/no/{word}"),
        lambda: sb.run_code(f"# {word}\nraise SystemExit(3)"),
        stream,
        lambda: files.write(f"{word}/file", word),
        lambda: files.ls(word),
        lambda: files.stat(f"{word}/none"),
        lambda: files.mkdir(word),
        lambda: files.remove(word),
        lambda: files.upload(f"/nowhere/{word}", "to"),
        lambda: files.download(f"{word}/none", f"/nowhere/{word}"),
        connect,
        lambda: sb.run(["sleep", "30"], env={"ALSO": word}, timeout=DEADLINE),  # which may end the sandbox
    ]


async def _noted(leaving: Leaving, call: Callable[[], Awaitable[object]]) -> None:
    try:
        result = await call()
        if isinstance(result, ExecResult):
            leaving.add("reprs", repr(result.exit_code), repr(result))
            result.raise_for_status()
    except Exception as error:  # noqa: BLE001 - whatever comes out is looked at
        leaving.error(error)


def _labels(target: Target, sandbox_id: str) -> str:
    held = target.ground.inspect(sandbox_id)
    return repr({name: held.get(name) for name in ("Labels", "Metadata")})


def _command_line(dsn: str, word: str) -> str:
    """Return what a command prints whose target has the word where a password would stand."""
    scheme = dsn.partition("://")[0]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        main(["demo", f"{scheme}://user:{quote(word)}@image"])
    return printed.getvalue()
