"""``sandboxio demo``: one sandbox from its creation to its end, each step timed."""

import json
import shutil
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

import anyio

from sandboxio.api import create
from sandboxio.cli.control import Proof, has_program, not_provable, prove_denial
from sandboxio.cli.table import render_table
from sandboxio.errors import BackendUnavailable, SandboxError
from sandboxio.planning import Absent, Receipt
from sandboxio.policy import NetworkPolicy
from sandboxio.request import WITHOUT_ENGINE, is_default
from sandboxio.sandbox import Sandbox

_CODE = "import os, sys; print('hello from Python', sys.version.split()[0], 'as uid', os.getuid())"
_LINES = "for i in 1 2 3; do echo line $i; sleep 0.2; done"


@dataclass(slots=True)
class Report:
    """What the demo did; printed as it goes, or as JSON at the end."""

    as_json: bool
    steps: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    receipts: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    proof: Proof | None = None

    def say(self, text: str = "") -> None:
        """Print a line, unless JSON is wanted."""
        if not self.as_json:
            print(text, flush=True)

    @contextmanager
    def step(self, name: str) -> Generator[None]:
        """Time a step."""
        self.say(f"\n{name}")
        started = time.perf_counter()
        yield
        milliseconds = round((time.perf_counter() - started) * 1000, 1)
        self.steps.append({"step": name, "ms": milliseconds})
        self.say(f"  [{milliseconds} ms]")


def run_demo(target: str | None, *, as_json: bool) -> int:
    """Run the demo; 0 if all worked and no denial was violated."""
    report = Report(as_json)
    try:
        anyio.run(_demo, report, target)
    except BackendUnavailable:
        if not is_default(target):
            raise
        print(f"No Docker engine answers: this is {WITHOUT_ENGINE}", file=sys.stderr, flush=True)
        report = Report(as_json)
        anyio.run(_demo, report, WITHOUT_ENGINE)
    if as_json:
        json.dump(
            {
                "steps": report.steps,
                "receipts": report.receipts,
                "proof": asdict(report.proof) if report.proof else None,
            },
            sys.stdout,
            indent=2,
        )
        print()
    return 1 if report.proof is None or report.proof.finding == "violated" else 0


async def _demo(report: Report, target: str | None) -> None:
    with report.step("create: egress denied, 300 s, modest caps (the defaults)"):
        sandbox = await create(target, metadata={"made_by": "sandboxio demo"}, on_progress=report.say)
        report.say(f"  {sandbox!r}")
    async with sandbox:
        await _work(report, sandbox)
        report.proof = await _prove(report, sandbox, target)
        _show_receipts(report, sandbox)
        with report.step("kill"):
            await sandbox.kill()
    report.say("\nNothing is left.")


async def _work(report: Report, sandbox: Sandbox) -> None:
    with report.step("run_code: Python"):
        report.say(f"  {await _python(sandbox)}")
    with report.step("run: a command, argv through no shell"):
        await sandbox.run(["true"])
    if not await has_program(sandbox, "sh"):
        report.say("\nstream and files: not shown, the image has no POSIX shell")
        return
    with report.step("stream: output as it comes"):
        started = time.perf_counter()
        async with sandbox.stream(_LINES) as process:
            async for chunk in process:
                moment = time.perf_counter() - started
                report.say(f"  +{moment:.2f} s  {chunk.data.decode().strip()}")
    with report.step("files: write and read back"):
        await sandbox.files.write("note.txt", "kept exactly\n")
        report.say(f"  {await sandbox.files.read('note.txt')!r}")


async def _python(sandbox: Sandbox) -> str:
    """Run Python where the image has it, and say so where not: the sandbox is none the worse."""
    if not await has_program(sandbox, "python3"):
        return "not shown: the image has no python3; try docker://python:3.12-slim"
    result = await sandbox.run_code(_CODE)
    result.raise_for_status()
    return result.stdout.strip()


async def _prove(report: Report, sandbox: Sandbox, target: str | None) -> Proof:
    with report.step("prove: the same question, from an open and from this closed sandbox"):
        try:
            async with create(target, network=NetworkPolicy(egress="allow")) as opened:
                proof = await prove_denial(sandbox, opened)
        except SandboxError as error:
            proof = not_provable(error)
        report.say(f"  control (egress='allow'): {proof.control}")
        report.say(f"  denied  (egress='deny'):  {proof.denied}")
        report.say(f"  egress denial: {proof.finding.upper()}")
    return proof


def _show_receipts(report: Report, sandbox: Sandbox) -> None:
    report.receipts = [asdict(item) for item in sandbox.policy]
    report.say("\nreceipts: how each policy is enforced")
    rows = [_row(item) for item in sandbox.policy]
    width = shutil.get_terminal_size((120, 24)).columns
    report.say(render_table(("policy", "value", "mechanism", "by", "evidence", "what stays possible"), rows, width))


def _row(item: Receipt) -> tuple[str, str, str, str, str, str]:
    if isinstance(item, Absent):
        return (item.policy, "-", item.reason, "-", "-", "")
    shown = "-" if item.requested is None else str(item.requested)
    return (item.policy, shown, item.mechanism, item.enforced_by, item.evidence, "; ".join(item.residuals))
