"""Running the system's network tools, always bounded in time."""

import json
import subprocess
from collections.abc import Sequence
from typing import cast

from sandboxio_contract.network.reason import NotProvable

SECONDS = 10.0


class CommandFailed(Exception):
    """A network tool answered with an error; the message holds its own words."""


def attempt(argv: Sequence[str], script: str = "") -> "subprocess.CompletedProcess[str]":
    """Run one tool to its end and return what it said; a failure is the caller's to judge.

    :raises NotProvable: the tool isn't installed, or it did not answer within ten seconds.
    """
    try:
        return subprocess.run(
            list(argv), input=script, capture_output=True, text=True, timeout=SECONDS, check=False, encoding="utf-8"
        )
    except FileNotFoundError as error:
        raise NotProvable("tool", f"{argv[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise NotProvable("tool", f"{argv[0]} did not answer within {SECONDS:.0f} s") from error


def run(argv: Sequence[str], script: str = "") -> str:
    """Run one tool that has to succeed and return its output.

    :raises CommandFailed: it ended with an error.
    """
    done = attempt(argv, script)
    if done.returncode != 0:
        message = f"{' '.join(argv)}: {done.stderr.strip() or done.stdout.strip() or done.returncode}"
        raise CommandFailed(message)
    return done.stdout


def batch(family: str, lines: Sequence[str], prefix: Sequence[str] = ()) -> None:
    """Let one `ip` process carry out several commands of a family (`-4`, `-6`), stopping at the first that fails."""
    run([*prefix, "ip", family, "-batch", "-"], "\n".join(lines) + "\n")


def rows_if_any(argv: Sequence[str]) -> list[dict[str, object]]:
    """Return the JSON table, empty where the tool has an error instead, as for IPv6 on a kernel without it."""
    try:
        return rows(argv)
    except CommandFailed:
        return []


def rows(argv: Sequence[str]) -> list[dict[str, object]]:
    """Return the JSON table that a tool of iproute2 prints; an empty answer is an empty table."""
    text = run(argv).strip()
    table = cast("list[dict[str, object]]", json.loads(text)) if text else []
    return [row for row in table if row]
