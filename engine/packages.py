"""Debian packages, installed only where something is missing."""

import os
import shutil
import subprocess
from collections.abc import Iterable

from engine.commands import EngineError, run


def require_root(purpose: str) -> None:
    """Refuse with a reason unless this is root on a machine with apt-get."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise EngineError(f"{purpose}: this needs root on Debian or Ubuntu; elsewhere start Docker by its own means")


def install(packages: Iterable[str]) -> None:
    """Install what is not installed yet."""
    missing = [package for package in packages if not installed(package)]
    if not missing:
        return
    require_root(f"installing {' '.join(missing)}")
    print(f"engine: installing {' '.join(missing)}", flush=True)
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    run(["apt-get", "update", "--quiet"])
    run(["apt-get", "install", "--quiet", "--yes", "--no-install-recommends", *missing])


def installed(package: str) -> bool:
    """Ask dpkg."""
    command = ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package]
    if not shutil.which(command[0]):
        return False
    return subprocess.run(command, capture_output=True, check=False).stdout == b"installed"
