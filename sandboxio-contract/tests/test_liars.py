"""Every liar is convicted by the rows that must, by no row that may not, and the honest one by none."""

import gc
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sandboxio import AuditEvent, ProviderError, QueueSink, SandboxError, downloading, redaction, secret_places
from sandboxio.escaping import Layer
from sandboxio.records import Record, Recorder
from sandboxio.secret_forms import forms_of
from sandboxio.sync import SyncSandbox
from sandboxio.sync.waiting import Waiter
from sandboxio_contract.ground.docker import DockerGround
from sandboxio_contract.leaving import spoken_forms
from sandboxio_contract.liars import LIARS, Liar
from sandboxio_contract.liars.grounds import StubGround
from sandboxio_contract.rows import all_rows, transfers
from sandboxio_contract.rows import secrets as secrets_rows
from sandboxio_contract.run import Result, run_row
from sandboxio_contract.target import Target

SAMPLE = {"NET-06", "NET-14", "ISO-04", "TMO-01", "RUN-04"}
"""Quick rows that every liar meets besides its own, so that a conviction of the wrong kind shows."""
STUB_ROWS = {
    *("NET-01", "NET-05", "NET-06", "TMO-01", "TMO-02", "TMO-03", "TMO-05", "CAP-02", "ISO-01", "ISO-04", "RUN-01"),
    *(
        "RUN-04",
        "CON-01",
        "TRD-01",
        "TRD-02",
        "TRD-03",
        "TRD-04",
        "TRD-05",
        "TRD-08",
        "LOOP-01",
        "TRD-07",
        "CAP-08",
        "TEN-01",
    ),
    *("TEN-04", "NET-11", "SEC-02", "ISO-02", "ISO-03", "ISO-05", "PLAN-01", "CAPA-01", "ERR-01", "FIL-03"),
    *("SEC-01", "OBS-01", "SYN-01"),
}
"""What can be judged on the stub, which isolates nothing and has no network."""
REAL = ("docker", "agents")
"""The bases that need an engine."""
DOCKER_IMAGE = "sandboxio-test/python"


OF_THE_WORLD = {"the_interface_layer_is_seen_inside", "nobody_speaks_in_the_agents_name"}
"""Rows of these requirements that the stub, which is no sandbox, can't pass: attacks are not let loose on this machine."""


def judged(target: Target, requirements: set[str], loop: str = "asyncio") -> list[Result]:
    try:
        return [
            run_row(row, target, loop)  # type: ignore[arg-type]
            for row in all_rows()
            if row.requirement in requirements and not (target.kind == "stub" and row.name in OF_THE_WORLD)
        ]
    finally:
        target.close()
        with warnings.catch_warnings():  # a row that convicts leaves its sandbox; no later test is to be blamed for it
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_the_honest_stub_is_acquitted(loop: str) -> None:
    target = Target("stub://", StubGround("stub"), register={"stub": "sandboxio_contract.liars.stubs:stub"})
    results = judged(target, STUB_ROWS, loop)
    assert {result.requirement for result in results} == STUB_ROWS
    assert [result for result in results if result.status not in ("proven", "refused")] == []


@pytest.mark.parametrize(
    "name, module, requirement",
    [
        ("stub-fixed", "promises", "CAP-06"),
        ("stub-keyed", "promises", "SEC-05"),
        ("stub-unknown", "promises", "ISO-03"),
        ("stub-brokered", "offers", "SEC-03"),
        ("stub-stored", "offers", "TEN-03"),
        ("stub-counting", "offers", "NET-07"),
    ],
)
def test_an_honest_stub_of_another_kind_is_acquitted(name: str, module: str, requirement: str) -> None:
    adapter = f"sandboxio_contract.liars.{module}:{name.replace('-', '_')}"
    results = judged(Target(f"{name}://", StubGround(name), register={name: adapter}), {requirement})
    assert [result for result in results if result.status not in ("proven", "refused")] == []


@pytest.mark.parametrize("liar", [one for one in LIARS if one.base not in REAL], ids=lambda one: one.name)
def test_a_liar_on_the_stub_is_convicted_by_the_right_rows(liar: Liar, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "SIZE_MB", 192)  # enough to show a growth of 64
    target = Target(f"{liar.name}://", StubGround(liar.name), register={liar.name: liar.adapter})
    convicted = [one for one in judged(target, {*liar.must, *(SAMPLE & STUB_ROWS)}) if one.status == "violated"]
    found = {one.requirement for one in convicted}
    assert not liar.rows or {one.row for one in convicted} == liar.rows
    assert liar.must <= found, f"not convicted: {liar.lie}"
    assert found <= liar.must | liar.may


@pytest.mark.docker
@pytest.mark.network
@pytest.mark.parametrize("liar", [one for one in LIARS if one.base in REAL], ids=lambda one: one.name)
def test_a_liar_on_docker_is_convicted_by_the_right_rows(liar: Liar) -> None:
    dsn = f"{liar.name}://{DOCKER_IMAGE}"
    target = Target(dsn, DockerGround(dsn), register={liar.name: liar.adapter})
    convicted = [one for one in judged(target, {*liar.must, *SAMPLE}) if one.status == "violated"]
    found = {one.requirement for one in convicted}
    assert not liar.rows or {one.row for one in convicted} == liar.rows
    assert liar.must <= found, f"not convicted: {liar.lie}"
    assert found <= liar.must | liar.may


def test_a_core_that_takes_every_link_is_convicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """FIL-03 judges core, which no backend can make lie."""

    def any_link(target: str, depth: int, shown: str) -> bytes:
        return target.encode()

    monkeypatch.setattr(downloading, "inner_link", any_link)
    target = Target("stub://", StubGround("stub"), register={"stub": "sandboxio_contract.liars.stubs:stub"})
    assert [result.status for result in judged(target, {"FIL-03"})] == ["violated"]


def nothing_found(forms: object, text: str) -> list[tuple[int, int]]:
    return []


def outermost(text: str) -> list[Layer]:
    return [Layer(text)]


def all_but(spoken: str) -> Callable[[str], list[str]]:
    """Return a core's forms of a secret without those that mask it as a program may show it."""

    def forms(value: str) -> list[str]:
        shown = spoken_forms(value)[spoken]
        return [form for form in forms_of(value) if form not in shown]

    return forms


async def forgetful(recorder: Recorder, record: Record, span: object, error: BaseException | None) -> None:
    if error is None:
        await kept_record(recorder, record, span, error)  # type: ignore[arg-type]


def without(event: str) -> object:
    async def selective(recorder: Recorder, record: Record, span: object, error: BaseException | None) -> None:
        if record.event != event:
            await kept_record(recorder, record, span, error)  # type: ignore[arg-type]

    return selective


async def twice(recorder: Recorder, record: Record, span: object, error: BaseException | None) -> None:
    await kept_record(recorder, record, span, error)  # type: ignore[arg-type]
    await kept_record(recorder, record, span, error)  # type: ignore[arg-type]


def silent(recorder: Recorder, text: str, record: Record, error: BaseException | None) -> None:
    pass


async def to_one_only(recorder: Recorder, event: AuditEvent) -> list[str]:
    if len(recorder._sinks) == 1:
        return await kept_written(recorder, event)
    queues = [sink for sink in recorder._sinks if isinstance(sink, QueueSink)]
    for queue in queues[:1]:
        await queue.emit(event)
    return ["another failed"]


async def until_one_fails(recorder: Recorder, event: AuditEvent) -> list[str]:
    for sink in recorder._sinks:
        try:
            await sink.emit(event)
        except OSError as error:
            return [str(error)]
    return []


def wrapping(waiter: Waiter, form: str, work: Callable[[], Any]) -> Any:
    try:
        return kept_call(waiter, form, work)
    except SandboxError as error:
        raise ProviderError(str(error)) from None


def narrow(sandbox: SyncSandbox, cmd: list[str], *, timeout: float | None = None) -> Any:
    return kept_run(sandbox, cmd, timeout=timeout)


kept_record = Recorder.ended
kept_written = Recorder._written
kept_call = Waiter.call
kept_run = SyncSandbox.run


@pytest.mark.parametrize(
    "requirement, where, name, broken",
    [
        ("SEC-01", redaction, "found", nothing_found),
        ("OBS-01", Recorder, "ended", forgetful),
        ("OBS-01", Recorder, "ended", twice),
        *(("OBS-01", Recorder, "ended", without(event)) for event in ("run_code", "file_upload", "file_download")),
        ("OBS-01", Recorder, "_report", silent),
        ("OBS-01", Recorder, "_written", to_one_only),
        ("OBS-01", Recorder, "_written", until_one_fails),
        ("SYN-01", Waiter, "call", wrapping),
        ("SYN-01", SyncSandbox, "run", narrow),
    ],
)
def test_a_core_that_breaks_its_own_promise_is_convicted(
    requirement: str, where: object, name: str, broken: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What core does for every backend none of them can break: core itself is broken."""
    monkeypatch.setattr(where, name, broken)
    target = Target("stub://", StubGround("stub"), register={"stub": "sandboxio_contract.liars.stubs:stub"})
    assert "violated" in {result.status for result in judged(target, {requirement})}


@pytest.mark.parametrize("spoken", spoken_forms("a word"))
def test_a_core_that_misses_one_form_of_a_secret_is_convicted(spoken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """SEC-01's row knows the forms by itself, and each of them alone convicts."""

    def only_one(word: str) -> dict[str, str]:
        return {spoken: spoken_forms(word)[spoken]}

    monkeypatch.setattr(secrets_rows, "spoken_forms", only_one)
    monkeypatch.setattr(redaction, "forms_of", all_but(spoken))
    monkeypatch.setattr(secret_places, "layers", outermost)
    if spoken in ("beginning", "end", "middle"):
        monkeypatch.setattr(redaction, "forms_of", forms_of)
        monkeypatch.setattr(secret_places, "cut", nothing_found)
    target = Target("stub://", StubGround("stub"), register={"stub": "sandboxio_contract.liars.stubs:stub"})
    assert [result.status for result in judged(target, {"SEC-01"})] == ["refused", "violated"]


BROKEN_PROGRAM = """
import __main__, atexit, os
from sandboxio import ProviderError
from sandboxio.loop_thread import Submitted
from sandboxio.sync import SyncSandbox, creating
from sandboxio.sync.waiting import Waiter
from sandboxio_contract.liars.stub import StubBackend
from sandboxio_contract.liars.stubs import Adapter
from sandboxio_contract.liars.world import worlds

def nothing(*_):
    pass

def drops_all():
    for world in worlds.values():
        for identity in list(world.records):
            world.drop(identity)

def swallows(waiter, form, work, kept=Waiter.call):
    try:
        return kept(waiter, form, work)
    except KeyboardInterrupt as error:
        raise ProviderError("interrupted") from error

if __main__.__spec__ and __main__.__spec__.name == "sandboxio_contract.synchronous":
    LIE
adapter = Adapter("NAME", StubBackend)
"""
"""An adapter that breaks core where the row's program loads it, and nowhere else."""
PROGRAM_LIES = {
    "lived on": "Submitted.cancel = nothing",
    "raised ProviderError": "Waiter.call = swallows",
    "allowed kill": "SyncSandbox.kill = nothing",
    "ended its parent's sandbox": "os.register_at_fork(after_in_child=lambda: atexit.register(drops_all))",
    "left its sandbox alive": "atexit.unregister(creating._end_all)",
}
"""What convicts, and the lie."""


@pytest.mark.parametrize("fact", PROGRAM_LIES)
def test_a_core_that_breaks_a_synchronous_program_is_convicted(
    fact: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SYN-01: Ctrl-C, fork and exit are judged in a program of the row's own."""
    name = f"broken{list(PROGRAM_LIES).index(fact)}"
    (tmp_path / f"{name}.py").write_text(BROKEN_PROGRAM.replace("LIE", PROGRAM_LIES[fact]).replace("NAME", name))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("SBX_TEARDOWN_GRACE", "0.5")
    target = Target(f"{name}://", StubGround(name), register={name: f"{name}:adapter"}, path=[str(tmp_path)])
    (row,) = [row for row in all_rows() if row.name == "a_synchronous_program_leaves_nothing"]
    try:
        result = run_row(row, target, "asyncio")
    finally:
        target.close()
    assert (result.status, fact in result.evidence) == ("violated", True), result.evidence
