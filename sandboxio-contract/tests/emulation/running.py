"""A guest for a test, and a command in it to its end."""

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from sandboxio_contract.emulation import Egress, Guest, Machine, Outside, Started

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/home/user"}


@dataclass(frozen=True)
class Done:
    exit_code: int
    stdout: bytes


@contextlib.asynccontextmanager
async def guest(outside: Outside | None = None, egress: Egress | None = None) -> AsyncGenerator[Guest]:
    made = await Guest.start(Machine(disk_mb=64, resolvers=("8.8.8.8",)))
    try:
        if outside is not None:
            await outside.connect(made, egress or Egress())
        yield made
    finally:
        if outside is not None:
            outside.let_go(made)
        await made.close()


async def run(one: Guest, argv: Sequence[str], stdin: bytes = b"", user: str = "user") -> Done:
    """Run a command; it returns when nobody holds its output any more."""
    started, reader, _ = await begin(one, argv, stdin, user)
    stdout = await asyncio.to_thread(read_all, reader)
    return Done(os.waitstatus_to_exitcode(await started.ended), stdout)


async def begin(one: Guest, argv: Sequence[str], stdin: bytes = b"", user: str = "user") -> tuple[Started, int, int]:
    reader, writer = os.pipe()
    given, give = os.pipe()
    try:
        started = await one.spawn(argv, (given, writer, writer), env=ENV, cwd="/home/user", user=user)
    finally:
        os.close(writer)
        os.close(given)
    await asyncio.to_thread(write_all, give, stdin)
    return started, reader, started.pid


def read_all(descriptor: int) -> bytes:
    with open(descriptor, "rb") as stream:
        return stream.read()


def write_all(descriptor: int, data: bytes) -> None:
    with open(descriptor, "wb") as stream:
        stream.write(data)
