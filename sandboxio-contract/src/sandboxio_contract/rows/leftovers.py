"""The last row: what is left of the whole run."""

from sandboxio_contract.rows import row
from sandboxio_contract.rows.inside import GRACE, left_over
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, proven, require


@row("TRD-07")
async def nothing_is_left_of_the_run(target: Target) -> Finding:
    """Neither by label nor by id does the provider hold anything that this run made, be it one sandbox only."""
    async with target.sandbox():
        pass  # a run of this row alone must not prove that nothing is left of nothing
    left = await left_over(target, target.mark, within=GRACE)
    require(not left, f"left behind: {', '.join(map(str, left))}")
    alive = [one for one in sorted(target.made) if await target.look(target.ground.exists, one)]
    require(not alive, f"left behind: {', '.join(alive)}")
    return proven(f"nothing carries the run's label, none of {len(target.made)} known ids exists")
