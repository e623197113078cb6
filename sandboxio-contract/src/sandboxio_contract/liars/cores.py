"""Deliberately broken cores: what core promises for every backend none of them can break, so one behaviour of core is.

Each is a fault that is applied to the running core and taken back, under a stub that is honest.
"""

from collections.abc import Mapping, Set
from typing import Any

from sandboxio import api, calls, connecting, coverage, creation, destruction, redaction, request, sandbox
from sandboxio.execution import Budget
from sandboxio.lease import Lease
from sandboxio.policy import NetworkPolicy, Resources
from sandboxio.records import Recorder
from sandboxio.redaction import Redactor
from sandboxio.result import Collected
from sandboxio.sync import SyncSandbox
from sandboxio.sync.waiting import Waiter
from sandboxio.teardown import OwnTask

from sandboxio_contract.liars import faults
from sandboxio_contract.liars.broken import BrokenCore
from sandboxio_contract.liars.cores_io import IO

__all__ = ["CORES", "BrokenCore"]

_ONE, _SINK = "each_operation_leaves_one_record", "a_failing_sink_does_what_was_asked_for"


def _records(name: str, lie: str, broken: object, rows: Set[str] = frozenset({_ONE})) -> BrokenCore:
    return BrokenCore(name, lie, ((Recorder, "ended", broken),), {"OBS-01"}, rows=rows)


_LEAVES, _FACADE = "no_secret_leaves", "the_facade_does_the_same"
_TALKATIVE: Mapping[str, Any] = {"rows": {_LEAVES}, "stub": "commands:stub_talkative"}

CORES: tuple[BrokenCore, ...] = (
    *IO,
    BrokenCore(
        "core-opens",
        "a sandbox that nobody said anything about may go out",
        ((request, "_spec", faults.opening),),
        {"NET-01"},
        {"ISO-05"},
    ),
    BrokenCore(
        "core-degrades",
        'egress="learn" is taken for deny',
        ((request, "_spec", faults.degrading),),
        {"NET-06"},
        {"OBS-01"},
    ),
    BrokenCore(
        "core-contradicts",
        "a network policy that contradicts itself can be written down",
        ((NetworkPolicy, "__init__", faults.taken),),
        {"NET-14"},
    ),
    BrokenCore(
        "core-unsets",
        "a cap can be unset",
        ((Resources, "__init__", faults.taken),),
        {"CAP-02"},
        rows={"a_cap_is_raised_never_unset"},
    ),
    BrokenCore(
        "core-shrugs",
        "requiring an unknown isolation is requiring none",
        ((request, "_check_tier", faults.nothing_of), (coverage, "check_isolation", faults.known_only)),
        {"ISO-04"},
    ),
    BrokenCore(
        "core-endless",
        "a call's timeout that bounds nothing is the sandbox's",
        ((sandbox, "_own_timeout", faults.inherited),),
        {"TMO-01"},
    ),
    BrokenCore(
        "core-timeless",
        "create(timeout=None) is the default",
        ((request, "check_timeout", faults.defaulting),),
        {"TMO-01"},
    ),
    BrokenCore(
        "core-lengthens",
        "a sandbox lives longer than is documented where nothing is said",
        ((request, "DEFAULT_TIMEOUT", 600.0),),
        {"TMO-01"},
    ),
    BrokenCore(
        "core-raises",
        "a creation that hangs raises Python's own TimeoutError",
        ((api, "CreateTimeout", TimeoutError),),
        {"TMO-03"},
        rows={"a_creation_that_hangs_raises"},
    ),
    BrokenCore(
        "core-abbreviates",
        "the beginning of an id is taken for one that is gone",
        ((api, "_check_absent", faults.nothing_of),),
        {"TEN-01"},
        rows={"only_full_ids_are_killed"},
    ),
    BrokenCore(
        "core-strays",
        "a sandbox is used from any event loop",
        ((Lease, "check_owner", faults.nothing_of),),
        {"LOOP-01"},
    ),
    BrokenCore(
        "core-unreasoned",
        "the end of a lifetime is an end like any other",
        ((Lease, "_gone_error", faults.unreasoned),),
        {"TMO-02", "TMO-05"},
    ),
    BrokenCore(
        "core-hastens",
        "a kill that is interrupted is left at that",
        ((Lease, "end", faults.unprotected),),
        {"TRD-02"},
        {"TRD-01", "TRD-05", "TRD-07"},
    ),
    BrokenCore(
        "core-numbs",
        "a kill forgets that it was interrupted",
        ((OwnTask, "finish", faults.numb),),
        {"TRD-02"},
        {"TRD-01", "TRD-05"},
    ),
    BrokenCore(
        "core-hushes",
        "nobody is told of a sandbox that may be left",
        ((destruction, "warn_orphan", faults.nothing_of),),
        {"TRD-03"},
    ),
    BrokenCore(
        "core-nags",
        "of a sandbox that may be left is told twice",
        ((destruction, "warn_orphan", faults.again),),
        {"TRD-03"},
    ),
    BrokenCore(
        "core-connects",
        "who connects gets what is there, whatever was expected",
        ((connecting, "recognised", faults.unexpecting),),
        {"CON-01"},
    ),
    BrokenCore(
        "core-empties",
        "a deadline loses what was printed",
        ((Budget, "expired", faults.emptied),),
        {"TMO-03"},
        {"CAP-08"},
        rows={"a_deadline_raises"},
    ),
    BrokenCore(
        "core-hides",
        "output that was cut looks whole",
        ((Collected, "truncated", faults.never),),
        {"CAP-08"},
        rows={"output_is_bounded", "endless_output_does_not_fill_this_process"},
    ),
    BrokenCore(
        "core-severs",
        "the provider's own error is lost",
        ((calls, "raise_from", faults.severed),),
        {"ERR-01"},
    ),
    BrokenCore(
        "core-mumbles",
        "the warning of a sandbox that may be left does not say whose it is",
        ((destruction, "warn_orphan", faults.terse),),
        {"TRD-03"},
    ),
    BrokenCore(
        "core-soothes",
        "nobody is warned of what a denial leaves open",
        ((creation, "warn_about", faults.nothing_of),),
        {"NET-11"},
        rows={"strength_is_stated_and_dated"},
        stub="promises:stub_leaky",
    ),
    BrokenCore(
        "core-trusts",
        "nobody is warned of an isolation that is unknown",
        ((creation, "warn_about", faults.nothing_of),),
        {"ISO-03"},
        stub="promises:stub_unknown",
    ),
    BrokenCore(
        "core-shows",
        "no secret is masked",
        ((redaction, "found", faults.none_found),),
        {"SEC-01"},
        {"ERR-01"},
        rows={_LEAVES},
    ),
    BrokenCore(
        "core-causes",
        "a provider's error with a secret stays the cause of ours",
        ((Redactor, "cause", faults.as_it_is),),
        {"SEC-01"},
        {"ERR-01"},
        **_TALKATIVE,
    ),
    BrokenCore(
        "core-notes",
        "an error's notes are not masked",
        ((Redactor, "_clean", faults.noted),),
        {"SEC-01"},
        {"ERR-01"},
        **_TALKATIVE,
    ),
    BrokenCore(
        "core-represents",
        "a sandbox's repr shows its variables",
        ((sandbox.Sandbox, "__repr__", faults.shown),),
        {"SEC-01"},
        rows={_LEAVES},
    ),
    BrokenCore(
        "core-traces",
        "a span has the arguments of a command",
        ((Recorder, "ended", faults.traced),),
        {"SEC-01"},
        rows={_LEAVES},
    ),
    BrokenCore(
        "core-logs",
        "a command's variables are logged where somebody debugs",
        ((Lease, "start", faults.logged),),
        {"SEC-01"},
        rows={_LEAVES},
    ),
    _records("core-forgives", "what failed leaves no record", faults.successes, {_ONE, _SINK}),
    _records("core-repeats", "an operation leaves two records", faults.twice, {_ONE, _SINK}),
    _records("core-omits-code", "code leaves no record", faults.without("run_code")),
    _records("core-omits-uploads", "an upload leaves no record", faults.without("file_upload")),
    _records("core-omits-downloads", "a download leaves no record", faults.without("file_download")),
    BrokenCore(
        "core-loses",
        "a record that was lost is kept quiet",
        ((Recorder, "_report", faults.nothing_of),),
        {"OBS-01"},
        rows={_ONE, _SINK},
    ),
    BrokenCore(
        "core-favours",
        "where one sink fails another gets no record",
        ((Recorder, "_written", faults.to_one_only),),
        {"OBS-01"},
        rows={_ONE},
    ),
    BrokenCore(
        "core-gives-up",
        "sinks after one that fails get no record",
        ((Recorder, "_written", faults.until_one_fails),),
        {"OBS-01"},
        rows={_ONE},
    ),
    BrokenCore(
        "core-wraps",
        "an error of the facade has lost its class",
        ((Waiter, "call", faults.wrapping),),
        {"SYN-01"},
        rows={_FACADE},
    ),
    BrokenCore(
        "core-narrows",
        "a call of the facade takes fewer parameters",
        ((SyncSandbox, "run", faults.narrow),),
        {"SYN-01"},
        rows={_FACADE},
    ),
)
