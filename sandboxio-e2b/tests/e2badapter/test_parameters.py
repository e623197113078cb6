"""Each parameter of the request is there for a reason: without it a row of the contract fails, or the sandbox is never given out."""

import contextlib
from collections.abc import Generator, Mapping
from typing import Any

import pytest
import sandboxio
from sandboxio import NetworkPolicy, PolicyNotEnforced
from sandboxio.planning import Enforcement, Plan
from sandboxio.port import Observation
from sandboxio_contract.rows import all_rows
from sandboxio_contract.run import Result, run_row
from sandboxio_contract.target import Target
from sandboxio_e2b.backend import E2BBackend
from sandboxio_e2b.sdk import Account

from .emulator.emulator import Emulator
from .emulator.ground import ground, target

pytestmark = [pytest.mark.network, pytest.mark.emulated, pytest.mark.filterwarnings("ignore::sandboxio.SandboxWarning")]
ROWS = {row.name: row for row in all_rows()}


def without(parameters: Mapping[str, Any], *paths: str) -> dict[str, Any]:
    left: dict[str, Any] = dict(parameters)
    for path in paths:
        name, _, inner = path.partition(".")
        if inner:
            left[name] = {key: value for key, value in left[name].items() if key != inner}
        else:
            left.pop(name, None)
    return left


@contextlib.contextmanager
def forgetting(monkeypatch: pytest.MonkeyPatch, *paths: str, believing: bool) -> Generator[None]:
    """Have an adapter that forgets parameters; with ``believing`` one that takes the provider's word for what it planned."""
    send, look = Account.create, E2BBackend.observe
    plans: dict[str, Plan] = {}
    provision = E2BBackend.provision

    async def create(self: Account, parameters: Mapping[str, Any]) -> Any:
        return await send(self, without(parameters, *paths))

    async def provisioned(self: E2BBackend, plan: Plan) -> str:
        sandbox_id = await provision(self, plan)
        plans[sandbox_id] = plan
        return sandbox_id

    async def observe(self: E2BBackend, sandbox_id: str) -> Observation | None:
        seen, plan = await look(self, sandbox_id), plans.get(sandbox_id)
        if seen is None or plan is None:
            return seen
        applied = {one.policy: one.requested for one in plan.items if isinstance(one, Enforcement)}
        applied |= {"network.ingress": None, "network.allow": applied.get("network.allow")}
        return Observation(
            seen.sandbox_id,
            plan.create_id,
            seen.state,
            dict(plan.spec.metadata),
            seen.created_at,
            seen.expires_at,
            applied,
        )

    with monkeypatch.context() as patched:
        patched.setattr(Account, "create", create)
        if believing:
            patched.setattr(E2BBackend, "provision", provisioned)
            patched.setattr(E2BBackend, "observe", observe)
        yield


def judged(emulator: Emulator, name: str) -> Result:
    seen = ground(emulator)
    try:
        return run_row(ROWS[name], Target(target(emulator), seen), "asyncio")
    finally:
        seen.release_network()


CONVICTED = [
    ("deny_denies", ("allow_internet_access", "network.deny_out")),
    ("an_allowlist_lets_nothing_else_through", ("network.deny_out",)),
    ("an_allowlist_lets_nothing_else_through", ("network.allow_out",)),
    ("everything_raises_after_the_lifetime", ("timeout",)),
    ("metadata_reaches_the_providers_labels", ("metadata.tenant_id",)),
    ("an_interrupted_creation_leaves_nothing", ("metadata.sandboxio_create",)),
]


@pytest.mark.parametrize(
    ("row", "paths"), CONVICTED, ids=lambda value: value if isinstance(value, str) else "+".join(value)
)
def test_an_adapter_that_forgets_it_and_believes_what_it_planned_is_convicted(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch, row: str, paths: tuple[str, ...]
) -> None:
    with forgetting(monkeypatch, *paths, believing=True):
        result = judged(emulator, row)
    assert result.status == "violated", result.evidence


def test_a_provider_that_begins_to_pause_at_the_end_is_convicted_where_kill_is_not_asked_for(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emulator.control, "on_timeout", "pause")
    with forgetting(monkeypatch, "lifecycle", believing=True):
        result = judged(emulator, "everything_raises_after_the_lifetime")
    assert result.status == "violated", result.evidence
    result = judged(emulator, "everything_raises_after_the_lifetime")
    assert result.status == "proven", result.evidence


READ_BACK = [
    ("allow_internet_access",),
    ("network.deny_out",),
    ("network.allow_public_traffic",),
    ("network",),
    ("metadata.sandboxio_managed",),
    ("metadata.sandboxio_create",),
    ("metadata.tenant_id",),
]


@pytest.mark.anyio
@pytest.mark.parametrize("paths", READ_BACK, ids="+".join)
async def test_what_was_forgotten_is_seen_when_it_is_read_back_and_nothing_is_left(
    emulator: Emulator, dsn: str, monkeypatch: pytest.MonkeyPatch, paths: tuple[str, ...]
) -> None:
    with forgetting(monkeypatch, *paths, believing=False), pytest.raises((PolicyNotEnforced, sandboxio.CreationError)):
        await sandboxio.create(dsn, metadata={"tenant_id": "a"})
    assert emulator.sights() == {}


@pytest.mark.anyio
async def test_a_server_that_drops_an_allowlist_gives_no_sandbox(
    emulator: Emulator, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with forgetting(monkeypatch, "network.allow_out", believing=False), pytest.raises(PolicyNotEnforced):
        await sandboxio.create(dsn, network=NetworkPolicy(allow=("198.51.100.7",)))
    assert emulator.sights() == {}


@pytest.mark.anyio
@pytest.mark.parametrize("paths", [(), ("idempotency_key",)], ids=["as it is", "without its key"])
async def test_a_lost_answer_makes_no_second_sandbox_because_of_the_idempotency_key(
    emulator: Emulator, dsn: str, monkeypatch: pytest.MonkeyPatch, paths: tuple[str, ...]
) -> None:
    emulator.faults.strike("504 after commit", lambda call: call.path == "/v2/sandboxes" and call.method == "POST")
    before = len(emulator.control.ended)
    with forgetting(monkeypatch, *paths, believing=False):
        made = await sandboxio.create(dsn)
    there = len(emulator.sights())
    await made.kill()
    for sandbox_id in emulator.sights():
        emulator.end(sandbox_id)
    assert there == (2 if paths else 1)
    assert len(emulator.control.ended) - before == there
