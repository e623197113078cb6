"""A synchronous program that is interrupted, forks, and ends without a kill: ``python -m sandboxio_contract.synchronous``.

Its order is a JSON line on stdin; it prints one with what happened and the id of the sandbox that it still has, and ends
after the next line. Nothing in it reacts to its end: that is what is judged.
"""

import json
import os
import selectors
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import sandboxio
from sandboxio.sync import SyncSandbox

BEAT = "beat"
BEATS = f"(while :; do echo >> {BEAT}; sleep 0.2; done) & wait"
"""A command whose child shows by a growing file that it lives."""
PATIENCE = 20.0
"""Seconds that anything here may take."""
QUIET = 1.0
"""Seconds without a beat after which what beats is gone."""
kept: list[SyncSandbox] = []
"""What is alive when the program ends; what it forgets before is warned about, and its owner's end or lifetime ends it."""


def main() -> None:
    """Carry out the order."""
    order: dict[str, Any] = json.loads(sys.stdin.readline())
    sys.path[:0] = order["path"]
    for name, adapter in order["register"].items():
        sandboxio.register(name, adapter)

    def make() -> SyncSandbox:
        return sandboxio.create_sync(order["dsn"], metadata=order["metadata"], timeout=order["timeout"])

    sandbox = make()
    answer: dict[str, Any] = {"interrupted": _interrupted(sandbox)}
    if answer["interrupted"]["beats"] is None:
        sandbox = make()
    kept.append(sandbox)
    answer |= {"forked": _forked(sandbox), "id": sandbox.id}
    print(json.dumps(answer), flush=True)  # noqa: T201
    sys.stdin.readline()


def _interrupted(sandbox: SyncSandbox) -> dict[str, Any]:
    """Return what a Ctrl-C raised while a command ran, and its beats afterwards; ``None`` if its sandbox went with it."""
    threading.Thread(target=_interrupt, args=(sandbox,), daemon=True).start()
    raised = "nothing"
    try:
        sandbox.run(["sh", "-c", BEATS], timeout=PATIENCE)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is judged
        raised = type(error).__name__
    try:
        first = sandbox.files.stat(BEAT).size
        time.sleep(QUIET)
        return {"raised": raised, "beats": sandbox.files.stat(BEAT).size - first}
    except sandboxio.SandboxGone:
        return {"raised": raised, "beats": None}


def _interrupt(sandbox: SyncSandbox) -> None:
    end = time.monotonic() + PATIENCE / 2
    while not sandbox.files.exists(BEAT) and time.monotonic() < end:
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)


def _forked(sandbox: SyncSandbox) -> dict[str, Any]:
    """Return what a forked child was told, and whether the sandbox lives on after that child's end."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        taken = {"run": _told(lambda: sandbox.run(["true"])), "kill": _told(sandbox.kill)}
        os.write(writing, json.dumps(taken).encode())
        os.close(writing)
        sys.exit(0)  # as a child whose code is over: what is registered for the end of a program is called
    os.close(writing)
    with selectors.DefaultSelector() as waiting, os.fdopen(reading, "rb") as pipe:
        waiting.register(pipe, selectors.EVENT_READ)
        told: dict[str, str | None] | None = json.loads(pipe.read() or "null") if waiting.select(PATIENCE) else None
    if told is None:
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return {"told": told, "lives": _told(lambda: sandbox.run(["true"])) is None}


def _told(call: Callable[[], object]) -> str | None:
    """Return the class of the error of ours that a call raises, ``None`` if it was taken."""
    try:
        call()
    except sandboxio.SandboxError as error:
        return type(error).__name__
    return None


if __name__ == "__main__":
    main()
