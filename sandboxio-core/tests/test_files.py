"""Files of a session that has a service of its own."""

from collections.abc import AsyncIterator

import pytest
import sandboxio
from sandboxio import (
    ConfigurationError,
    ConnectError,
    FileSystemError,
    NotADirectory,
    ResourceLimitExceeded,
    Sandbox,
    SandboxGone,
)
from sandboxio.files import WRITE_CHUNK
from sandboxio.port import FileInfo

from .stub import StubBackend, StubSession

pytestmark = pytest.mark.anyio


class FileSession(StubSession):
    """A file service in memory, which fails as it is told."""

    fails: Exception | None = None

    def __init__(self, stub: StubBackend) -> None:
        super().__init__(stub.gates, stub.programs)
        self.files: dict[str, bytes] = {}
        self.pieces: list[int] = []
        self.closed_reads = 0

    def _maybe_fail(self) -> None:
        if self.fails is not None:
            raise self.fails

    async def read(self, path: str) -> AsyncIterator[bytes]:
        self._maybe_fail()
        try:
            for piece in (self.files[path][:3], self.files[path][3:]):
                yield piece
        finally:
            self.closed_reads += 1

    async def write(self, path: str, chunks: AsyncIterator[bytes]) -> None:
        self._maybe_fail()
        content = b""
        async for chunk in chunks:
            self.pieces.append(len(chunk))
            content += chunk
        self.files[path] = content

    async def list(self, path: str) -> list[FileInfo]:
        self._maybe_fail()
        return [FileInfo(name, len(data), False, False, 0o644, 0.0) for name, data in self.files.items()]

    async def stat(self, path: str) -> FileInfo:
        self._maybe_fail()
        return FileInfo(path, len(self.files[path]), False, False, 0o644, 0.0)

    async def mkdir(self, path: str, *, parents: bool) -> None:
        self._maybe_fail()

    async def remove(self, path: str, *, recursive: bool) -> None:
        self._maybe_fail()
        del self.files[path]


@pytest.fixture
def session(stub: StubBackend) -> FileSession:
    return FileSession(stub)


@pytest.fixture
async def sandbox(stub: StubBackend, target: str, session: FileSession) -> AsyncIterator[Sandbox]:
    stub.make_session = lambda: session
    session.facts["cwd"] = "/work"
    async with sandboxio.create(target) as made:
        yield made


async def test_its_own_service_is_used_with_absolute_paths(sandbox: Sandbox, session: FileSession) -> None:
    assert sandbox.cwd == "/work"
    await sandbox.files.write("b", "é")
    await sandbox.files.write("/a", bytearray(b"x"))
    assert session.files == {"/work/b": "é".encode(), "/a": b"x"}
    assert [entry.path for entry in await sandbox.files.ls()] == ["/a", "/work/b"]
    assert await sandbox.files.read("b") == "é".encode()
    assert session.closed_reads == 1
    assert session.drivers == []


async def test_a_read_holds_no_more_than_was_said(sandbox: Sandbox, session: FileSession) -> None:
    """The sandbox decides how large its files are, so the caller's memory needs a bound."""
    session.files["/work/big"] = b"x" * 1000
    assert len(await sandbox.files.read("big", max_bytes=1000)) == 1000
    with pytest.raises(FileSystemError, match="more than 999 bytes"):
        await sandbox.files.read("big", max_bytes=999)
    assert session.closed_reads == 2


async def test_content_goes_in_pieces(sandbox: Sandbox, session: FileSession) -> None:
    await sandbox.files.write("f", memoryview(b"x" * (2 * WRITE_CHUNK + 1)))
    assert session.pieces == [WRITE_CHUNK, WRITE_CHUNK, 1]
    await sandbox.files.write("empty", b"")
    assert session.files["/work/empty"] == b""


@pytest.mark.parametrize("errno", [28, 122])
async def test_a_full_disk_is_the_disk_cap(sandbox: Sandbox, session: FileSession, errno: int) -> None:
    session.fails = FileSystemError("full", errno=errno)
    with pytest.raises(ResourceLimitExceeded, match="disk_mb = 1024") as caught:
        await sandbox.files.write("f", b"x")
    assert isinstance(caught.value.__cause__, FileSystemError)


@pytest.mark.parametrize(
    "error", [NotADirectory("f/x"), FileSystemError("loop", errno=40), sandboxio.PathNotFound("x")]
)
async def test_what_leads_nowhere_does_not_exist(sandbox: Sandbox, session: FileSession, error: Exception) -> None:
    session.fails = error
    assert not await sandbox.files.exists("f")


async def test_what_cannot_be_asked_is_no_answer(sandbox: Sandbox, session: FileSession) -> None:
    session.fails = FileSystemError("input/output error", errno=5)
    with pytest.raises(FileSystemError):
        await sandbox.files.exists("f")


async def test_an_unknown_exception_is_an_execution_error_and_the_sandbox_lives(
    sandbox: Sandbox, session: FileSession
) -> None:
    session.fails = KeyError("defect")
    with pytest.raises(sandboxio.ExecutionError, match="defect"):
        await sandbox.files.read("f")
    assert (await sandbox.run(["true"])).ok


async def test_a_lost_connection_is_gone_only_if_the_sandbox_is(
    stub: StubBackend, sandbox: Sandbox, session: FileSession
) -> None:
    session.fails = ConnectError("reset")
    with pytest.raises(ConnectError):
        await sandbox.files.read("f")
    stub.sandboxes.clear()
    with pytest.raises(SandboxGone):
        await sandbox.files.read("f")


async def test_reading_text_needs_text(sandbox: Sandbox, session: FileSession) -> None:
    session.files["/work/f"] = b"\xff\xfe"
    with pytest.raises(ConfigurationError, match="not valid utf-8"):
        await sandbox.files.read_text("f")
