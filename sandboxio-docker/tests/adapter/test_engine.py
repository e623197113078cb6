"""The one client of an engine."""

import subprocess
import sys

import pytest

from .scripted_engine import ScriptedEngine

PROGRAM = """
import anyio, sys
from sandboxio_docker import engine

def close(client, close=engine._Client.close):
    close(client)
    print("closed")

engine._Client.close = close
one = engine.engine_for(sys.argv[1])
anyio.run(one.call, lambda client: client.version())
print("used")
"""


@pytest.mark.network
def test_idle_connections_are_closed_at_the_end_of_the_process(engine: ScriptedEngine) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, engine.host], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.stdout.split() == ["used", "closed"], ended.stderr
