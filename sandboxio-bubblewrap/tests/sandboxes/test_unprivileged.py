"""An ordinary user: with a control group that root gave it, and without one."""

import os
import subprocess
import sys

import pytest
from sandboxio_bubblewrap.cgroups import MOUNTED

from .ground import as_stranger, given_group

pytestmark = [
    pytest.mark.bubblewrap,
    pytest.mark.skipif(os.geteuid() != 0, reason="root has to become the ordinary user"),
]

WORKS = """
import sys, anyio, sandboxio
from sandboxio import NetworkPolicy, ResourceLimitExceeded, Resources
async def main():
    async with sandboxio.create(sys.argv[1], resources=Resources(memory_mb=64, pids=32)) as sb:
        print((await sb.run("id -u; ls /home")).stdout.split())
        try:
            await sb.run(["python3", "-c", "held = b'x' * 200_000_000"])
        except ResourceLimitExceeded as error:
            print(error.limit, error.value)
        print([one.sandbox_id == sb.id for one in await sandboxio.list_managed(sys.argv[1])])
        # The files of its own control group belong to this user, on this machine as inside.
        print((await sb.run("echo 1000 > /sys/fs/cgroup/pids/pids.max")).exit_code != 0)
anyio.run(main, backend=sys.argv[2])
"""
REFUSED = """
import sys, anyio, sandboxio
from sandboxio import NetworkPolicy, Resources
async def main():
    for options in ({}, {"resources": Resources(memory_mb=64)}, {"timeout": 5}, {"env": {"A": "b"}}):
        try:
            async with sandboxio.create("bubblewrap://", **options):
                print("made")
        except sandboxio.BackendUnavailable as error:
            print(error.code, "chown" in error.hint or "Delegate" in error.hint)
anyio.run(main)
"""


def ran(code: str, *arguments: str) -> str:
    command = as_stranger([sys.executable, "-c", code, *arguments])
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif((MOUNTED / "cgroup.controllers").exists(), reason="the group is made as version 1 has them")
@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_with_a_group_that_was_given_to_it_everything_holds(loop: str) -> None:
    with given_group() as path:
        assert ran(WORKS, f"bubblewrap://?cgroup={path}", loop) == ("['1000', 'sandbox']\nmemory_mb 64\n[True]\nTrue\n")


def test_without_one_every_creation_is_refused_with_the_fix() -> None:
    assert ran(REFUSED) == "SBX_E1205 True\n" * 4
