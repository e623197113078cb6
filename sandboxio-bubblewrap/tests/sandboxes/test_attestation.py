"""A sandbox that is weaker than its plan is destroyed before anything runs in it, whatever made it so."""

from typing import Any

import anyio
import pytest
import sandboxio
from sandboxio.planning import Plan
from sandboxio_bubblewrap import command, state

from .ground import groups_of, until

pytestmark = [pytest.mark.bubblewrap, pytest.mark.anyio]

DISK = str(256 * 2**20)


@pytest.mark.parametrize(
    ("left_out", "told"),
    [
        (("--unshare-net",), "network.egress='allow'"),
        (("--unshare-ipc",), "ipc namespace"),
        (("--unshare-cgroup",), "cgroup namespace"),
        (("--seccomp", str(command.FILTER_FD)), "no system call filter"),
        (("--size", DISK), "disk="),
    ],
)
async def test_what_bwrap_was_not_told_is_seen(
    left_out: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    order, made = command.order, list[str]()

    def weakened(plan: Plan) -> dict[str, Any]:
        full = order(plan)
        made.append(plan.create_id)
        words: list[Any] = full["argv"]  # type: ignore[assignment]
        at = next(i for i in range(len(words)) if tuple(words[i : i + len(left_out)]) == left_out)
        return {**full, "argv": words[:at] + words[at + len(left_out) :]}

    monkeypatch.setattr(command, "order", weakened)
    with pytest.raises(sandboxio.PolicyNotEnforced) as refused:
        await sandboxio.create("bubblewrap://")
    assert told in str(refused.value)
    assert await anyio.to_thread.run_sync(until, lambda: (groups_of(made[0]), state.read(made[0])) == ([], None))


@pytest.mark.parametrize(("cap", "policy"), [("memory", "memory"), ("pids", "pids"), ("quota_us", "cpu")])
async def test_a_control_group_with_another_cap_is_seen(cap: str, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    order = command.order

    def loosened(plan: Plan) -> dict[str, Any]:
        full = order(plan)
        caps: dict[str, int] = full["caps"]  # type: ignore[assignment]
        return {**full, "caps": {**caps, cap: 2 * caps[cap]}}

    monkeypatch.setattr(command, "order", loosened)
    with pytest.raises(sandboxio.PolicyNotEnforced, match=f"{policy}="):
        await sandboxio.create("bubblewrap://")
