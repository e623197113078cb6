"""The end of a command's stream over the exec API: the other side's, or that of a connection which was cut."""

import socket
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from anyio.abc import UNIXSocketStream
from sandboxio.errors import ConnectError, SandboxError
from sandboxio.port import Command
from sandboxio_docker import exec_session
from sandboxio_docker.attach import Frames
from sandboxio_docker.exec_driver import ExecDriver, Look
from sandboxio_docker.exec_session import ExecSession
from sandboxio_docker.wire import Answer

from .test_attach import framed

pytestmark = pytest.mark.anyio

LIVES, ENDED = Look(running=True, code=None, pid=7), Look(running=False, code=0, pid=7)


class Wire:
    """An upgraded connection that says what it is told to, then waits if it ``hangs``."""

    def __init__(self, *reads: bytes, hangs: bool = False) -> None:
        self._reads = list(reads)
        self._hangs = hangs
        self.closed = 0

    async def receive(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        if not self._reads and self._hangs:
            await anyio.sleep_forever()
        return self._reads.pop(0) if self._reads else b""

    async def aclose(self) -> None:
        self.closed += 1


class Session:
    """What a driver asks its session."""

    def __init__(self, *looks: Look, cut: bool = False) -> None:
        self._looks = list(looks)
        self._cut = cut
        self.asked = 0

    async def inspect(self, exec_id: str) -> Look:
        await anyio.lowlevel.checkpoint()
        self.asked += 1
        return self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]

    def was_cut(self) -> bool:
        return self._cut

    async def lost(self) -> SandboxError:
        return ConnectError("lost")


def driver_of(wire: Wire, session: Session) -> ExecDriver:
    given: Any = session
    answer: Any = wire
    return ExecDriver(given, "id", Frames(answer))


async def test_the_output_of_a_command_that_ended_ends() -> None:
    wire = Wire(framed(1, b"out"))
    driver = driver_of(wire, Session(LIVES, LIVES, ENDED))
    chunk = await driver.receive()
    assert chunk is not None
    assert chunk.data == b"out"
    assert await driver.receive() is None
    assert (await driver.wait()).code == 0
    assert wire.closed == 1


async def test_output_that_ends_while_its_command_runs_is_lost() -> None:
    driver = driver_of(Wire(), Session(LIVES))
    with anyio.fail_after(30), pytest.raises(ConnectError):
        await driver.receive()


async def test_output_that_ends_with_the_way_to_the_engine_is_lost() -> None:
    wire = Wire(framed(1, b"part"))
    driver = driver_of(wire, Session(ENDED, cut=True))
    assert await driver.receive() is not None
    with pytest.raises(ConnectError):
        await driver.receive()
    assert wire.closed == 1


@pytest.mark.parametrize("rest", [1, 7, 9])
async def test_output_that_ends_within_a_piece_is_lost(rest: int) -> None:
    driver = driver_of(Wire(framed(1, b"part") + framed(1, b"part")[:rest]), Session(ENDED))
    with pytest.raises(ConnectError):
        await driver.wait()


async def test_a_cancelled_read_at_the_end_asks_again() -> None:
    session = Session(LIVES, LIVES, ENDED)
    driver = driver_of(Wire(), session)
    with anyio.move_on_after(0.01) as scope:
        await driver.receive()
    assert scope.cancelled_caught
    assert await driver.receive() is None
    assert session.asked >= 3


async def test_a_session_that_is_given_up_while_it_is_opened_keeps_no_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wire = Wire(hangs=True)
    waits = anyio.Event()

    class Ending:
        async def watch(self, endpoint: object) -> None:
            pass

    class Engine:
        async def call(self, act: object) -> object:
            await anyio.lowlevel.checkpoint()
            if not wire.closed:
                waits.set()
            return {"Running": True, "ExitCode": None, "Pid": 7}

        def native(self, container_id: str) -> object:
            return None

    async def started(endpoint: object, exec_id: str) -> Frames:
        answer: Any = wire
        return Frames(answer)

    monkeypatch.setattr(exec_session, "start_exec", started)
    nothing: Any = None
    engine: Any = Engine()
    ending: Any = Ending()
    session = ExecSession(engine, nothing, "c", ending, first=False)
    monkeypatch.setattr(ExecDriver, "settle", settled)
    async with anyio.create_task_group() as group:

        async def settle() -> None:
            await session.settle("/work", make=True)

        group.start_soon(settle)
        await waits.wait()
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert wire.closed == 1


async def settled(driver: ExecDriver, command: Command) -> None:
    """As for a command that runs."""


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


async def test_an_end_is_seen_without_waiting_and_without_taking_anything(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    answer = Answer(await UNIXSocketStream.from_socket(ours), 200, {}, b"rest")
    assert not answer.has_ended()
    assert await answer.receive() == b"rest"
    assert not answer.has_ended()
    theirs.sendall(b"more")
    theirs.close()
    assert not answer.has_ended()
    assert await answer.receive() == b"more"
    assert answer.has_ended()
    await answer.aclose()
