"""Why a network row could not be proven on this machine."""

from typing import Literal

Code = Literal["privilege", "tool", "busy", "addresses", "guard", "routes", "canary", "engine", "answer"]


class NotProvable(Exception):
    """The ground for a network row can't be set up or trusted; rows that need it are `not-provable` with this reason.

    `code` is stable and says which part is missing; `reason` is one sentence for the report.
    """

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(reason)
        self.code: Code = code
        self.reason = reason
