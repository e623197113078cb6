"""What a probe said, checked: an answer is only `reached` if it carries the nonce that our own server gives."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, cast, get_args

from sandboxio_contract.network.checks import Check, Checks

Status = Literal[
    "reached", "forged", "answered", "resolved", "timeout", "refused", "unreachable", "tool missing", "error"
]
DENIED: tuple[Status, ...] = ("refused", "unreachable", "timeout")
RAN = (40, 41)
TOOL_MISSING = (126, 127)
SHELL_ONLY = 45


@dataclass(frozen=True, slots=True)
class Result:
    """Status and detail of one check; the detail is the probe's word (an errno, a nonce), shown as evidence only."""

    status: Status
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """All results of one probe. `complete` tells that it ran to its end; otherwise every result is an error, or no tool.

    `interfaces` are the links the sandbox sees: one other than `lo` is evidence against "no network", `lo` alone proves
    nothing. `engine_sockets` are sockets of container engines and system services that stand open to it.
    """

    token: str
    results: Mapping[str, Result]
    complete: bool
    reason: str = ""
    interfaces: tuple[str, ...] = ()
    engine_sockets: tuple[str, ...] = ()

    def status(self, name: str) -> Status:
        """Return the status of one check; one that was not tried is an error."""
        return self.results.get(name, Result("error")).status


@dataclass(slots=True)
class _Lines:
    checks: dict[str, list[tuple[str, str]]] = field(default_factory=dict[str, list[tuple[str, str]]])
    seen: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    ended: bool = False


def parse_probe(checks: Checks, exit_code: int, stdout: bytes) -> Outcome:
    """Return what the probe of `checks` saw, from its exit code and output.

    Output that isn't exactly what the probe prints (cut, doubled, another exit code) makes every result an error: what
    runs in a sandbox may try to look like a denial.
    """
    lines = _read(stdout)
    if exit_code in TOOL_MISSING:
        return _nothing(checks, "tool missing", f"the sandbox has no Python 3 (exit code {exit_code})", lines)
    if exit_code == SHELL_ONLY and lines.ended:
        return _nothing(checks, "tool missing", "only a shell was there: it can list interfaces, not probe", lines)
    broken = _broken(checks, exit_code, lines)
    if broken:
        return _nothing(checks, "error", broken, lines)
    results = {one.name: _result(checks, one, *lines.checks[one.name][0]) for one in checks}
    return Outcome(checks.token, results, True, "", *_seen(lines))


def merged(outcomes: Iterable[Outcome]) -> Outcome:
    """Return one outcome of several references: a check counts as reached if any of them reached it."""
    results: dict[str, Result] = {}
    reasons: list[str] = []
    for outcome in outcomes:
        reasons += [outcome.reason] if outcome.reason else []
        for name, result in outcome.results.items():
            if results.get(name, Result("error")).status != "reached":
                results[name] = result
    return Outcome("", results, complete=not reasons, reason="; ".join(reasons))


def _read(stdout: bytes) -> _Lines:
    lines = _Lines()
    text = stdout.decode("utf-8", "replace").strip()
    for words in (line.split(" ", 3) for line in text.split("\n")):
        if words[0] == "check" and len(words) == 4:
            lines.checks.setdefault(words[1], []).append((words[2], words[3]))
        elif words[0] == "seen" and len(words) == 3:
            lines.seen.setdefault(words[1], []).append(words[2])
    lines.ended = text.split("\n")[-1] == "end ok"
    return lines


def _broken(checks: Checks, exit_code: int, lines: _Lines) -> str:
    if exit_code not in RAN:
        return f"the probe did not run: exit code {exit_code}"
    if not lines.ended:
        return "the probe did not run to its end"
    if {one.name for one in checks} != set(lines.checks) or any(len(one) != 1 for one in lines.checks.values()):
        return "the probe's results are not those of the checks it was given"
    return ""


def _result(checks: Checks, check: Check, word: str, detail: str) -> Result:
    if word == "tool-missing":
        return Result("tool missing", detail)
    if word not in get_args(Status):
        return Result("error", f"unknown status {word[:40]}")
    if word == "reached" and detail != checks.expected(check):
        return Result("forged", "the answer does not carry the nonce of the suite's server")
    return Result(cast("Status", word), detail[:200])


def _nothing(checks: Checks, status: Status, reason: str, lines: _Lines) -> Outcome:
    results = {one.name: Result(status, reason) for one in checks}
    return Outcome(checks.token, results, False, reason, *_seen(lines))


def _seen(lines: _Lines) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(lines.seen.get("interface", ())), tuple(lines.seen.get("socket", ()))
