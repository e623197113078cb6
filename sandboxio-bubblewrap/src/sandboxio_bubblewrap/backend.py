"""The bubblewrap backend: sandboxes of this machine's kernel, each a child of this process's warden."""

import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import anyio
from anyio import to_thread
from sandboxio.agent.session import AgentUnfit
from sandboxio.errors import CapabilityNotSupported, SandboxError
from sandboxio.planning import Plan
from sandboxio.port import Facts, Observation, Progress, Session
from sandboxio.spec import SandboxSpec

from sandboxio_bubblewrap import command, errors, facts, planning, state, syscalls, tarball
from sandboxio_bubblewrap.cgroups import kill as kill_groups
from sandboxio_bubblewrap.config import BubblewrapConfig
from sandboxio_bubblewrap.facts import Machine
from sandboxio_bubblewrap.handle import handle
from sandboxio_bubblewrap.info import INFO
from sandboxio_bubblewrap.observation import inside, observe
from sandboxio_bubblewrap.session import WITH_OWNER, open_session
from sandboxio_bubblewrap.stream import SocketStream

LOOK = 0.5
"""Seconds between two looks whether anybody still waits for a sandbox that is being made."""
MAX_SAID = 2000


@dataclass
class Started:
    """A sandbox that waits for its agent's source."""

    stream: SocketStream
    pid: int
    expires_at: float
    said: int
    """A descriptor of what its first processes wrote to stderr."""

    def told(self) -> str:
        """Return the beginning of that."""
        return _text(self.said)

    async def aclose(self) -> None:
        """Let go of it: it ends."""
        os.close(self.said)
        await self.stream.aclose()


class BubblewrapBackend:
    """This machine; see `sandboxio.port.Backend`."""

    def __init__(self, config: BubblewrapConfig) -> None:
        self.info = INFO
        self._config = config
        self._started: dict[str, Started] = {}

    async def probe(self, spec: SandboxSpec) -> Facts:
        """Look at this machine and the template."""
        return await to_thread.run_sync(facts.read, spec, abandon_on_cancel=True)

    def plan(self, spec: SandboxSpec, facts: Facts) -> Plan:
        """Translate a spec; pure."""
        return planning.make_plan(spec, facts)

    async def prepare(self, plan: Plan, progress: Progress) -> bool:
        """Unpack a template that is one file."""
        machine = cast("Machine", plan.parameters["machine"])
        if machine.roots is not None:
            return False
        progress(f"unpacking {plan.spec.template}")
        await to_thread.run_sync(tarball.unpack, Path(str(plan.spec.template)), abandon_on_cancel=True)
        return True

    async def provision(self, plan: Plan) -> str:
        """Start bwrap; the agent inside waits for its source."""
        abandoned = threading.Event()
        try:
            return await to_thread.run_sync(self._make, plan, abandoned, abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            abandoned.set()
            raise

    async def find(self, create_id: str) -> str | None:
        """Return the id of the sandbox of this name, which is the same."""
        return create_id if await self.observe(create_id) is not None else None

    async def observe(self, sandbox_id: str) -> Observation | None:
        """Return what the kernel says of one sandbox.

        :raises NotStarted: it ended before it was opened; the text says why.
        """
        seen = await to_thread.run_sync(_look, sandbox_id, abandon_on_cancel=True)
        started = self._started.get(sandbox_id)
        if seen is None and started is not None:
            raise errors.NotStarted(started.told())
        return seen

    async def open(self, sandbox_id: str, plan: Plan | None = None) -> Session:
        """Open the one session.

        :raises CapabilityNotSupported: it is no first opening.
        """
        if plan is None:
            raise CapabilityNotSupported(
                f"connect() is not offered: {WITH_OWNER}, and it has no second way in",
                hint="share the Sandbox object, or use Docker for sandboxes that several processes use",
            )
        started = self._started.pop(sandbox_id)
        try:
            machine = cast("Machine", plan.parameters["machine"])
            same = machine.roots is not None and machine.roots.python is not None
            return await open_session(
                started.stream, started.expires_at, started.pid, _interfaces(plan), same_python=same
            )
        except AgentUnfit as unfit:
            raise AgentUnfit(f"{unfit.reason} {started.told()}") from unfit
        finally:
            os.close(started.said)

    async def list(self, labels: Mapping[str, str]) -> AsyncIterator[Observation]:
        """Iterate over the sandboxes of this user, whichever process made them."""
        for seen in await to_thread.run_sync(_listed, abandon_on_cancel=True):
            if labels.items() <= seen.labels.items():
                yield seen

    async def destroy(self, sandbox_id: str) -> None:
        """End a sandbox; its warden removes what belonged to it."""
        started = self._started.pop(sandbox_id, None)
        if started is not None:
            await started.aclose()
        await to_thread.run_sync(_destroy, sandbox_id, abandon_on_cancel=True)

    def map_error(self, error: BaseException) -> SandboxError | None:
        """Translate what bwrap, the warden or the kernel said."""
        return errors.map_error(error)

    async def aclose(self) -> None:
        """Let go of sandboxes that were never opened: they end."""
        for name in list(self._started):
            started = self._started.pop(name, None)
            if started is not None:
                await started.aclose()

    def _make(self, plan: Plan, abandoned: threading.Event) -> str:
        order = command.order(plan)
        program = syscalls.filter_program(syscalls.machine())
        assert program is not None
        ours, its = socket.socketpair()
        said, filtered = _memory("said"), _memory("filter", program)
        try:
            try:
                handle().start(order, (its.fileno(), said, filtered))
            finally:
                its.close()  # so that the end of the other side's first process is the end of ours
                os.close(filtered)
            pid = _until_ready(plan.create_id, ours, abandoned)
            if plan.parameters["linked"]:
                handle().link(plan.create_id, pid)
            self._started[plan.create_id] = Started(SocketStream(ours), pid, _expiry(plan.create_id), said)
            if abandoned.is_set():
                del self._started[plan.create_id]
                raise errors.NotStarted("nobody waits for it any more")
        except BaseException as error:
            text = _text(said)
            ours.close()
            os.close(said)
            handle().end(plan.create_id)
            if isinstance(error, errors.NotStarted):
                raise errors.NotStarted(text) from None
            raise
        return plan.create_id


def _interfaces(plan: Plan) -> frozenset[str] | None:
    """Return the network interfaces that the sandbox must see; ``None``: this machine's."""
    if plan.parameters["shares_network"]:
        return None
    return frozenset({"lo", "eth0"} if plan.parameters["linked"] else {"lo"})


def _text(descriptor: int) -> str:
    return os.pread(descriptor, MAX_SAID, 0).decode("utf-8", "replace").strip()


def _memory(name: str, content: bytes = b"") -> int:
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    if content:
        os.write(descriptor, content)
        os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _until_ready(name: str, ours: socket.socket, abandoned: threading.Event) -> int:
    """Wait until bwrap has made everything and become the program that the agent comes to, and return that process.

    :raises NotStarted: it ended before, or nobody waits any more.
    """
    ours.settimeout(LOOK)
    while not abandoned.is_set():
        try:
            word = ours.recv(1)
        except TimeoutError:
            continue
        record = state.read(name)
        pid = inside(record) if record is not None and word == command.READY else None
        if pid is None:
            break
        return pid
    raise errors.NotStarted


def _expiry(name: str) -> float:
    record = state.read(name)
    return float(record["expires"]) if record else 0.0


def _look(name: str) -> Observation | None:
    record = state.read(name)
    return None if record is None or not state.is_kept(record) else observe(record)


def _listed() -> list[Observation]:
    state.sweep()
    return [seen for record in state.records() if (seen := observe(record)) is not None]


def _destroy(name: str) -> None:
    if handle().end(name):
        return
    record = state.read(name)
    if record is None:
        return
    if state.is_kept(record):
        _kill(record)
    else:
        state.sweep()


def _kill(record: state.Record) -> None:
    """End a sandbox of another process of this user: all that is in its groups but bwrap, or that too; its warden does the rest."""
    pid, start = record["first"]
    if not kill_groups(record["groups"], spare=pid):
        return
    with suppress(ProcessLookupError, OSError):
        descriptor = os.pidfd_open(pid)
        try:
            if state.start_of(pid) == start:  # the descriptor holds whichever process it was opened for
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)
