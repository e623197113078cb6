"""A proxy that lets connections through by the name they say: the Host header on port 80, the TLS server name on port 443.

As providers' own do: it accepts first and decides then, and what it decides by is only what the client says. It ends with its
stdin. A program of its own, standard library only.
"""

import asyncio
import contextlib
import re
import socket
import struct
import sys
from functools import partial

ORIGINAL_DESTINATION = 80
MARK = 36
MOST = 16_384
_HOST = re.compile(rb"^host:[ \t]*([^\s:]+)", re.IGNORECASE | re.MULTILINE)


def server_name(hello: bytes) -> str:
    """Return the name in a TLS ClientHello, nothing where there is none."""
    try:
        at = 9 + 2 + 32  # record and handshake headers, version, random
        at += 1 + hello[at]  # session id
        at += 2 + struct.unpack_from("!H", hello, at)[0]  # cipher suites
        at += 1 + hello[at]  # compression methods
        end = at + 2 + struct.unpack_from("!H", hello, at)[0]
        at += 2
        while at < end:
            kind, length = struct.unpack_from("!HH", hello, at)
            if kind == 0:
                size = struct.unpack_from("!H", hello, at + 7)[0]
                return hello[at + 9 : at + 9 + size].decode("ascii")
            at += 4 + length
    except (IndexError, struct.error, UnicodeDecodeError):
        pass
    return ""


def host(request: bytes) -> str:
    """Return the name in an HTTP request's Host header."""
    found = _HOST.search(request)
    return found[1].decode("ascii", "replace") if found else ""


def listed(name: str, patterns: "list[str]") -> bool:
    """Whether a name is on the list; ``*.suffix`` is not the suffix itself."""
    name = name.lower().rstrip(".")
    return any(
        one == "*" or name == one or (one.startswith("*.") and name.endswith(one[1:]) and name != one[2:])
        for one in patterns
    )


async def serve(mark: int, patterns: "list[str]", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Decide about one connection, and carry it if it may pass."""
    raw: socket.socket = writer.get_extra_info("socket")
    _, port, address = struct.unpack("!HH4s", raw.getsockopt(socket.SOL_IP, ORIGINAL_DESTINATION, 16)[:8])
    with contextlib.suppress(OSError):
        first = await asyncio.wait_for(reader.read(MOST), 10)
        if listed(server_name(first) if port == 443 else host(first), patterns):
            await carry(mark, (socket.inet_ntoa(address), port), first, reader, writer)
    writer.close()


async def carry(
    mark: int, target: "tuple[str, int]", first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Carry one connection on."""
    out = socket.socket()
    out.setblocking(False)
    out.setsockopt(socket.SOL_SOCKET, MARK, mark)
    await asyncio.get_running_loop().sock_connect(out, target)
    far_reader, far_writer = await asyncio.open_connection(sock=out)
    far_writer.write(first)
    await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry one direction."""
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


async def main() -> None:
    """Serve until stdin ends."""
    port, mark, *patterns = sys.argv[1:]
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, ended.set)
    await asyncio.start_server(partial(serve, int(mark), patterns), "127.0.0.1", int(port))
    print("up", flush=True)  # noqa: T201
    await ended.wait()


if __name__ == "__main__":
    asyncio.run(main())
