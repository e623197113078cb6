"""The row about a synchronous program that is interrupted, forks and ends."""

import subprocess
from typing import Any

from sandboxio_contract.rows import row
from sandboxio_contract.rows.another import another, answer_of
from sandboxio_contract.rows.inside import GRACE, SLACK, gone, held, need_shell
from sandboxio_contract.target import LIFETIME, Target
from sandboxio_contract.verdict import Finding, Inconclusive, Part, require, summed


@row("SYN-01", within=150, world=True)
async def a_synchronous_program_leaves_nothing(target: Target) -> Finding:
    """Ctrl-C while a command runs ends its tree, a forked child gets no hold of the sandbox, and the end of the program kills it."""
    async with target.sandbox() as sb:
        await need_shell(sb)
    async with held(another("sandboxio_contract.synchronous", _order(target))) as process:
        said = await target.look(_answer, process)
        there = await target.look(target.ground.exists, said["id"])
        await target.look(process.communicate, "\n", GRACE + SLACK)
    ended = await gone(target, said["id"])
    if not ended:
        await target.look(target.ground.lose, said["id"])
    parts = [_interrupted(said["interrupted"]), _forked(said["forked"])]
    if not there:
        raise Inconclusive("the sandbox of another process can't be seen, so its end proves nothing")
    require(ended, "a program that ended without a kill left its sandbox alive")
    return summed([*parts, Part("exit", "proven", "it is gone")])


def _interrupted(found: dict[str, Any]) -> Part:
    require(found["raised"] == "KeyboardInterrupt", f"Ctrl-C while run() waited raised {found['raised']}")
    require(not found["beats"], "after a Ctrl-C what the command had started lived on")
    ended = "sandbox" if found["beats"] is None else "tree"
    return Part("Ctrl-C", "proven", f"KeyboardInterrupt, and the command's {ended} is gone")


def _forked(found: dict[str, Any]) -> Part:
    told = found["told"]
    require(told is not None, "a forked child that used the sandbox got no answer")
    taken = [name for name, error in told.items() if error is None]
    require(not taken, f"a forked child was allowed {' and '.join(taken)} of its parent's sandbox")
    require(found["lives"], "the end of a forked child ended its parent's sandbox")
    return Part("fork", "proven", f"told {told['run']}; the sandbox lived on")


def _order(target: Target) -> dict[str, Any]:
    return {
        "dsn": target.dsn,
        "metadata": dict(target.mark),
        "timeout": LIFETIME,
        "register": dict(target.register),
        "path": list(target.path),
    }


def _answer(process: "subprocess.Popen[str]") -> dict[str, Any]:
    return answer_of(process, late="the program said nothing", ended="the program ended before it had said anything")
