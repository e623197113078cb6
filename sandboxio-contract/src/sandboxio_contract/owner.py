"""A process that owns sandboxes and is killed or stopped: ``python -m sandboxio_contract.owner``, its order on stdin.

It makes the sandboxes, starts something in each, prints one JSON line with their ids (and the id of the child that it
forked, if it was told to, and when each sandbox expires and what its command has said), and waits. Nothing in it
reacts to its end: that is what is judged.
"""

import ctypes
import json
import os
import sys
import time
from typing import Any

import anyio
import sandboxio

SUBREAPER = 36
READY = "ready"
"""The line by which a command of an order says that what it does is under way."""
PATIENCE = 300.0
"""Seconds after which owner and child end by themselves, should whoever started them be killed."""


def main() -> None:
    """Carry out the order."""
    order: dict[str, Any] = json.loads(sys.stdin.readline())
    sys.path[:0] = order["path"]
    for name, adapter in order["register"].items():
        sandboxio.register(name, adapter)
    anyio.run(_own, order, backend=order["loop"])


async def _own(order: dict[str, Any]) -> None:
    made: list[sandboxio.Sandbox] = []
    said: list[str] = []
    commands: list[list[str] | None] = order.get("commands") or [None] * order["count"]
    if order.get("keeps_children"):
        # What its processes leave behind stays below it, where it is found and stopped with it.
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)

    async def one(command: list[str] | None) -> None:
        lifetime = order.get("timeout", PATIENCE)
        sandbox = await sandboxio.create(order["dsn"], metadata=order["metadata"], timeout=lifetime)
        async with sandbox.stream(command or ["sleep", "200"]) as proc:
            if command:
                said.append(await _until_ready(proc))  # rows order one such command at most
            made.append(sandbox)
            await proc.wait()

    async with anyio.create_task_group() as group:
        for command in commands:
            group.start_soon(one, command)
        while len(made) < len(commands):
            await anyio.sleep(0.05)
        child = _fork() if order["fork"] else None
        expires = [sandbox.expires_at for sandbox in made]
        answer = {"ids": [sandbox.id for sandbox in made], "child": child, "expires": expires, "said": said}
        print(json.dumps(answer), flush=True)  # noqa: T201
        await anyio.sleep(PATIENCE)


async def _until_ready(proc: sandboxio.Process) -> str:
    """Return what a command printed before it said that it is ready, or by its end."""
    text = b""
    async for chunk in proc:
        text += chunk.data if chunk.stream == "stdout" else b""
        if f"{READY}\n".encode() in text:
            break
    return text.decode("utf-8", "replace")


def _fork() -> int:
    """Fork a child that lives on with every descriptor of the owner's, and does nothing."""
    pid = os.fork()
    if pid == 0:
        time.sleep(PATIENCE)
        os._exit(0)
    return pid


if __name__ == "__main__":
    main()
