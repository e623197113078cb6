"""What a backend answers to each kind of policy, as a Markdown table: its plans on a fixed grid, made offline.

There is no other list of what a backend supports. Nothing is contacted beyond what ``sandboxio.plan(TARGET)`` contacts,
which is nobody: a plan is made from declared facts. So what a host, account or image lacks is not in the table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import sandboxio
from sandboxio import Absent, IsolationTier, NetworkPolicy, Resources, SandboxError

NETWORK = ("network.egress",)
LIST = ("network.allow",)
CAPS = ("cpu", "memory", "memory.swap", "disk", "pids")
HEAD = ("asked for", "answer", "enforced by", "evidence", "strength", "what stays possible")
NOTE = (
    "Made by `sandboxio-contract policy-table {target}` from offline plans, for which nobody is asked: what the host, the"
    " account or the image lacks is refused when a sandbox is made, before anything is provisioned."
)
BEGIN, END = "<!-- policy-table {target} -->", "<!-- end of policy-table -->"


@dataclass(frozen=True, slots=True)
class Wish:
    """One policy that a caller may ask for.

    :param written: as it is written; after a comma, a remark.
    :param items: the items of a plan that answer it.
    """

    written: str
    options: Mapping[str, Any]
    items: tuple[str, ...]


def _network(written: str, items: tuple[str, ...] = NETWORK, **fields: Any) -> Wish:
    return Wish(written, {"network": NetworkPolicy(**fields)}, items)


def _resources(written: str, items: tuple[str, ...], **fields: Any) -> Wish:
    return Wish(written, {"resources": Resources(**fields)}, items)


GRID: Sequence[Wish] = (
    _network('egress="deny", the default'),
    _network('egress="deny", min_strength="interface"', min_strength="interface"),
    _network('egress="allow"', egress="allow"),
    _network('egress="learn"', egress="learn"),
    _network('allow=("pypi.test",), a host name', LIST, allow=("pypi.test",)),
    _network('allow=("*.pypi.test",), a wildcard', LIST, allow=("*.pypi.test",)),
    _network('allow=("198.51.100.0/24",), a CIDR', LIST, allow=("198.51.100.0/24",)),
    _network('allow=("2001:db8::/64",), a CIDR of IPv6', LIST, allow=("2001:db8::/64",)),
    _network("ingress_ports=(8000,)", ("network.ingress",), ingress_ports=(8000,)),
    _resources("Resources(), the defaults", CAPS),
    _resources("cpu=2.0", ("cpu",), cpu=2.0),
    _resources("memory_mb=2048", ("memory", "memory.swap"), memory_mb=2048),
    _resources("disk_mb=128", ("disk",), disk_mb=128),
    _resources("disk_mb=4096", ("disk",), disk_mb=4096),
    _resources("pids=1024", ("pids",), pids=1024),
    _resources("cpu=1000.0", ("cpu",), cpu=1000.0),
    _resources("memory_mb=16777216, 16 TiB", ("memory",), memory_mb=16777216),
    _resources('gpu="A100"', ("gpu",), gpu="A100"),
    Wish("timeout=300, the default", {"timeout": 300.0}, ("lifetime",)),
    Wish("timeout=86400, a day", {"timeout": 86400.0}, ("lifetime",)),
    Wish("timeout=86401", {"timeout": 86401.0}, ("lifetime",)),
    *(
        Wish(f"require_isolation={tier.name}", {"require_isolation": tier}, ("isolation",))
        for tier in IsolationTier
        if tier is not IsolationTier.UNKNOWN
    ),
    Wish('metadata={"tenant_id": "a"}', {"metadata": {"tenant_id": "a"}}, ("labels",)),
    Wish('secrets={"TOKEN": …}', {"secrets": {"TOKEN": "a-made-up-word"}}, ("secrets",)),
)
"""What is asked; names and networks of it belong to nobody, and none is contacted."""


async def policy_table(target: str) -> str:
    """Return the table of a target. :raises SandboxError: there is no such backend."""
    known = (await sandboxio.backend_info(target)).baseline.maxima
    seen: set[tuple[str, ...]] = set()
    rows = [row for wish in GRID for row in await _answers(target, wish, known, seen)]
    lines = [HEAD, ("---",) * len(HEAD), *rows]
    table = "".join(f"| {' | '.join(_cell(text) for text in line)} |\n" for line in lines)
    return f"{table}\n{NOTE.format(target=target)}\n"


async def _answers(
    target: str, wish: Wish, known: Mapping[str, float], seen: set[tuple[str, ...]]
) -> list[tuple[str, ...]]:
    """Return the rows of one wish.

    :param known: the caps whose maximum is known before the host is asked.
    :param seen: what was said before is not said again.
    """
    code, comma, remark = wish.written.partition(", ")
    asked = f"`{wish.written}`" if '"' in remark else f"`{code}`{comma}{remark}"
    try:
        plan = await sandboxio.plan(target, **wish.options)
    except SandboxError as error:
        text = f"**refused**: {type(error).__name__} ({error.code}): {error.message}"
        return [(asked, text, "", "", "", "nothing is made")]
    wanted: Resources = wish.options.get("resources", Resources())
    unknown = any(getattr(wanted, name) is not None and name not in known for name in Resources.model_fields)
    found: list[tuple[str, ...]] = []
    for policy in wish.items:
        item = plan[policy]
        if isinstance(item, Absent):
            found.append((asked, f"`{policy}` absent: {item.reason}", "", "", "", ""))
            continue
        residuals = "; ".join(item.residuals) or "nothing known"
        how = (policy, item.mechanism, item.enforced_by, item.evidence, item.strength or "", residuals)
        mechanism, *rest = ("as above", "", "", "", "") if how in seen else how[1:]
        seen.add(how)
        beyond = "; refused if the host has less" if unknown else ""
        found.append((asked, f"`{policy} = {_shown(item.requested)}`: {mechanism}{beyond}", *rest))
    return found


def written_into(path: Path, target: str, table: str) -> bool:
    """Replace the table between its two marks in a file; return whether the file was another one before.

    :raises ValueError: the marks are not there.
    """
    begin = BEGIN.format(target=target)
    text = path.read_text(encoding="utf-8")
    head, mark, rest = text.partition(begin)
    _, end, tail = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"{path}: there is no {begin} followed by {END}")
    new = f"{head}{begin}\n\n{table}\n{END}{tail}"
    if new != text:
        path.write_text(new, encoding="utf-8")
    return new != text


def made(target: str) -> str:
    """Return the table of a target, from outside an event loop."""
    return anyio.run(policy_table, target)


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
