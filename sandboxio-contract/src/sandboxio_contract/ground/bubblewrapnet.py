"""Canaries and references for sandboxes that this process makes itself: the arena, which the process has entered."""

import contextlib
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from sandboxio_contract.network import kernel
from sandboxio_contract.network.arena import Arena
from sandboxio_contract.network.checks import Checks, probe_command
from sandboxio_contract.network.commands import CommandFailed, run
from sandboxio_contract.network.outcome import Outcome, Result, parse_probe
from sandboxio_contract.network.plan import Neighbour
from sandboxio_contract.network.reason import NotProvable
from sandboxio_contract.network.reference import neighbour_command
from sandboxio_contract.network.witness import Witness
from sandboxio_contract.verdict import Inconclusive

PORT, BESIDE_PORT = 28_456, 28_457
SECONDS = 60.0
INSIDE, OUTSIDE = "198.18.0.2", "198.18.0.1"
"""The two ends of the neighbour's link: addresses of a range that is for such tests, in a network without an uplink."""
_NOT_BESIDE = ("unix-path", "vsock")


@contextlib.contextmanager
def entered_arena() -> Generator[Arena | None]:
    """Enter an arena, if this process is root and its own network has no uplink; it can't be left again.

    A probe of a sandbox that lies may come to this process's own network: so it must be one that nothing leaves.
    """
    if os.geteuid() != 0 or not _is_without_uplink():
        yield None
        return
    with Arena.start() as arena:
        kernel.enter(f"/proc/{arena.pid}/ns/net")
        yield arena


def _is_without_uplink() -> bool:
    lines = Path("/proc/self/net/dev").read_text(encoding="ascii").splitlines()[2:]
    return {line.split(":")[0].strip() for line in lines} <= {"lo"}


class BubblewrapNetwork:
    """A `NetworkGround`. A context manager.

    :param pid: tells a sandbox's own first process on this machine.
    """

    def __init__(self, arena: Arena, pid: Callable[[str], int]) -> None:
        self._arena, self._pid = arena, pid
        self._stack = contextlib.ExitStack()
        self._neighbour: Neighbour | None = None

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the listeners."""
        self._stack.close()

    def checks(self, *, neighbour: Neighbour | None = None, late: bool = False, only: Sequence[str] = ()) -> Checks:
        """Return checks under a fresh token."""
        return self._arena.checks(neighbour=neighbour, late=late, only=only)

    def witness(self) -> Witness:
        """Return what the canaries saw."""
        return self._arena.witness()

    def control(self, checks: Checks) -> Outcome:
        """Run the same checks in the arena itself, where nothing is denied."""
        fresh = self._arena.refreshed(checks)
        return self._probed(fresh, self._arena.command([]))

    def beside(self, sandbox_id: str, checks: Checks) -> Outcome:
        """Run the checks from a process of this machine in the sandbox's network namespace."""
        outcome = self._probed(checks, ["nsenter", "-t", str(self._pid(sandbox_id)), "-n", "--"])
        unseen = {one.name: Result("error", "can't be seen from beside") for one in checks if one.name in _NOT_BESIDE}
        return replace(outcome, results={**outcome.results, **unseen})

    def neighbour(self) -> Neighbour:
        """Return a listener in a network namespace of its own, linked to the arena."""
        if self._neighbour is None:
            self._neighbour = self._linked()
        return self._neighbour

    def listen_beside(self, sandbox_id: str, address: str) -> Neighbour:
        """Return a listener in the sandbox's network namespace."""
        key = secrets.token_bytes(32)
        self._listen(["nsenter", "-t", str(self._pid(sandbox_id)), "-n", "--"], key, BESIDE_PORT)
        return Neighbour(address, BESIDE_PORT, key)

    def _linked(self) -> Neighbour:
        key, link = secrets.token_bytes(32), f"sbxn{secrets.token_hex(3)}"
        holder = subprocess.Popen(["unshare", "--net", "sleep", "3600"])
        self._stack.callback(_ended, holder)
        there = ["nsenter", "-t", str(holder.pid), "-n", "--"]
        end = time.monotonic() + SECONDS
        own = os.readlink("/proc/thread-self/ns/net")  # noqa: PTH115 - a link whose text is all there is
        while os.readlink(f"/proc/{holder.pid}/ns/net") == own:  # noqa: PTH115
            if time.monotonic() > end:
                raise Inconclusive("the neighbour's network namespace was not made")
            time.sleep(0.005)
        try:
            here = self._arena.command([])
            run([*here, "ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid)])
            run([*here, "ip", "addr", "add", f"{OUTSIDE}/30", "dev", link])
            run([*here, "ip", "link", "set", link, "up"])
            run([*there, "ip", "addr", "add", f"{INSIDE}/30", "dev", "eth0"])
            run([*there, "ip", "link", "set", "eth0", "up"])
            run([*there, "ip", "route", "add", "default", "via", OUTSIDE])
        except CommandFailed as error:
            raise NotProvable("routes", f"the neighbour could not be linked: {error}") from error
        self._listen(there, key, PORT)
        return Neighbour(INSIDE, PORT, key)

    def _listen(self, where: list[str], key: bytes, port: int) -> None:
        argv, source = neighbour_command(key, port, SECONDS * 10)
        listener = subprocess.Popen([*where, sys.executable, *argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._stack.callback(_ended, listener)
        assert listener.stdin is not None
        assert listener.stdout is not None
        listener.stdin.write(source)
        listener.stdin.close()
        if b"listening" not in listener.stdout.readline():
            raise Inconclusive("the suite's listener does not listen")

    def _probed(self, checks: Checks, where: list[str]) -> Outcome:
        argv, source = probe_command(checks, sys.executable)
        try:
            done = subprocess.run(
                [*where, *argv], input=source, capture_output=True, timeout=checks.seconds() + SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise Inconclusive("the reference probe did not end") from error
        return parse_probe(checks, done.returncode, done.stdout)


def _ended(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
