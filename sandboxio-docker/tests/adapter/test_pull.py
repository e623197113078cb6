"""NET-08: the engine fetches a missing image before the sandbox exists, from a registry on loopback."""

import contextlib
import io
import os
import socket
import tarfile
import threading
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import docker
import pytest
import sandboxio
from docker.errors import ImageNotFound
from sandboxio import CreateTimeout, CreationError
from sandboxio_contract.ground.dockerimages import registry

pytestmark = [
    pytest.mark.docker,
    pytest.mark.network,
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::sandboxio.WeakEnforcementWarning"),  # accept_vsock, for a small image
]

MEBI = 2**20
SIZE = 24 * MEBI
"""Far more than the buffers of a connection on loopback hold."""
MARK = {"test": "pull"}


@dataclass
class Slow:
    """A TCP relay on loopback that passes a connection's first answers on, and the rest when it may."""

    port: int
    let: threading.Event = field(default_factory=threading.Event)
    held: threading.Event = field(default_factory=threading.Event)
    """Set when an answer is held."""
    ended: threading.Event = field(default_factory=threading.Event)
    """Set when whoever asked hung up before it had the whole answer."""


@dataclass
class Pulled:
    """An image that the registry has and the engine has not."""

    relay: Slow
    image: str
    engine: Any

    @property
    def dsn(self) -> str:
        return f"docker://{self.image}?accept_vsock=1"

    def present(self) -> bool:
        return bool(self.engine.images.list(self.image.rpartition(":")[0]))

    def sandboxes(self) -> list[Any]:
        found: list[Any] = self.engine.containers.list(all=True, filters={"ancestor": self.image})
        return found


@pytest.fixture(scope="module")
def slow() -> Iterator[Slow]:
    with registry() as running, relayed(running.port) as relay:
        yield relay


@pytest.fixture
def pulled(slow: Slow) -> Iterator[Pulled]:
    slow.let.set()
    client: Any = docker.from_env()
    with contextlib.closing(client):
        image = f"127.0.0.1:{slow.port}/team/tool-{os.urandom(4).hex()}:1"
        made = client.containers.create("sandboxio-test/busybox", ["true"], network_mode="none")
        try:
            made.put_archive("/", packed(os.urandom(SIZE)))
            made.commit(image.rpartition(":")[0], "1")
        finally:
            made.remove()
        assert not [line for line in client.api.push(image, stream=True, decode=True) if "error" in line]
        client.images.remove(image)
        slow.held.clear()
        slow.ended.clear()
        yield Pulled(slow, image, client)
        slow.let.set()
        with contextlib.suppress(ImageNotFound):
            client.images.remove(image, force=True)


async def test_an_image_is_pulled_for_a_sandbox_that_reaches_nothing(pulled: Pulled) -> None:
    told: list[str] = []
    async with sandboxio.create(pulled.dsn, metadata=MARK, on_progress=told.append) as sandbox:
        assert len(await sandbox.files.read("/data")) == SIZE
        interfaces = (await sandbox.run("ls /sys/class/net")).stdout.split()
    assert interfaces == ["lo"]
    assert told[0] == f"pulling {pulled.image}"
    assert any("Pull complete" in line for line in told)


async def test_a_pull_that_fails_names_the_image_and_the_engines_answer(pulled: Pulled) -> None:
    missing = pulled.image.replace("/team/", "/nobody/")
    with pytest.raises(CreationError, match=r"(?s)nobody/tool.*manifest unknown") as failure:
        await sandboxio.create(f"docker://{missing}", metadata=MARK)
    assert failure.value.__cause__ is None or "manifest" in str(failure.value.__cause__)
    assert "template=" in failure.value.hint


async def test_a_registry_that_is_not_there_is_named(pulled: Pulled) -> None:
    with pytest.raises(CreationError, match=r"127\.0\.0\.1:1/team/tool.*refused"):
        await sandboxio.create("docker://127.0.0.1:1/team/tool:1", metadata=MARK)


async def test_the_timeout_bounds_the_pull_too(pulled: Pulled) -> None:
    pulled.relay.let.clear()
    began = time.monotonic()
    with pytest.raises(CreateTimeout):
        await sandboxio.create(pulled.dsn, metadata=MARK, timeout=5)
    assert time.monotonic() - began < 5 + 5
    assert pulled.relay.held.is_set()
    await nothing_is_left(pulled)


async def test_a_pull_that_is_cancelled_ends_at_the_engine_and_leaves_nothing(pulled: Pulled) -> None:
    pulled.relay.let.clear()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(cancel_when_held, pulled.relay, scope)
            await sandboxio.create(pulled.dsn, metadata=MARK)
    assert scope.cancelled_caught
    await nothing_is_left(pulled)
    async with sandboxio.create(pulled.dsn, metadata=MARK) as sandbox:  # and it can be had afterwards
        assert len(await sandbox.files.read("/data")) == SIZE


async def cancel_when_held(relay: Slow, scope: anyio.CancelScope) -> None:
    assert await anyio.to_thread.run_sync(relay.held.wait, 60)
    scope.cancel()


async def nothing_is_left(pulled: Pulled) -> None:
    """The engine wants no more of the image once the registry goes on, and neither image nor container came of it.

    While the registry is silent the engine (20.10) keeps the connection of a cancelled pull.
    """
    await anyio.sleep(1)  # or the rest could come before a busy engine has seen that nobody waits for it
    pulled.relay.let.set()
    assert await anyio.to_thread.run_sync(pulled.relay.ended.wait, 10)
    assert not pulled.present()
    assert pulled.sandboxes() == []


def packed(data: bytes) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        entry = tarfile.TarInfo("data")
        entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))
    return archive.getvalue()


@contextlib.contextmanager
def relayed(port: int) -> Generator[Slow]:
    listener = socket.create_server(("127.0.0.1", 0))
    relay = Slow(listener.getsockname()[1])

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", port))
                threading.Thread(target=forth, args=(near, far), daemon=True).start()
                threading.Thread(target=back, args=(far, near, relay), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield relay
    finally:
        relay.let.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def forth(near: socket.socket, far: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := near.recv(65536):
            far.sendall(data)
    with contextlib.suppress(OSError):
        far.shutdown(socket.SHUT_RDWR)


def back(far: socket.socket, near: socket.socket, relay: Slow) -> None:
    passed = 0
    with contextlib.suppress(OSError), near, far:
        while data := far.recv(65536):
            passed += len(data)
            if passed > MEBI and not relay.let.is_set():
                relay.held.set()
                relay.let.wait()
            try:
                near.sendall(data)
            except OSError:
                relay.ended.set()
                return
