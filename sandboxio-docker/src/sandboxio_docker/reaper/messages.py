"""What owner and reaper say to each other: one JSON object a line, each naming the whole claim.

Repeating a whole claim instead of a change makes every message idempotent: a reaper that was started in place of a
killed one is armed by sending all claims again. Standard library only: the reaper's process imports this too.
"""

import json
import re
import time
from dataclasses import asdict, dataclass

MANAGED_LABEL = "io.sandboxio.managed"
CREATE_ID_LABEL = "io.sandboxio.create-id"

LINE_LIMIT = 65_536  # bytes; a longer line is an error, never a reason to buffer on

DISK_REASON = "disk_mb"
LIFETIME_REASON = "lifetime"
OWNER_REASON = "owner"

# What may stand in a path of the engine's API. A `/` or `?` in a name would address another object.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


def boot_clock() -> float:
    """Return seconds of a clock that no one can set and that goes on while the machine sleeps, where there is one.

    It is the same in every process of the machine, so the owner can send instants to its reaper.
    """
    clock: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


@dataclass(frozen=True, slots=True)
class Claim:
    """One sandbox that the reaper answers for.

    :param name: the container's name, which is also the value of its create-id label.
    :param deadline: when it must be gone at the latest, in seconds of `boot_clock`.
    :param container: its id, once the create request has committed.
    :param networks: ids of its own networks; others that carry its labels are found without being told.
    :param disk_limit: bytes that its writable layer may hold; ``None`` = somebody else enforces the cap.
    :param busy: whether a user's process may be alive in it, as far as the owner knows.
    :param speaks: whether its agent says so on its stderr, which then counts.
    :param detached: whether it may outlive its owner.
    """

    name: str
    deadline: float
    container: str | None = None
    networks: tuple[str, ...] = ()
    disk_limit: int | None = None
    busy: bool = False
    speaks: bool = False
    detached: bool = False

    def __post_init__(self) -> None:
        """Refuse names and ids that would change the meaning of an API path."""
        for text in (self.name, self.container, *self.networks):
            if text is not None and not _NAME.fullmatch(text):
                message = f"not a container's or network's name or id: {text!r}"
                raise ValueError(message)


def encode(message: dict[str, object]) -> bytes:
    """Return one line, ready to be sent."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> dict[str, object]:
    """Read one line.

    :raises ValueError: it is not a JSON object.
    """
    return json_object(json.loads(line))


def json_object(value: object) -> dict[str, object]:
    """Return ``value`` if it is a JSON object.

    :raises ValueError: it is something else.
    """
    if not isinstance(value, dict):
        problem = f"a JSON object expected, got {type(value).__name__}"
        raise ValueError(problem)  # noqa: TRY004 - whatever is wrong with a line is one kind of error
    found: dict[str, object] = value  # pyright: ignore[reportUnknownVariableType]
    return found


def json_array(value: object) -> list[object]:
    """Return ``value`` if it is a JSON array.

    :raises ValueError: it is something else.
    """
    if not isinstance(value, list):
        problem = f"a JSON array expected, got {type(value).__name__}"
        raise ValueError(problem)  # noqa: TRY004
    found: list[object] = value  # pyright: ignore[reportUnknownVariableType]
    return found


def claim_to_wire(claim: Claim) -> dict[str, object]:
    """Return the claim as plain data."""
    return asdict(claim)


def claim_from_wire(data: object) -> Claim:
    """Read what `claim_to_wire` made.

    :raises ValueError: a field is missing, unknown or of a wrong kind.
    """
    fields = json_object(data)
    try:
        return Claim(
            name=_text(fields["name"]),
            deadline=_number(fields["deadline"]),
            container=None if fields["container"] is None else _text(fields["container"]),
            networks=tuple(_text(one) for one in json_array(fields["networks"])),
            disk_limit=None if fields["disk_limit"] is None else int(_number(fields["disk_limit"])),
            busy=fields["busy"] is True,
            speaks=fields["speaks"] is True,
            detached=fields["detached"] is True,
        )
    except KeyError as missing:
        problem = f"a claim without {missing}"
        raise ValueError(problem) from missing


def _text(value: object) -> str:
    if not isinstance(value, str):
        problem = f"text expected, got {value!r}"
        raise ValueError(problem)  # noqa: TRY004
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        problem = f"a number expected, got {value!r}"
        raise ValueError(problem)  # noqa: TRY004
    return value
