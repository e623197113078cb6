"""Run a command when this process is gone, also when it was killed: for adapters whose provider does not see that.

The watcher is a child process with nothing of its owner's but the knowledge who that is: once it has another parent, its owner
is gone, whatever a forked child of the owner still holds.
"""

import os
import subprocess
import sys
from collections.abc import Sequence

_WATCH = """
import os, subprocess, sys, time
while os.getppid() == int(sys.argv[1]):
    time.sleep(0.3)
for _ in range(20):
    subprocess.run(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1)
"""
_NOBODY = "0"


class OwnerWatch:
    """A watcher; it is started at once.

    :param command: has to be harmless when repeated: it is run for 20 seconds, in case what it ends is made late.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = tuple(command)
        self._process = subprocess.Popen(self._argv(str(os.getpid())), stdin=subprocess.DEVNULL, start_new_session=True)

    def fire(self) -> None:
        """Run the command in any case, from now on for 20 seconds, and whether this process lives or not."""
        detached = ["sh", "-c", '"$@" &', "sh", *self._argv(_NOBODY)]
        subprocess.run(detached, stdin=subprocess.DEVNULL, start_new_session=True, check=True)

    def close(self) -> None:
        """Stop watching; repeating it does nothing."""
        self._process.kill()
        self._process.wait()

    def _argv(self, owner: str) -> list[str]:
        return [sys.executable, "-ISc", _WATCH, owner, *self._command]
