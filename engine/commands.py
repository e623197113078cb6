"""Running other programs, and the one error this package raises."""

import subprocess
from collections.abc import Sequence
from pathlib import Path


class EngineError(Exception):
    """Says what failed and what to do about it; printed without a traceback."""


def run(command: Sequence[str], *, stdin: Path | None = None, log: Path | None = None) -> str:
    """Run a program to its end and return its standard output.

    :param stdin: a file to read from, else nothing.
    :param log: a file that takes all output instead.
    :raises EngineError: when it is missing or fails, with the end of what it said.
    """
    stdout = log.open("wb") if log else subprocess.PIPE
    try:
        with (stdin or Path("/dev/null")).open("rb") as source:
            done = subprocess.run(
                command, stdin=source, stdout=stdout, stderr=subprocess.STDOUT if log else subprocess.PIPE, check=False
            )
    except FileNotFoundError as error:
        raise EngineError(f"{command[0]} is not installed") from error
    finally:
        if not isinstance(stdout, int):
            stdout.close()
    if done.returncode:
        said = tail(log) if log else done.stderr.decode(errors="replace")
        raise EngineError(f"{' '.join(command)} failed with exit status {done.returncode}:\n{said}")
    return "" if log else done.stdout.decode(errors="replace")


def tail(file: Path, lines: int = 20) -> str:
    """Return the last lines of a log, or a note that there is none."""
    if not file.exists():
        return f"({file} does not exist)"
    return "\n".join(file.read_text(errors="replace").splitlines()[-lines:])
