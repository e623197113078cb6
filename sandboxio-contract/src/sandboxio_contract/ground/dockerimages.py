"""Images that the Docker rows need: one with a package baked in, and one that the engine has to fetch.

No network is used but loopback: containers run without one, and the registry listens on 127.0.0.1 alone.
"""

import contextlib
import io
import re
import secrets
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandboxio_contract.ground.base import Fetched
from sandboxio_contract.ground.docker import SUITE
from sandboxio_contract.ground.dsn import split_dsn, with_template
from sandboxio_contract.verdict import Inconclusive

if TYPE_CHECKING:
    from docker.client import DockerClient

MARKER = "/sandboxio-fetched"
START = 15.0
INSTALL = 60.0
_CONFIG = """
version: 0.1
log: {{level: info}}
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "127.0.0.1:0"}}
"""
_LISTENING = re.compile(r"listening on 127\.0\.0\.1:(\d+)")


class DockerImages:
    """Makes images of the target's own, and removes them."""

    def __init__(self, dsn: str, client: "DockerClient") -> None:
        self._dsn = dsn
        self._template = split_dsn(dsn)[0]
        self._client = client
        self._stack = contextlib.ExitStack()
        self._registry: Registry | None = None

    @contextlib.contextmanager
    def prepared(self, wheels: Path, package: str) -> Generator[str]:
        """Yield the target with an image that has the package."""
        pip = ["python3", "-m", "pip", "install", "--no-index", "--find-links", "/wheels", package]
        files = {f"wheels/{wheel.name}": wheel.read_bytes() for wheel in wheels.iterdir()}
        with self._committed(f"sandboxio-contract/prepared-{secrets.token_hex(6)}", files, pip) as image:
            yield with_template(self._dsn, image)

    @contextlib.contextmanager
    def fetched(self) -> Generator[Fetched]:
        """Yield a template that the registry has and the engine has not."""
        if self._registry is None:
            self._registry = self._stack.enter_context(registry())
        running, word = self._registry, secrets.token_hex(16)
        name = f"127.0.0.1:{running.port}/sandboxio-contract/fetched-{word[:8]}"
        with self._committed(name, {MARKER.lstrip("/"): word.encode()}) as image:
            engine: Any = self._client.api
            _refuse_error(engine.push(image, stream=True, decode=True))
            self._client.images.remove(image, force=True)
            before = running.downloads()
            yield Fetched(
                with_template(self._dsn, image),
                MARKER,
                word,
                lambda: running.downloads() - before,
                lambda: bool(self._client.images.list(name)),
            )

    def close(self) -> None:
        """End the registry; repeating it does nothing."""
        self._registry = None
        self._stack.close()

    @contextlib.contextmanager
    def _committed(self, name: str, files: Mapping[str, bytes], command: list[str] | None = None) -> Generator[str]:
        """Have an image that is the target's with some files, and after a command, for the block."""
        from docker.errors import APIError, ImageNotFound, NotFound

        api: Any = self._client.api
        try:
            original: Mapping[str, Any] = api.inspect_image(self._template)["Config"]
        except ImageNotFound as error:
            raise Inconclusive(f"the engine has no {self._template} that another image could be made from") from error
        made: Any = self._client.containers.create(
            self._template,
            command or ["true"],
            entrypoint=[],
            user="0",
            network_mode="none",
            environment={"PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_ROOT_USER_ACTION": "ignore"},
            labels={SUITE: "image"},
        )
        image = f"{name}:1"
        try:
            made.put_archive("/", _tar(files))
            if command:
                _run(made)
            api.commit(made.id, repository=name, tag="1", conf=dict(original))
            yield image
        except APIError as error:
            raise Inconclusive(f"no image could be made from {self._template}: {error}") from error
        finally:
            with contextlib.suppress(NotFound):  # another run on this engine cleans up, too
                made.remove(force=True, v=True)
            with contextlib.suppress(ImageNotFound):
                self._client.images.remove(image, force=True)


class Registry:
    """A registry that was started, and its log."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self.port = self._await_port()

    def downloads(self) -> int:
        """Return how many manifests and blobs were asked for by GET so far."""
        return len(re.findall(r'"GET /v2/\S+/(?:manifests|blobs)/', self._log.read_text(errors="replace")))

    def _await_port(self) -> int:
        end = time.monotonic() + START
        while time.monotonic() < end:
            if found := _LISTENING.search(self._log.read_text(errors="replace")):
                return int(found[1])
            time.sleep(0.05)
        raise Inconclusive(f"the registry does not start: {self._log.read_text(errors='replace')[-300:]}")


@contextlib.contextmanager
def registry() -> Generator[Registry]:
    """Run a registry on loopback for the block, on a port that it chooses.

    :raises Inconclusive: there is none on this machine.
    """
    program = shutil.which("docker-registry")
    if program is None:
        raise Inconclusive("there is no docker-registry in PATH (Debian has a package of that name)")
    with tempfile.TemporaryDirectory(prefix="sandboxio-contract-") as folder:
        config, log = Path(folder, "config.yml"), Path(folder, "log")
        config.write_text(_CONFIG.format(folder=f"{folder}/data"), encoding="utf-8")
        with log.open("wb") as sink:
            process = subprocess.Popen(
                [program, "serve", str(config)], stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT
            )
        try:
            yield Registry(log)
        finally:
            process.kill()
            process.wait()


def _run(container: Any) -> None:
    container.start()
    status = container.wait(timeout=INSTALL)["StatusCode"]
    if status:
        said = container.logs().decode(errors="replace")[-300:]
        raise Inconclusive(f"the package can't be installed into this image: {said}")


def _refuse_error(events: Any) -> None:
    for event in events:
        if "error" in event:
            raise Inconclusive(f"the image can't be pushed to the suite's registry: {event['error']}")


def _tar(files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
