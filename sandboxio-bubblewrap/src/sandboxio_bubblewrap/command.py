"""What a sandbox is started by: the words for bwrap, and the order for the warden."""

import os
import secrets
import time
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, cast

from sandboxio.agent.bootstrap import agent_argv
from sandboxio.planning import Plan

from sandboxio_bubblewrap import network, rootfs, state
from sandboxio_bubblewrap.cgroups import Home
from sandboxio_bubblewrap.facts import Machine

FIRST_USER, USERS = 2**30, 2**30
"""Of these numbers root's sandboxes get one each, at random: nobody else has them."""
READY = b"!"
_SAY = f"import posix\nposix.write(1, {READY!r})"
"""What the first process says before it becomes the agent: bwrap has made everything then."""
FILTER_FD = 3
"""Where the filter is, see `warden.FIXED`."""


def order(plan: Plan) -> dict[str, object]:
    """Return what the warden is told."""
    parameters = plan.parameters
    machine, groups = cast("Machine", parameters["machine"]), cast("tuple[str, ...]", parameters["groups"])
    home = cast("Home", machine.home)
    created = time.time()
    uid = FIRST_USER + secrets.randbelow(USERS) if machine.own_users else None
    return {
        "name": plan.create_id,
        "version": home.version,
        "folders": home.folders,
        "groups": groups,
        "caps": parameters["caps"],
        "limits": parameters["limits"],
        "lifetime": plan.spec.timeout,
        "uid": uid,
        "argv": _argv(plan, machine, home.version, groups),
        "record": {
            "name": plan.create_id,
            "created": created,
            "expires": created + plan.spec.timeout,
            "labels": dict(plan.spec.metadata),
            "version": home.version,
            "groups": groups,
            "uid": os.geteuid() if uid is None else uid,
            "network": network.chosen(cast("list[str] | None", parameters["allow"])) if parameters["linked"] else None,
        },
    }


def _argv(plan: Plan, machine: Machine, version: int, groups: tuple[str, ...]) -> list[rootfs.Argument]:
    program, roots = machine.program, machine.roots
    assert roots is not None  # it was prepared
    parameters: Any = plan.parameters
    words: list[rootfs.Argument] = [
        {"source": program.folder, "below": str(Path(program.path).relative_to(program.folder))},
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup"),
        *([] if parameters["shares_network"] else ["--unshare-net"]),
        *("--uid", str(rootfs.UID), "--gid", str(rootfs.UID), "--disable-userns", "--hostname", "sandbox"),
        *("--cap-drop", "ALL", "--die-with-parent", "--new-session", "--as-pid-1"),
        *("--seccomp", str(FILTER_FD), "--clearenv"),
    ]
    for name, value in {"PATH": roots.path, "HOME": rootfs.HOME, "USER": "sandbox", "LANG": "C.UTF-8"}.items():
        words += ["--setenv", name, value]
    words += rootfs.arguments(roots, str(etc_folder()), parameters["disk_mb"], parameters["shm_mb"])
    if parameters["shares_network"] or (parameters["linked"] and parameters["allow"] is None):
        words += _resolvers(roots)
    words += _counters(version, groups)
    argv = agent_argv()
    return [*words, "--", roots.python or argv[0], *argv[1:-1], f"{_SAY}\n{argv[-1]}"]


def _resolvers(roots: rootfs.Roots) -> list[rootfs.Argument]:
    """Show it the resolvers that it may reach, where it has a place for them."""
    places = [source for source, to in roots.binds if to == "/etc"]
    if roots.of_template and not any(Path(source, "resolv.conf").is_file() for source in places):
        return []
    content = "".join(f"nameserver {address}\n" for address in network.resolvers())
    place = state.folder() / f"resolv-{sha256(content.encode()).hexdigest()[:16]}.conf"
    if not place.exists():
        new = place.with_suffix(f".{secrets.token_hex(4)}")
        new.write_text(content, encoding="ascii")
        new.chmod(0o644)
        new.replace(place)
    return ["--ro-bind", {"source": str(place)}, "/etc/resolv.conf"]


def _counters(version: int, groups: tuple[str, ...]) -> list[rootfs.Argument]:
    """Show the sandbox its own groups, where the agent counts what the kernel refused or killed."""
    if version == 1:
        memory, pids, _ = groups
        return ["--ro-bind", memory, "/sys/fs/cgroup/memory", "--ro-bind", pids, "/sys/fs/cgroup/pids"]
    return ["--ro-bind", groups[0], "/sys/fs/cgroup"]


def etc_folder() -> Path:
    """Return the directory that is every sandbox's ``/etc``, made once as long as it would hold the same."""
    held = repr((rootfs.made_up_etc(), rootfs.certificates(), rootfs.alternatives()))
    place = state.folder() / f"etc-{sha256(held.encode()).hexdigest()[:16]}"
    if not place.is_dir():
        new = Path(mkdtemp(prefix="new-", dir=state.folder()))
        rootfs.make_etc(new)
        new.chmod(0o755)
        try:
            new.rename(place)
        except OSError:  # another process was quicker
            if not place.is_dir():
                raise
    return place
