"""Paths of this machine as another user can reach them: bound into a tmpfs that only the warden and its children see.

Root's sandboxes run as users of their own, who may not pass through a directory such as ``/root`` to a Python that lies there.
The mounts go with the warden's mount namespace: nothing of them is ever left. Standard library only.
"""

import ctypes
import os
from pathlib import Path

from . import state

NEW_NAMESPACE = 0x20000
NO_SUID, NO_DEVICES, BIND, RECURSIVE, SLAVE = 2, 4, 4096, 16384, 1 << 19


class Stage:
    """The tmpfs; made when it is first needed."""

    def __init__(self) -> None:
        self._place: Path | None = None
        self._known: dict[str, str] = {}

    def path_of(self, source: str, below: str = "") -> str:
        """Return where a path can be reached; :raises OSError: it can't be bound."""
        if source not in self._known:
            self._known[source] = self._bind(source)
        return self._known[source] + (f"/{below}" if below else "")

    def _bind(self, source: str) -> str:
        place = self._made()
        target = place / str(len(self._known))
        if Path(source).is_dir():
            target.mkdir()
        else:
            target.touch()
        _call("mount", source.encode(), str(target).encode(), None, BIND | RECURSIVE, None)
        return str(target)

    def _made(self) -> Path:
        if self._place is None:
            place = state.folder() / "stage"
            place.mkdir(exist_ok=True)
            _call("unshare", NEW_NAMESPACE)
            _call("mount", None, b"/", None, RECURSIVE | SLAVE, None)
            _call("mount", b"tmpfs", str(place).encode(), b"tmpfs", NO_SUID | NO_DEVICES, b"mode=0755,size=1m")
            self._place = place
        return self._place


def _call(name: str, *values: int | bytes | None) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*values) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name} {values[:2]}: {os.strerror(number)}")
