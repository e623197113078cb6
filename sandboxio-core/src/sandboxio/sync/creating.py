"""`create_sync`, `connect_sync`, and the end of what is alive when the interpreter ends."""

import atexit
import os
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import wait
from functools import partial
from typing import TYPE_CHECKING

from pydantic import SecretStr

from sandboxio.api import connect, create
from sandboxio.audit import AuditConfig
from sandboxio.isolation import IsolationTier
from sandboxio.loop_thread import Hold
from sandboxio.pending import Pending
from sandboxio.policy import NetworkPolicy, Resources
from sandboxio.request import UNSAID, Unsaid
from sandboxio.sandbox import Sandbox
from sandboxio.sync.sandbox import SyncSandbox
from sandboxio.sync.waiting import Waiter, refuse_in_loop, shared
from sandboxio.teardown import teardown_grace

if TYPE_CHECKING:
    from sandboxio.target import BackendConfig

_alive: "weakref.WeakKeyDictionary[Sandbox, Hold]" = weakref.WeakKeyDictionary()


def create_sync(
    target: "str | BackendConfig | None" = None,
    *,
    template: str | None = None,
    resources: Resources | None = None,
    network: NetworkPolicy | None = None,
    env: Mapping[str, str] | None = None,
    secrets: Mapping[str, str | SecretStr] | None = None,
    timeout: "float | Unsaid" = UNSAID,
    metadata: Mapping[str, str] | None = None,
    require_isolation: IsolationTier | None = None,
    redact_output: bool = False,
    audit: AuditConfig | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> SyncSandbox:
    """Make a sandbox now: ``with sandboxio.create_sync() as sb``, or ``sb = sandboxio.create_sync()`` and ``sb.kill()``.

    Parameters and errors are those of `sandboxio.create`. Ctrl-C while it waits leaves nothing behind.

    :param on_progress: is called in the loop's thread, and must not use a sandbox there.
    :raises ConfigurationError: also where this thread runs an event loop: use `create` there.
    """
    refuse_in_loop("await sandboxio.create(…)")
    creation = create(
        target,
        template=template,
        resources=resources,
        network=network,
        env=env,
        secrets=secrets,
        timeout=timeout,
        metadata=metadata,
        require_isolation=require_isolation,
        redact_output=redact_output,
        audit=audit,
        on_progress=on_progress,
    )
    return _had("await sandboxio.create(…)", creation, SyncSandbox.kill)


def connect_sync(
    target: "str | BackendConfig | None",
    sandbox_id: str,
    *,
    network: NetworkPolicy | None = None,
    resources: Resources | None = None,
    require_isolation: IsolationTier | None = None,
    metadata: Mapping[str, str] | None = None,
    audit: AuditConfig | None = None,
) -> SyncSandbox:
    """Use a sandbox that runs: ``with sandboxio.connect_sync(target, sandbox_id) as sb``; leaving the block kills it.

    Parameters and errors are those of `sandboxio.connect`. Ctrl-C while it waits leaves the sandbox as it was.

    :raises ConfigurationError: also where this thread runs an event loop: use `connect` there.
    """
    form = "await sandboxio.connect(…)"
    refuse_in_loop(form)
    connection = connect(
        target,
        sandbox_id,
        network=network,
        resources=resources,
        require_isolation=require_isolation,
        metadata=metadata,
        audit=audit,
    )
    return _had(form, connection, SyncSandbox.detach)


def _had(form: str, pending: Pending, undo: Callable[[SyncSandbox], None]) -> SyncSandbox:
    """Wait for a sandbox in the loop.

    :param undo: what is done with one that nobody gets.
    """
    waiter = Waiter(shared.hold())
    made: list[SyncSandbox] = []

    async def begin() -> None:
        sandbox = await pending
        made.append(SyncSandbox(waiter, sandbox))
        _alive[sandbox] = waiter.hold

    try:
        waiter.call(form, begin)
    except BaseException:
        for sandbox in made:  # a Ctrl-C came between its end and its return
            undo(sandbox)
        waiter.hold.release()
        raise
    return made[0]


def _end_all() -> None:
    """Kill what is alive and was not given up, all at once; the adapter's own means end what does not end in time."""
    alive = [sandbox for ref in _alive.keyrefs() if (sandbox := ref())]  # at once: others may still make some
    ending = [
        hold.thread.submit(partial(sandbox.__aexit__, None, None, None)).ended
        for sandbox in alive
        if (hold := _alive.get(sandbox)) and not hold.released
    ]
    wait(ending, timeout=2 * teardown_grace())


atexit.register(_end_all)
# What the process that forked holds is its own to end, and in the way of ending what the child made.
os.register_at_fork(after_in_child=_alive.clear)
