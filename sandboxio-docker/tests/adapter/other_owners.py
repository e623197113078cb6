"""Sandboxes that are not of this process: one of another owner, and a container that only looks like ours."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import docker
import sandboxio
import sniffio
from docker.errors import APIError, NotFound
from sandboxio.agent.report import BootReport
from sandboxio_docker import labels

from .real_engine import inspect

PYTHON = "docker://sandboxio-test/python"
PROGRAM = Path(__file__).with_name("owner_program.py")
SOON = 15.0


class Owner:
    """Another process that owns a sandbox."""

    def __init__(self, target: str, **options: Any) -> None:
        order = {"target": target, "options": options, "loop": sniffio.current_async_library()}
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(PROGRAM), json.dumps(order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        said: Any = self._answer()
        self.id: str = said["id"]
        self.reaper: int = said["reaper"]
        self.create_id = str(inspect(self.id)["Name"]).removeprefix("/")

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def tell(self, word: str) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return self._answer()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.kill()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        remove(self.id)


def remove(sandbox_id: str) -> None:
    with contextlib.closing(docker.APIClient(version="auto")) as api, contextlib.suppress(APIError):
        client: Any = api
        client.remove_container(sandbox_id, force=True)


def agent_of(sandbox: sandboxio.Sandbox) -> BootReport:
    """Return what the session's agent saw; it comes out of `info` as plain data."""
    report: Any = sandbox.info()["boot"]
    return BootReport(**report)


def is_there(sandbox_id: str) -> bool:
    try:
        return bool(inspect(sandbox_id)["State"]["Status"] == "running")
    except NotFound:
        return False


async def gone(sandbox_id: str, within: float = SOON) -> float:
    """Wait until the container is no more; return how many seconds that took."""
    began = time.monotonic()
    while await anyio.to_thread.run_sync(is_there, sandbox_id):
        assert time.monotonic() - began < within, "it lives on"
        await anyio.sleep(0.05)
    return time.monotonic() - began


@contextlib.asynccontextmanager
async def owned(target: str = PYTHON, **options: Any) -> AsyncGenerator[Owner]:
    library = sniffio.current_async_library()
    assert library in ("asyncio", "trio")
    owner = Owner(target, **{"timeout": 60, **options})
    try:
        yield owner
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(owner.close)


NAME = "sbx-imitated"
HOST: Mapping[str, Any] = {
    "NetworkMode": "none",
    "AutoRemove": True,
    "CapDrop": ["ALL"],
    "SecurityOpt": ["no-new-privileges:true"],
    "IpcMode": "private",
    "NanoCpus": 10**9,
    "Memory": 512 * 2**20,
    "MemorySwap": 512 * 2**20,
    "PidsLimit": 256,
    "Ulimits": [{"Name": "fsize", "Soft": 2**30, "Hard": 2**30}],
}


@contextlib.contextmanager
def imitation(
    host: Mapping[str, Any], wrong: Mapping[str, str], program: list[str], image: str = "sandboxio-test/python"
) -> Generator[str]:
    """Have a container that bears our labels, made by somebody else."""
    name = f"{NAME}-{os.getpid()}"
    own = labels.make(name, "0", "exec", {"tenant": "a"})
    carried = {**own, labels.EXPIRES: f"{time.time() + 60:.3f}", **wrong}
    body = {
        "Image": image,
        "WorkingDir": "/",
        "Entrypoint": program[:1],
        "Cmd": program[1:],
        "Labels": carried,
        "HostConfig": {**HOST, **host},
    }
    with contextlib.closing(docker.APIClient(version="auto")) as client:
        api: Any = client
        made = api.create_container_from_config(body, name)["Id"]
        try:
            api.start(made)
            yield made
        finally:
            remove(made)
