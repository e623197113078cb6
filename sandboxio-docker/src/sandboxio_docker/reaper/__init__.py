"""The host-side reaper: a small process that destroys this process's sandboxes when their time or their owner ends.

What runs inside a sandbox is never the last word about its end. The reaper is told the client-chosen name and the
deadline *before* the create request, holds one end of a pipe and its owner's pidfd, and goes on for as long as the
engine is away.
"""

from .handle import Reaper, reaper_for
from .link import ReaperUnavailable

__all__ = ["Reaper", "ReaperUnavailable", "reaper_for"]
