"""Isolation tiers: how hard it is for code to get out of a sandbox, and nothing else.

Standard library only, so that naming a tier never pays for the rest of the package.
"""

import enum


class IsolationTier(enum.Enum):
    """How strong the wall between the code and the machine is.

    The order speaks of escape resistance only: not of network policy, nor of resource caps.
    """

    UNKNOWN = "unknown"
    """Nothing is known; it satisfies no requirement."""
    CONTAINER = "container"
    """Namespaces on a shared kernel: for trusted, development and CI code."""
    GVISOR = "gvisor"
    """A user-space kernel in between: defence in depth, not equivalent to a virtual machine."""
    MICROVM = "microvm"
    """A kernel of its own under a hypervisor: the recommended floor for untrusted multi-tenant code."""

    @property
    def rank(self) -> int:
        """The place in the order of escape resistance, 0 for `UNKNOWN`."""
        return _RANK[self]

    def satisfies(self, required: "IsolationTier") -> bool:
        """Whether this tier meets ``required``; `UNKNOWN` meets nothing and can't be required."""
        return (
            self is not IsolationTier.UNKNOWN and required is not IsolationTier.UNKNOWN and self.rank >= required.rank
        )


_RANK = {
    IsolationTier.UNKNOWN: 0,
    IsolationTier.CONTAINER: 1,
    IsolationTier.GVISOR: 2,
    IsolationTier.MICROVM: 3,
}
