"""A process that owns one sandbox: its order as JSON in the first argument, its answers as lines of JSON.

It makes the sandbox, says its id and its reaper's process, obeys one word a line (``detach``, ``run``), and never ends the
sandbox by itself: it is killed, or its stdin ends.
"""

import json
import os
import sys
from typing import Any

import anyio
import anyio.to_thread
import sandboxio
from sandboxio_docker.engine import engine_for
from sandboxio_docker.reaper import reaper_for


async def main(order: dict[str, Any]) -> None:
    sandbox = await sandboxio.create(order["target"], **order["options"])
    say({"id": sandbox.id, "reaper": reaper_for(engine_for(None).endpoint).pid})
    while word := (await anyio.to_thread.run_sync(sys.stdin.readline)).strip():
        try:
            say(await obey(sandbox, word))
        except sandboxio.SandboxError as error:
            say({"error": type(error).__name__, "message": error.message, "hint": error.hint})
    os._exit(0)  # as a crash would: nothing is torn down


async def obey(sandbox: sandboxio.Sandbox, word: str) -> object:
    if word == "detach":
        await sandbox.detach()
        return "detached"
    result = await sandbox.run(json.loads(word))
    return [result.exit_code, result.stdout]


def say(answer: object) -> None:
    print(json.dumps(answer), flush=True)


order: dict[str, Any] = json.loads(sys.argv[1])
if "resources" in order["options"]:
    order["options"]["resources"] = sandboxio.Resources(**order["options"]["resources"])
anyio.run(main, order, backend=order["loop"])
