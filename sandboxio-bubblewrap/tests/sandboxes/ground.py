"""What tests of real sandboxes share: other owners, other users, and what this machine holds."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from sandboxio_bubblewrap.cgroups import CONTROLLERS, MOUNTED, PREFIX

PATIENCE = 30.0
"""Seconds after which a test fails instead of waiting; this machine may be busy."""
STRANGER = 47_110
"""A user that is nobody's."""
# The running Python, and what it imports, may lie where only root gets to: seen by this process and its children alone,
# such directories are made anew with a way through.
_BECOME = """
set -e
for place in {closed}; do
    held=$(mktemp -d)
    mount --bind "$place" "$held"
    parent=$(dirname "$place")
    mount -t tmpfs -o mode=0755 tmpfs "/$(echo "$parent" | cut -d/ -f2)"
    mkdir -p "$place"
    mount --move "$held" "$place"
    rmdir "$held"
done
exec setpriv --reuid={uid} --regid={uid} --clear-groups --bounding-set=-all --no-new-privs "$@"
"""


def until(question: Callable[[], bool], within: float = PATIENCE) -> bool:
    """Ask until it is so; false if it never was."""
    end = time.monotonic() + within
    while not question():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def groups_of(name: str) -> list[Path]:
    """Return the control groups of a sandbox, wherever they are."""
    # Groups of others come and go meanwhile.
    return [Path(at, one) for at, folders, _ in os.walk(MOUNTED) for one in folders if one == f"{PREFIX}{name}"]


def as_stranger(argv: Sequence[str], uid: int = STRANGER) -> list[str]:
    """Return the command by which root runs a program as an ordinary user."""
    prefix = Path(sys.base_prefix)
    closed = [str(prefix)] if any(not one.stat().st_mode & 0o001 for one in prefix.parents) else []
    script = _BECOME.format(closed=" ".join(closed) or '""', uid=uid)
    if not closed:
        script = script[script.index("exec setpriv") :]
    return ["unshare", "--mount", "sh", "-c", script, "sh", *argv]


@contextmanager
def given_group(uid: int = STRANGER) -> Generator[str]:
    """Have a group of version 1 that root gives to a user; yields its path below each controller."""
    path = f"sandboxio-given-{os.getpid()}-{uid}"
    places = [MOUNTED / name / path for name in CONTROLLERS]
    for place in places:
        place.mkdir()
        os.chown(place, uid, uid)
        os.chown(place / "cgroup.procs", uid, uid)
    try:
        yield f"/{path}"
    finally:
        for place in places:
            for left in place.glob(f"{PREFIX}*"):
                left.rmdir()
            place.rmdir()
        shutil.rmtree(f"/tmp/sandboxio-bubblewrap-{uid}", ignore_errors=True)


OWNER = """
import json, os, sys, anyio, sandboxio
async def main():
    made = [await sandboxio.create(sys.argv[1], metadata={"owner": sys.argv[2]}) for _ in range(int(sys.argv[3]))]
    print(json.dumps([one.id for one in made]), flush=True)
    if len(sys.argv) > 4 and os.fork() == 0:
        os.close(1)
    await anyio.sleep(120)
anyio.run(main)
"""


@contextmanager
def owner(
    mark: str, count: int = 1, *, fork: bool = False, dsn: str = "bubblewrap://", uid: int | None = None
) -> "Generator[subprocess.Popen[str]]":
    """Run another process that owns sandboxes; its first line of output are their ids."""
    argv = [sys.executable, "-c", OWNER, dsn, mark, str(count), *(["fork"] if fork else [])]
    command = argv if uid is None else as_stranger(argv, uid)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
