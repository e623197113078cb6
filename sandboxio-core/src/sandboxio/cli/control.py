"""Prove a denial by its positive control.

A listener of ours on the gateway of a sandbox with ``egress="allow"`` hands out a nonce. The open sandbox must come back
with it, or the experiment proves nothing; then the closed sandbox tries exactly the same.
"""

import secrets
from dataclasses import dataclass
from typing import Literal

import anyio
from anyio.abc import SocketAttribute, SocketStream

from sandboxio.errors import CapabilityNotSupported, SandboxError
from sandboxio.sandbox import Sandbox

Finding = Literal["proven", "violated", "not provable"]

_GATEWAY = """
import socket, struct
for line in open('/proc/net/route').read().splitlines()[1:]:
    fields = line.split()
    if fields[1] == '00000000':
        print(socket.inet_ntoa(struct.pack('<L', int(fields[2], 16))))
        break
"""

_ASK = """
import socket
try:
    with socket.create_connection(({host!r}, {port}), timeout=3) as connection:
        print(connection.recv(64).decode())
except OSError as error:
    print('denied:', error.strerror or error)
"""


@dataclass(frozen=True, slots=True)
class Proof:
    """What came of the experiment.

    :param control: what the open sandbox got.
    :param denied: what the closed sandbox got.
    """

    finding: Finding
    control: str
    denied: str


async def has_program(sandbox: Sandbox, program: str) -> bool:
    """Whether ``program`` can run an empty piece of code there."""
    return (await sandbox.run([program, "-c", ""])).exit_code == 0


async def prove_denial(closed: Sandbox, opened: Sandbox) -> Proof:
    """Let both sandboxes ask the same listener of this machine for a fresh nonce."""
    if not await has_program(opened, "python3"):
        return Proof("not provable", "the program that asks is written in Python, and the image has none", "not tried")
    gateway = (await opened.run_code(_GATEWAY)).stdout.strip()
    nonce = secrets.token_hex(16)
    try:
        listener = await anyio.create_tcp_listener(local_host=gateway)
    except OSError as error:
        return Proof("not provable", f"the gateway {gateway or '?'} is not on this machine: {error}", "not tried")

    async def answer(stream: SocketStream) -> None:
        async with stream:
            await stream.send(nonce.encode())

    answers: list[str] = []
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, answer)
        port = listener.extra(SocketAttribute.local_port)
        code = _ASK.format(host=gateway, port=port)
        for sandbox in (opened, closed):
            answers.append((await sandbox.run_code(code)).stdout.strip())
        tasks.cancel_scope.cancel()
    return _judge(nonce, *answers)


def _judge(nonce: str, control: str, denied: str) -> Proof:
    if control != nonce:
        return Proof("not provable", f"the open sandbox did not reach the listener: {control}", denied)
    if nonce in denied:
        return Proof("violated", "the open sandbox reached the listener", "the closed sandbox reached it, too")
    return Proof("proven", "the open sandbox reached the listener", denied)


def not_provable(error: SandboxError) -> Proof:
    """Say why no open sandbox could be had."""
    why = "this backend has no egress='allow'" if isinstance(error, CapabilityNotSupported) else error.message
    return Proof("not provable", why, "not tried")
