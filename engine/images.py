"""The offline test images `sandboxio-test/…`, built when missing or when their recipe changed."""

import hashlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine import rootfs
from engine.commands import EngineError, run
from engine.settings import Settings

RECIPE_LABEL = "io.sandboxio.engine.recipe"
RECIPE_OF_IMAGE = f'{{{{index .Config.Labels "{RECIPE_LABEL}"}}}}'
PATH = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PYTHON = ("python3", "python3-pip", "python-is-python3", "procps", "curl")
MINIMAL = ("python3-minimal",)

Fill = Callable[[Path, Path], Path]
"""Takes the cache folder and a scratch file, and returns the tar to import."""


@dataclass(frozen=True)
class Image:
    """One image; `contents` is only there so that the recipe's hash changes with it."""

    name: str
    contents: tuple[str, ...]
    fill: Fill
    changes: tuple[str, ...]

    @property
    def recipe(self) -> str:
        """A hash of everything that makes the image what it is."""
        parts = (rootfs.SUITE, rootfs.LEFT_OUT, self.name, self.contents, self.changes)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def python(cache: Path, _scratch: Path) -> Path:
    """Fill with Debian and the whole of its Python."""
    return rootfs.debian(cache, PYTHON)


def python_minimal(cache: Path, _scratch: Path) -> Path:
    """Fill with Debian and the smallest Python it has: no json, no ctypes, no resource."""
    return rootfs.debian(cache, MINIMAL)


def user(cache: Path, scratch: Path) -> Path:
    """Fill like `python`, with an account."""
    rootfs.with_user(rootfs.debian(cache, PYTHON), scratch, "agent", 1000)
    return scratch


def busybox(_cache: Path, scratch: Path) -> Path:
    """Fill with a shell and small tools, but no Python."""
    rootfs.only_busybox(scratch, rootfs.applets())
    return scratch


def static(_cache: Path, scratch: Path) -> Path:
    """Fill with one static program that can wait, succeed and say something; there is no shell."""
    rootfs.only_busybox(scratch, STATIC)
    return scratch


STATIC = ("sleep", "true", "echo")
IMAGES = (
    Image("sandboxio-test/python", PYTHON, python, (PATH, 'CMD ["python3"]')),
    Image("sandboxio-test/python-minimal", MINIMAL, python_minimal, (PATH, 'CMD ["python3"]')),
    Image("sandboxio-test/busybox", ("applets",), busybox, (PATH, 'CMD ["/bin/sh"]')),
    Image("sandboxio-test/static", STATIC, static, (PATH, 'CMD ["/bin/sleep", "1"]')),
    Image(
        "sandboxio-test/user",
        (*PYTHON, "agent 1000"),
        user,
        (PATH, "ENV HOME=/home/agent", "USER 1000", "WORKDIR /home/agent", 'CMD ["python3"]'),
    ),
)


def outdated() -> list[Image]:
    """Return the images that are missing or were made by another recipe."""
    return [image for image in IMAGES if present_recipe(image.name) != image.recipe]


def build(settings: Settings) -> None:
    """Build what is missing or outdated."""
    wanted = outdated()
    for image in wanted:
        print(f"engine: building {image.name}", flush=True)
        settings.cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=settings.cache, prefix="image-") as folder:
            load(image, image.fill(settings.cache, Path(folder, "image.tar")))
    if wanted:  # the ones just replaced have no name any more
        run(["docker", "image", "prune", "--force", f"--filter=label={RECIPE_LABEL}"])


def load(image: Image, archive: Path) -> None:
    """Make a tar an image."""
    changes = (*image.changes, f"LABEL {RECIPE_LABEL}={image.recipe}")
    run(["docker", "import", *(f"--change={change}" for change in changes), "-", image.name], stdin=archive)


def present_recipe(name: str) -> str | None:
    """Return the recipe hash of the image the engine has under this name, if it has one."""
    try:
        return run(["docker", "image", "inspect", f"--format={RECIPE_OF_IMAGE}", name]).strip()
    except EngineError:
        return None
