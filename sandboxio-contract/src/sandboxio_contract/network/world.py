"""What network rows are judged in: a canary kept by a supervisor. Here the one beside the host's own network."""

import contextlib
import fcntl
import json
import os
import secrets
import select
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from sandboxio_contract.network import hostworld
from sandboxio_contract.network.addresses import CanaryAddresses, read_host
from sandboxio_contract.network.checks import LATE, Checks
from sandboxio_contract.network.plan import Ground, Neighbour, plan_checks, with_local
from sandboxio_contract.network.reason import Code, NotProvable
from sandboxio_contract.network.witness import Witness, decode

DIRECTORY = Path("/run/sandboxio-contract")
START, STOP = 30.0, 30.0
_ENTRY = "import sys; sys.path[:0] = [sys.argv[1]]; from sandboxio_contract.network.supervisor import main; main()"


class World:
    """A canary with its supervisor. A context manager; leaving it puts everything back, and so does the owner's death."""

    def __init__(self, configuration: Mapping[str, object], lock: int | None = None) -> None:
        self.run_id = str(configuration["run"])
        self._secret = bytes.fromhex(str(configuration["secret"]))
        self._supervisor = _spawn(lock)
        try:
            self._say(json.dumps(dict(configuration)).encode())
            self._ground = _ground(cast("dict[str, Any]", self._hear(START)["ready"]), self._secret)
        except BaseException:
            self.close()
            raise

    @property
    def addresses(self) -> CanaryAddresses:
        """Return the addresses that this world's canary answers for."""
        return self._ground.addresses

    @property
    def pid(self) -> int:
        """Return the supervisor's process id."""
        return self._supervisor.pid

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Tear down."""
        self.close()

    def checks(self, *, neighbour: Neighbour | None = None, late: bool = False, only: Sequence[str] = ()) -> Checks:
        """Return all checks of this world under a fresh token.

        :param neighbour: another sandbox, or a container of the suite, with a listener that is alive now.
        :param late: try only after two seconds, for what opens late.
        :param only: names to keep; all of them if empty.
        :raises NotProvable: the neighbour's address is not one of this machine, or the canary is dead.
        """
        planned = plan_checks(self._ground, self._local(), neighbour)
        if only:
            planned = replace(planned, items=tuple(one for one in planned.items if one.name in only), missing={})
        return replace(planned, baseline=self.witness().drops, delay=LATE if late else 0.0)

    def refreshed(self, checks: Checks) -> Checks:
        """Return the same checks for a control: under a fresh token, and with the addresses the host has by now."""
        return with_local(checks.renewed(), self._local())

    def witness(self) -> Witness:
        """Return what the canary's side saw since the start.

        :raises NotProvable: the supervisor, a server or the guard is gone; their silence means nothing then.
        """
        self._say(b"witness")
        return decode(cast("dict[str, object]", self._hear(STOP)["witness"]))

    def close(self) -> None:
        """Tear down and wait for its end; nothing happens the second time."""
        process = self._supervisor
        if process.stdin is None or process.stdin.closed:
            return
        with contextlib.suppress(OSError):
            process.stdin.write(b"close\n")
            process.stdin.flush()
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(STOP)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def _local(self) -> tuple[str, ...]:
        """Return the addresses by which a gateway or the host may be named."""
        return ("*",)

    def _say(self, line: bytes) -> None:
        assert self._supervisor.stdin is not None
        try:
            self._supervisor.stdin.write(line + b"\n")
            self._supervisor.stdin.flush()
        except (OSError, ValueError) as error:
            raise NotProvable("canary", "the canary's supervisor is gone") from error

    def _hear(self, seconds: float) -> dict[str, object]:
        out = self._supervisor.stdout
        assert out is not None
        ready, _, _ = select.select([out], [], [], seconds)
        line = out.readline() if ready else b""
        if not line:
            raise NotProvable(
                "canary", "the canary's supervisor is gone" if ready else "the supervisor does not answer"
            )
        message = cast("dict[str, object]", json.loads(line))
        if "reason" in message:
            raise NotProvable(cast("Code", message["code"]), str(message["reason"]))
        return message


class HostCanary(World):
    """The canary beside the host's own network, for containers of a local engine. One at a time on a machine; needs root."""

    @classmethod
    def start(cls, *, wait: float = 120.0) -> Self:
        """Set everything up, guard first.

        :param wait: seconds to wait for another run on this machine to end.
        :raises NotProvable: it can't be set up, and no probe was sent.
        """
        if os.geteuid() != 0:
            raise NotProvable("privilege", "the host canary needs root: it adds a guarded link to the host's network")
        with _locked(wait) as lock:
            return cls(configuration("host"), lock)

    def _local(self) -> tuple[str, ...]:
        return tuple(one for one in read_host().local if not one.startswith(("127.", "fe80:")) and one != "::1")


def cleanup() -> bool:
    """Remove what a killed supervisor left on this machine; the command `sandboxio-contract cleanup` calls this.

    Returns whether it was done: not while a run is alive, which takes itself down.

    :raises NotProvable: with code `privilege`, without root.
    """
    if os.geteuid() != 0:
        raise NotProvable("privilege", "cleaning up the host's network needs root")
    try:
        with _locked(0.0):
            hostworld.remove_containers("")
            hostworld.sweep(DIRECTORY)
    except NotProvable as error:
        if error.code == "busy":
            return False
        raise
    return True


def configuration(world: str) -> dict[str, object]:
    """Return what a supervisor is told to build, with a fresh secret."""
    return {"world": world, "run": secrets.token_hex(6), "secret": secrets.token_hex(32), "directory": str(DIRECTORY)}


@contextlib.contextmanager
def _locked(wait: float) -> Generator[int]:
    """Hold the machine's lock; a supervisor that inherits it holds it until its tear-down is done."""
    try:
        DIRECTORY.mkdir(mode=0o755, exist_ok=True)
        lock = os.open(DIRECTORY / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise NotProvable("privilege", f"the suite can't keep its lock in {DIRECTORY}: {error.strerror}") from error
    end = time.monotonic() + wait
    try:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= end:
                    raise NotProvable("busy", "another run of the suite holds this machine's canary") from error
                time.sleep(0.05)
        yield lock
    finally:
        os.close(lock)


def _spawn(lock: int | None) -> "subprocess.Popen[bytes]":
    root = str(Path(__file__).resolve().parents[2])
    return subprocess.Popen(
        [sys.executable, "-I", "-c", _ENTRY, root],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        pass_fds=(lock,) if lock is not None else (),
        cwd="/",
    )


def _ground(facts: dict[str, Any], secret: bytes) -> Ground:
    found = facts["addresses"]
    addresses = CanaryAddresses(
        found["v4"], found["v6"], tuple(found["link4"]), found["metadata"], tuple(found["resolvers"])
    )
    return Ground(secret, addresses, facts["port"], facts["ipv6_missing"], tuple(facts["unix"]))
