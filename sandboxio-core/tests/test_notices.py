"""A warning names the caller's own line, however the call was made."""

import warnings
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import sandboxio
from sandboxio import Enforcement, IsolationTier, OrphanedSandboxWarning, Plan, Sandbox, WeakEnforcementWarning

from .stub import StubBackend, registered, stalling

pytestmark = pytest.mark.anyio

HERE = str(Path(__file__))


def weaken(plan: Plan) -> Plan:
    items = [
        replace(item, residuals=("a hole",))
        if isinstance(item, Enforcement) and item.policy == "network.egress"
        else item
        for item in plan.items
    ]
    return replace(plan, items=tuple(items))


async def awaited(target: str) -> Sandbox:
    return await sandboxio.create(target)


async def entered(target: str) -> Sandbox:
    async with sandboxio.create(target) as sandbox:
        return sandbox


@pytest.mark.parametrize("make", [awaited, entered])
async def test_a_warning_of_create_points_to_the_line_that_creates(
    stub: StubBackend, target: str, make: Callable[[str], Awaitable[Sandbox]]
) -> None:
    """NET-11, ISO-03."""
    stub.change_plan = weaken
    with pytest.warns(WeakEnforcementWarning, match="a hole") as warned:
        await (await make(target)).kill()
    assert {Path(warning.filename).name for warning in warned} == {Path(HERE).name}
    line = Path(HERE).read_text().splitlines()[warned[0].lineno - 1]
    assert "sandboxio.create(target)" in line


async def test_a_warning_of_an_unknown_tier_points_there_too() -> None:
    stub = registered(tier=IsolationTier.UNKNOWN)
    with pytest.warns(sandboxio.UnverifiedIsolationWarning) as warned:
        await (await awaited(f"{stub.info.name}://")).kill()
    assert warned[0].filename == HERE


async def test_a_warning_of_an_orphan_points_to_the_line_that_kills(
    stub: StubBackend, target: str, short_grace: float
) -> None:
    sandbox = await sandboxio.create(target)
    stub.gates.at("destroy", "before", stalling)
    with pytest.warns(OrphanedSandboxWarning) as warned:
        await sandbox.kill()
    assert warned[0].filename == HERE
    stub.gates.clear()
    await sandbox.kill()


async def test_the_same_warning_is_shown_once_for_each_line_of_the_caller(stub: StubBackend, target: str) -> None:
    stub.change_plan = weaken
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("default")
        for _ in range(2):
            await (await awaited(target)).kill()
        await (await sandboxio.create(target)).kill()
    assert len(warned) == 2
