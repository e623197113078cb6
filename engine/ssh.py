"""The ssh server that the tests of engines behind ssh start for themselves."""

import os
import shutil
from pathlib import Path

from engine.packages import install

PROGRAMS = {"ssh": "openssh-client", "ssh-keygen": "openssh-client", "sshd": "openssh-server"}
"""Programs and the Debian packages that have them."""


def what_is_missing() -> str | None:
    """Say why the tests cannot run here, or `None` where they can."""
    missing = [name for name in PROGRAMS if not found(name)]
    return f"no {', '.join(missing)} here; `make engine` installs OpenSSH, or says why not" if missing else None


def found(program: str) -> str | None:
    """Return where it is; servers are not in every user's PATH."""
    return shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")


def ensure() -> None:
    """Install what is missing, unless that would start a server for the whole machine or can't be done here."""
    missing = what_is_missing()
    if missing is None:
        return
    if Path("/run/systemd/system").exists() or os.geteuid() != 0 or not shutil.which("apt-get"):
        print(
            f"engine: {missing.partition(';')[0]}: the ssh tests will not run; install OpenSSH by the system's own means"
        )
        return
    install(sorted(set(PROGRAMS.values())))
