"""The provider's time, which passes only when something in the fake takes time, or when a test says so."""

EPOCH = 4_000_000_000.0
"""Where it begins: always the same, so that two runs of a test see the same instants, and so late (in 2096) that no sandbox is
over by this machine's clock, which `connect` looks at."""


class Clock:
    """A virtual clock.

    :ivar now: seconds since the epoch.
    """

    def __init__(self) -> None:
        self.now = EPOCH

    def advance(self, seconds: float) -> None:
        """Let time pass at once: sandboxes whose lifetime is over are gone then."""
        self.now += seconds
