"""The image registry of the tests that pull: Debian's docker-registry, as a program alone."""

import tempfile
from pathlib import Path

from engine.commands import EngineError, run
from engine.packages import require_root
from engine.settings import Settings

PACKAGE = "docker-registry"


def missing(settings: Settings) -> bool:
    """Whether the program is not there yet."""
    return not program(settings).exists()


def program(settings: Settings) -> Path:
    """Return where it is; the tests put this folder into PATH."""
    return settings.tools / PACKAGE


def fetch(settings: Settings) -> None:
    """Unpack the package and keep its program.

    It is not installed: that starts a service which listens on every address of the machine.
    """
    if not missing(settings):
        return
    require_root(f"fetching {PACKAGE}")
    print(f"engine: fetching {PACKAGE}", flush=True)
    settings.tools.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=settings.tools, prefix="package-") as folder:
        run(["apt-get", "update", "--quiet"])
        # apt drops its privileges for a download, and may not write to a folder of root's
        run(["sh", "-c", 'cd "$0" && apt-get download --quiet -o APT::Sandbox::User=root "$1"', folder, PACKAGE])
        archives = list(Path(folder).glob("*.deb"))
        if not archives:
            raise EngineError(f"apt-get download {PACKAGE} left no package")
        run(["dpkg-deb", "--extract", str(archives[0]), f"{folder}/root"])
        Path(folder, "root/usr/bin", PACKAGE).rename(program(settings))
