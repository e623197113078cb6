"""The process that keeps a world standing, and takes it down when its owner is gone.

It has a session of its own and holds a pipe from the owner: the end of that pipe, however the owner came to its end, is the
order to tear down. It speaks JSON lines: a configuration in, the world's facts out, then one answer per request.
"""

import contextlib
import json
import os
import select
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, cast

from sandboxio_contract.network.commands import CommandFailed
from sandboxio_contract.network.reason import NotProvable


class World(Protocol):
    """What a supervisor keeps."""

    def build(self) -> dict[str, object]:
        """Set it up and return its facts."""
        ...

    def witness(self) -> dict[str, object]:
        """Return what was seen so far."""
        ...

    def tear_down(self, *, orphaned: bool) -> None:
        """Leave the host as it was; `orphaned` if the owner did not take leave."""
        ...


def make(configuration: dict[str, object]) -> World:
    """Return the world that a configuration asks for."""
    secret = bytes.fromhex(str(configuration["secret"]))
    if configuration["world"] == "host":
        from sandboxio_contract.network.hostworld import HostWorld

        return HostWorld(secret, str(configuration["run"]), Path(str(configuration["directory"])))
    from sandboxio_contract.network.arenaworld import ArenaWorld

    return ArenaWorld(secret, str(configuration["run"]))


def _ended(_number: int, _frame: object) -> None:
    raise SystemExit(1)


def serve(world: World) -> None:
    """Build, answer until the owner takes leave or is gone, tear down in any case."""
    orphaned = True
    try:
        _say({"ready": world.build()})
        for word in _requests():
            if word == b"close":
                orphaned = False
                return
            _say(_answer(world))
    except NotProvable as error:
        orphaned = False
        _say({"code": error.code, "reason": error.reason})
    except (OSError, CommandFailed) as error:
        _say({"code": "canary", "reason": f"the canary could not be set up: {error}"})
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        world.tear_down(orphaned=orphaned)
        _say({"closed": True})


def _requests() -> Iterator[bytes]:
    """Yield the owner's words until its pipe ends, or itself: a child it forked may go on holding the pipe."""
    owner = os.pidfd_open(os.getppid())
    waiting = b""
    while True:
        ready, _, _ = select.select([0, owner], [], [])
        data = os.read(0, 4096) if 0 in ready else b""
        if not data:
            return
        *words, waiting = (waiting + data).split(b"\n")
        yield from words


def _configuration() -> dict[str, object]:
    """Read the first line byte by byte, so that nothing of what follows is swallowed by a buffer."""
    line = b""
    while not line.endswith(b"\n"):
        data = os.read(0, 1)
        if not data:
            raise SystemExit(1)
        line += data
    return cast("dict[str, object]", json.loads(line))


def _answer(world: World) -> dict[str, object]:
    try:
        return {"witness": world.witness()}
    except NotProvable as error:
        return {"code": error.code, "reason": error.reason}


def _say(message: dict[str, object]) -> None:
    # The owner may be gone; what is left to do is the same.
    with contextlib.suppress(OSError):
        os.write(sys.stdout.fileno(), json.dumps(message).encode() + b"\n")


def main() -> None:
    """Run as the supervisor; the configuration is the first line of standard input, so its secret is in no argv."""
    signal.signal(signal.SIGTERM, _ended)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve(make(_configuration()))


if __name__ == "__main__":
    main()
