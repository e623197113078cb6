"""What the adapter calls: one `Reaper` per engine in each process, started at the first expectation."""

import math
import os
import threading
import time
from dataclasses import replace
from weakref import WeakSet

from sandboxio_docker.endpoint import Endpoint

from .link import Link, LinkLost, ReaperUnavailable, start
from .messages import Claim, boot_clock, claim_to_wire

ANSWER_S = 5.0
ANSWER_THROUGH_SSH_S = 15.0  # at its start the reaper logs in once
# A reaper looks for a condemned name for ten minutes; after that nothing is left to be told to a new one.
_REMEMBERED_AFTER_DEADLINE_S = 900.0

_every_reaper: "WeakSet[Reaper]" = WeakSet()


class Reaper:
    """Destroys this process's sandboxes on one engine, by their deadline or when this process has ended.

    Every method may be called from any thread. Those that wait for the reaper's answer do so for at most twice
    ``answer_s`` seconds (microseconds as a rule), so call them from a worker thread. If the reaper has died, the next
    call starts another one and arms it with everything that this process still expects.

    After a fork the child process has expectations of its own, none at first, and another reaper.
    """

    def __init__(self, endpoint: Endpoint, *, answer_s: float = ANSWER_S) -> None:
        self._endpoint = endpoint
        self._answer_s = answer_s
        self._lock = threading.Lock()
        self._claims: dict[str, Claim] = {}
        self._link: Link | None = None
        _every_reaper.add(self)

    @property
    def pid(self) -> int | None:
        """The reaper's process as last known, for diagnosis; ``None`` before the first expectation."""
        link = self._link
        return None if link is None else link.pid

    def expect(self, name: str, expires_at: float) -> None:
        """Arm: a create request for the container ``name`` may be sent from now on; return once that is certain.

        Its id is unknown until `have`. An ``expires_at`` in the past condemns the name: whatever appears under it in
        the next ten minutes is destroyed. Such a name must not be used again.

        :param expires_at: seconds since the epoch; a later jump of the wall clock doesn't move it.
        :raises ReaperUnavailable: not armed; don't send the request.
        """
        if not math.isfinite(expires_at):
            problem = f"a deadline must be finite: {expires_at}"
            raise ValueError(problem)
        remaining = expires_at - time.time()
        claim = Claim(name, boot_clock() + max(remaining, 0.0))
        with self._lock:
            self._forget_the_past()
            before = self._claims.get(name)
            self._claims[name] = claim
            try:
                self._ask({"do": "expect", "claim": claim_to_wire(claim)})
            except BaseException:
                if remaining > 0:  # nothing will be created; a condemned name stays for the next reaper
                    self._restore(name, before)
                raise

    def have(self, name: str, container_id: str) -> None:
        """Tell that the create request has committed: from now on only this container is the one to be destroyed."""
        with self._lock:
            self._tell_change(replace(self._known(name), container=container_id))

    def network(self, name: str, network_id: str) -> None:
        """Tell of a network that goes after its container; return once that is certain."""
        with self._lock:
            claim = self._known(name)
            if network_id not in claim.networks:
                self._ask_change(replace(claim, networks=(*claim.networks, network_id)))

    def disk(self, name: str, limit_bytes: int, speaks: bool = False) -> None:
        """Cap the writable layer: while the sandbox is in use its size is watched; return once that is certain.

        :param speaks: whether its agent says on its stderr when that is, and what deleted files hold. Else it is in use
            from `busy` on, until the engine shows no process besides the first.
        """
        with self._lock:
            self._ask_change(replace(self._known(name), disk_limit=limit_bytes, speaks=speaks))

    def busy(self, name: str, busy: bool) -> None:
        """Tell whether a user's process may be alive in the sandbox; doesn't wait, costs nothing without a disk cap."""
        with self._lock:
            claim = self._claims.get(name)
            # Where no agent speaks the reaper finds out by itself when nothing lives, so it must hear of each start.
            if claim is None or (claim.busy == busy and (claim.speaks or not busy)):
                return
            changed = replace(claim, busy=busy)
            if claim.disk_limit is None:
                self._claims[name] = changed
            else:
                self._tell_change(changed)

    def detach(self, name: str) -> None:
        """From now on only its deadline ends the sandbox, not the end of this process; return once that is certain.

        What it says of its disk still counts.

        :raises ReaperUnavailable: not certain; the sandbox still ends with this process.
        """
        with self._lock:
            before = self._known(name)
            try:
                self._ask_change(replace(before, detached=True))
            except BaseException:
                self._claims[name] = before
                raise

    def join(self, name: str, container_id: str, deadline: float, disk_limit: int | None, speaks: bool = False) -> bool:
        """Answer for a sandbox of another process too, for its deadline and its disk cap; return once that is certain.

        Its owner's reaper can't know what is started from here. The end of this process is not the sandbox's end.

        :param deadline: seconds since the epoch. :param disk_limit: bytes; ``None`` = somebody else enforces the cap.
        :param speaks: as for `disk`.
        :return: false if this process answers for it already.
        :raises ReaperUnavailable: not certain.
        """
        with self._lock:
            self._forget_the_past()
            if name in self._claims:
                return False
            at = boot_clock() + max(deadline - time.time(), 0.0)
            claim = Claim(name, at, container_id, disk_limit=disk_limit, speaks=speaks, detached=True)
            self._claims[name] = claim
            try:
                self._ask({"do": "expect", "claim": claim_to_wire(claim)})
            except BaseException:
                del self._claims[name]
                raise
            return True

    def forget(self, name: str) -> None:
        """Tell that the sandbox and its networks were seen gone; never raises and never starts a reaper."""
        with self._lock:
            if self._claims.pop(name, None) is None or self._link is None:
                return
            try:
                self._link.tell({"do": "forget", "name": name})
            except LinkLost:
                self._drop_link()  # what it held and we forgot is gone; the next expectation starts another one

    def status(self, name: str) -> str | None:
        """Return why the reaper destroyed the sandbox: ``disk_mb`` or ``lifetime``; ``None`` if it didn't.

        The answer is lost with the reaper that did it, and with `forget`.

        :raises ReaperUnavailable: no reaper answers.
        """
        with self._lock:
            if name not in self._claims or self._link is None:
                return None
            answer = self._ask({"do": "status", "name": name}).get("status")
            return answer if isinstance(answer, str) else None

    def forget_inherited(self) -> None:
        """In a forked child: let go of the parent's reaper, which must not wait for this process to end."""
        self._lock = threading.Lock()  # the old one may be held by a thread that doesn't exist here
        self._claims = {}
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def _known(self, name: str) -> Claim:
        claim = self._claims.get(name)
        if claim is None:
            problem = f"the reaper was not told to expect {name!r} by this process"
            raise ReaperUnavailable(problem)
        return claim

    def _tell_change(self, claim: Claim) -> None:
        self._claims[claim.name] = claim
        link = self._link
        if link is not None:
            try:
                link.tell({"do": "update", "claim": claim_to_wire(claim)})
            except LinkLost:
                self._drop_link()
        if self._link is None:
            self._start()

    def _ask_change(self, claim: Claim) -> None:
        self._claims[claim.name] = claim
        self._ask({"do": "update", "claim": claim_to_wire(claim)})

    def _ask(self, message: dict[str, object]) -> dict[str, object]:
        link = self._link
        if link is not None:
            try:
                return link.ask(message, self._answer_s)
            except LinkLost:
                self._drop_link()
        self._start()  # arming it with every claim has said a change; of what its predecessor did it knows nothing
        return {}

    def _start(self) -> Link:
        link = start(self._endpoint, self._answer_s)
        deadline = time.monotonic() + self._answer_s
        try:
            for claim in self._claims.values():
                link.ask({"do": "expect", "claim": claim_to_wire(claim)}, max(deadline - time.monotonic(), 0.0))
        except BaseException as error:
            link.abandon()
            if isinstance(error, LinkLost):
                problem = f"the reaper started and doesn't answer: {error}"
                raise ReaperUnavailable(problem) from error
            raise
        self._link = link
        return link

    def _drop_link(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.abandon()

    def _restore(self, name: str, before: Claim | None) -> None:
        if before is None:
            self._claims.pop(name, None)
        else:
            self._claims[name] = before

    def _forget_the_past(self) -> None:
        oldest = boot_clock() - _REMEMBERED_AFTER_DEADLINE_S
        for name in [claim.name for claim in self._claims.values() if claim.deadline < oldest]:
            del self._claims[name]


_reapers: dict[Endpoint, Reaper] = {}
_lock = threading.Lock()


def reaper_for(endpoint: Endpoint) -> Reaper:
    """Return this process's reaper for that engine; it starts with its first expectation."""
    address = endpoint.with_version("")  # one engine has one reaper, whether or not its version is known yet
    with _lock:
        if address not in _reapers:
            patience = ANSWER_S if address.ssh_command is None else ANSWER_THROUGH_SSH_S
            _reapers[address] = Reaper(address, answer_s=patience)
        return _reapers[address]


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    for reaper in _every_reaper:
        reaper.forget_inherited()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
