"""The suite's own look at an emulated outside: canaries, a reference that denies nothing, listeners beside sandboxes."""

import contextlib
import secrets
import select
import subprocess
import sys
from collections.abc import Callable, Sequence

from sandboxio_contract.emulation.guest import Guest
from sandboxio_contract.emulation.outside import Outside, inside_network
from sandboxio_contract.network import tokens
from sandboxio_contract.network.checks import Checks, probe_command
from sandboxio_contract.network.commands import run
from sandboxio_contract.network.outcome import Outcome, Result, parse_probe
from sandboxio_contract.network.plan import Neighbour
from sandboxio_contract.network.reason import NotProvable
from sandboxio_contract.network.reference import neighbour_command
from sandboxio_contract.network.witness import Witness

PORT = 28_455
SECONDS = 60.0
LIFE = 300.0
"""Seconds after which a listener ends by itself, should its owner be killed."""
# What a probe that shares only the network with the sandbox can't see for it.
_NOT_BESIDE = ("unix-path", "vsock")


class EmulatedNetwork:
    """What a network ground is asked for.

    :param guest: returns what a sandbox is made of, by its id.
    """

    def __init__(self, outside: Outside, guest: Callable[[str], Guest]) -> None:
        self._outside, self._guest = outside, guest
        self._arena = outside.arena
        self._listeners: list[subprocess.Popen[bytes]] = []
        self._neighbour: Neighbour | None = None
        self._place: int | None = None

    def checks(self, *, neighbour: Neighbour | None = None, late: bool = False, only: Sequence[str] = ()) -> Checks:
        """Return checks under a fresh token."""
        return self._arena.checks(neighbour=neighbour, late=late, only=only)

    def witness(self) -> Witness:
        """Return what the canaries saw."""
        return self._arena.witness()

    def control(self, checks: Checks) -> Outcome:
        """Run the same checks in the arena itself, where nobody is denied anything."""
        return self._probe(self._arena.refreshed(checks), self._arena.command([]))

    def beside(self, sandbox_id: str, checks: Checks) -> Outcome:
        """Run the checks from a probe that shares the sandbox's network."""
        outcome = self._probe(checks, inside_network(self._guest(sandbox_id).pid))
        unseen = {one.name: Result("error", "can't be seen from beside") for one in checks if one.name in _NOT_BESIDE}
        return Outcome(
            outcome.token, {**outcome.results, **unseen}, outcome.complete, outcome.reason, outcome.interfaces
        )

    def neighbour(self) -> Neighbour:
        """Return a live listener on a cable of its own."""
        if self._neighbour is None:
            pid, address = self._outside.place()
            self._place = pid
            self._neighbour = self._listen(pid, address)
        return self._neighbour

    def listen_beside(self, sandbox_id: str, address: str) -> Neighbour:
        """Return a listener that shares a sandbox's network; it lives for a minute."""
        return self._listen(self._guest(sandbox_id).pid, address)

    def rules(self, sandbox_id: str) -> str:
        """Return the filter that stands in a sandbox's namespace."""
        return run([*inside_network(self._guest(sandbox_id).pid), "nft", "list", "ruleset"])

    def close(self) -> None:
        """End the listeners."""
        for one in self._listeners:
            one.kill()
            one.communicate()
        self._listeners.clear()
        self._neighbour = None
        if self._place is not None:
            self._outside.give_up(self._place)
            self._place = None

    def _listen(self, pid: int, address: str) -> Neighbour:
        key = tokens.key_for(secrets.token_bytes(32), "neighbour")
        argv, source = neighbour_command(key, PORT, LIFE)
        argv = (sys.executable, *argv[1:])
        started = subprocess.Popen(
            [*inside_network(pid), *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/"
        )
        self._listeners.append(started)
        assert started.stdin is not None
        assert started.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            started.stdin.write(source)
            started.stdin.close()
        ready, _, _ = select.select([started.stdout], [], [], SECONDS)
        if not ready or b"listening" not in started.stdout.readline():
            raise NotProvable("canary", "the suite's listener does not listen")
        started.stdin = None  # it is closed, and `communicate` would write to it
        return Neighbour(address, PORT, key)

    def _probe(self, checks: Checks, prefix: Sequence[str]) -> Outcome:
        argv, source = probe_command(checks, sys.executable)
        done = subprocess.run(
            [*prefix, *argv], input=source, capture_output=True, timeout=checks.seconds() + SECONDS, check=False
        )
        return parse_probe(checks, done.returncode, done.stdout)
