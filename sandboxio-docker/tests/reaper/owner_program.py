"""What `Owner` runs: reads one call a line, answers with one line of JSON."""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from unittest import mock

from sandboxio_docker.endpoint import Endpoint
from sandboxio_docker.reaper import handle, link, reaper_for

started: list[int] = []


def start_and_note(endpoint: Endpoint, timeout: float) -> link.Link:
    new = link.start(endpoint, timeout)
    started.append(new.pid)
    return new


mock.patch.object(handle, "start", start_and_note).start()
reaper = reaper_for(Endpoint.from_json(sys.argv[1]))


def fork(keep_link: bool) -> int:
    held = reaper._link
    assert held is not None
    if keep_link:
        os.dup(held._sock.fileno())  # what a fork in C code, which runs no hook, would leave to the child
    child = os.fork()
    if child == 0:
        signal.pause()
    return child


def expect_many(prefix: str, count: int, expires_at: float) -> None:
    """Have that many threads make the very first call at once."""
    gate = threading.Barrier(count)

    def arm(number: int) -> None:
        gate.wait()
        reaper.expect(f"{prefix}{number}", expires_at)

    threads = [threading.Thread(target=arm, args=[number]) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def wait_for_any_child() -> str:
    """Do what a supervisor does: wait for whatever child there is."""
    try:
        return str(os.waitpid(-1, os.WNOHANG))
    except ChildProcessError:
        return "no child"


def execute(seconds: str) -> None:
    """Become another program, under the same process number."""
    os.execvp("sleep", ["sleep", seconds])


def links() -> int:
    """Count the sockets that this process holds."""
    found = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since, as the one that the folder is read by
            found += "socket:" in str(descriptor.readlink())
    return found


verbs: dict[str, Callable[..., object]] = {
    "fork": fork,
    "expect_many": expect_many,
    "wait_for_any_child": wait_for_any_child,
    "execute": execute,
    "links": links,
    "pid": lambda: reaper.pid,
    "started": lambda: started,
}

for line in sys.stdin:
    name, *arguments = json.loads(line)
    verb: Callable[..., object] = verbs.get(name) or getattr(reaper, name)
    print(json.dumps(verb(*arguments)), flush=True)
