"""What this machine can do for a sandbox, found out by reads only."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from sandboxio.errors import ConfigurationError
from sandboxio.port import Facts
from sandboxio.spec import SandboxSpec

from sandboxio_bubblewrap import network, tarball
from sandboxio_bubblewrap.cgroups import Home, Homeless, find_home
from sandboxio_bubblewrap.config import BubblewrapConfig
from sandboxio_bubblewrap.info import BASELINE
from sandboxio_bubblewrap.program import Program, find_program
from sandboxio_bubblewrap.rootfs import Roots, host_roots, template_roots

_WHOLE = 2**32 - 1
_SWITCHES = {
    "user/max_user_namespaces": ("0", "sysctl user.max_user_namespaces=15000"),
    "kernel/unprivileged_userns_clone": ("0", "sysctl kernel.unprivileged_userns_clone=1"),
}
"""Settings below ``/proc/sys`` whose value forbids user namespaces, and what allows them."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What was found.

    :param roots: what is shown read-only; ``None``: the template has to be unpacked first.
    :param own_users: whether each sandbox can be a user of its own on this machine, who owns nothing.
    :param blocked: why no user namespace can be made, and what to do about it.
    :param unlinked: the same of a network of a sandbox's own that reaches the outside; looked at only where one is wanted.
    """

    program: Program
    home: Home | Homeless
    roots: Roots | None
    own_users: bool
    blocked: tuple[str, str] | None
    unlinked: tuple[str, str] | None = None


def read(spec: SandboxSpec) -> Facts:
    """Look at this machine and the template.

    :raises BackendUnavailable: there is no bwrap program. :raises ConfigurationError: the template can't be read.
    """
    config = spec.config
    assert isinstance(config, BubblewrapConfig)
    own_users = _own_users()
    wanted = spec.network.egress == "allow" or spec.network.allow
    found = Machine(
        find_program(config.program),
        find_home(config.cgroup),
        _roots(spec.template),
        own_users,
        _blocked(),
        network.missing(is_root=own_users) if wanted else None,
    )
    return Facts({"machine": found}, {**BASELINE.maxima, **_sizes()})


def machine_of(facts: Facts) -> Machine | None:
    """Return what was found; ``None`` where nobody looked."""
    return cast("Machine | None", facts.values.get("machine"))


def _roots(template: str | None) -> Roots | None:
    if template is None:
        return host_roots()
    hint = "name an absolute path of a directory or tar archive with a root file system, with python3 in it"
    if not template.startswith("/"):
        raise ConfigurationError(f"the template {template} is no absolute path", hint=hint)
    try:
        path = Path(template)
        if path.is_file():
            path = tarball.place_of(path)
            if not path.is_dir():
                return None
        return template_roots(str(path))
    except OSError as error:
        raise ConfigurationError(f"the template {template} can't be read: {error.strerror}", hint=hint) from error


def _sizes() -> Mapping[str, float]:
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
    return {"cpu": float(cores), "memory_mb": memory, "disk_mb": memory // 2}


def _own_users() -> bool:
    """Whether this process is root of the whole machine: then a sandbox need not have the number of anybody on it."""
    lines = [line.split() for line in _text("/proc/self/uid_map").splitlines()]
    return os.geteuid() == 0 and lines == [["0", "0", str(_WHOLE)]]


def _blocked() -> tuple[str, str] | None:
    for name, (value, fix) in _SWITCHES.items():
        if _text(f"/proc/sys/{name}").strip() == value:
            return f"this kernel allows no user namespaces (/proc/sys/{name} is {value})", f"as root: {fix}"
    return None


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except OSError:
        return ""
