"""A process that owns sandboxes and is killed: ``python -m sandboxio_contract.owner``, its order as JSON on stdin.

It makes the sandboxes, starts something in each, prints one JSON line with their ids (and the id of the child that it
forked, if it was told to), and waits. Nothing in it reacts to its end: that is what is judged.
"""

import json
import os
import sys
import time
from typing import Any

import anyio
import sandboxio

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

    async def one() -> None:
        sandbox = await sandboxio.create(order["dsn"], metadata=order["metadata"], timeout=PATIENCE)
        made.append(sandbox)
        async with sandbox.stream(["sleep", "200"]) as proc:
            await proc.wait()

    async with anyio.create_task_group() as group:
        for _ in range(order["count"]):
            group.start_soon(one)
        while len(made) < order["count"]:
            await anyio.sleep(0.05)
        child = _fork() if order["fork"] else None
        print(json.dumps({"ids": [sandbox.id for sandbox in made], "child": child}), flush=True)  # noqa: T201
        await anyio.sleep(PATIENCE)


def _fork() -> int:
    """Fork a child that lives on with every descriptor of the owner's, and does nothing."""
    pid = os.fork()
    if pid == 0:
        time.sleep(PATIENCE)
        os._exit(0)
    return pid


if __name__ == "__main__":
    main()
