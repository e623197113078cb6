"""The stream over a pair of sockets, on both loops."""

import socket
from collections.abc import Iterator

import anyio
import pytest
from sandboxio_bubblewrap.stream import SocketStream

pytestmark = pytest.mark.anyio


@pytest.fixture
def pair() -> Iterator[tuple[SocketStream, socket.socket]]:
    ours, its = socket.socketpair()
    with ours, its:
        yield SocketStream(ours), its


async def test_much_data_goes_both_ways(pair: tuple[SocketStream, socket.socket]) -> None:
    stream, its = pair
    sent = bytes(range(256)) * 8192

    def mirror() -> None:
        left = len(sent)
        while left:
            data = its.recv(65536)
            its.sendall(data)
            left -= len(data)

    got = b""
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, mirror)
            group.start_soon(stream.send, sent)
            while len(got) < len(sent):
                got += await stream.receive()
    assert got == sent
    await stream.aclose()


async def test_closing_wakes_whoever_waits(pair: tuple[SocketStream, socket.socket]) -> None:
    stream, _ = pair
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:

            async def wait() -> None:
                with pytest.raises(anyio.ClosedResourceError):
                    await stream.receive()

            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await stream.aclose()
            await stream.aclose()


async def test_the_other_sides_end_is_the_end(pair: tuple[SocketStream, socket.socket]) -> None:
    stream, its = pair
    its.sendall(b"last")
    its.close()
    assert await stream.receive() == b"last"
    with pytest.raises(anyio.EndOfStream):
        await stream.receive()
    await stream.aclose()
