"""Warnings, at the line of the caller whom they concern."""

import inspect
import warnings
from collections.abc import Generator
from contextlib import contextmanager

from sandboxio.errors import AuditSinkError, AuditSinkWarning, OrphanedSandboxWarning, SandboxWarning

_OURS = frozenset({"sandboxio", "contextlib", "anyio", "asyncio", "trio", "outcome"})
"""Packages between a caller's line and what core does for it."""


def warn(text: str, category: type[SandboxWarning]) -> None:
    """Emit a warning that points to the innermost line outside of sandboxio.

    A fixed stack level can't: how many frames of coroutines are in between depends on how the call was awaited.
    """
    level, frame = 1, inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] in _OURS:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


@contextmanager
def yielding(error: BaseException | None) -> Generator[None]:
    """Around the end of a sandbox whose block ``error`` left: what can only be told of that end does not replace it."""
    try:
        yield
    except (OrphanedSandboxWarning, AuditSinkWarning, AuditSinkError) as lesser:
        if error is None:
            raise
        if isinstance(error, Exception):
            error.add_note(lesser.message if isinstance(lesser, AuditSinkError) else str(lesser))
