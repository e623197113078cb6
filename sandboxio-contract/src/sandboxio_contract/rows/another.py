"""Another process that a row orders something of: the order is a JSON line on its stdin, its answer one on its stdout."""

import json
import selectors
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from sandboxio_contract.verdict import Inconclusive

START = 90.0
"""Seconds within which it answers."""


@contextmanager
def another(module: str, order: Mapping[str, Any]) -> Generator["subprocess.Popen[str]"]:
    """Have a process that runs a module of ours and was given its order; it is killed at the end."""
    process = subprocess.Popen([sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def answer_of(process: "subprocess.Popen[str]", *, late: str, ended: str) -> dict[str, Any]:
    """Return what it answers.

    :raises Inconclusive: nothing in time, which is ``late``, or nothing at all, which is ``ended``.
    """
    assert process.stdout is not None
    with selectors.DefaultSelector() as waiting:
        waiting.register(process.stdout, selectors.EVENT_READ)
        if not waiting.select(START):
            raise Inconclusive(f"{late} within {START:g} s")
    line = process.stdout.readline()
    if not line:
        raise Inconclusive(ended)
    answer: dict[str, Any] = json.loads(line)
    return answer
