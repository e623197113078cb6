"""Hostile code is let loose nowhere on this machine itself: the stub's commands are processes of it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from sandboxio_contract.ground.docker import DockerGround
from sandboxio_contract.isolated import need_isolation, process_namespace
from sandboxio_contract.liars.grounds import StubGround
from sandboxio_contract.liars.local import StubSession
from sandboxio_contract.rows import all_rows
from sandboxio_contract.run import run_row
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Inconclusive

HOSTILE = [row for row in all_rows() if row.check.__module__.rpartition(".")[2].startswith("hostile")]


def stub() -> Target:
    return Target("stub://", StubGround("stub"), register={"stub": "sandboxio_contract.liars.stubs:stub"})


@pytest.mark.parametrize("row", HOSTILE, ids=lambda row: row.name)
def test_no_attack_is_let_loose_on_this_machine(row: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs themselves are stopped here, too: a row without its guard must not harm whoever runs this."""
    started: list[list[str]] = []
    local = StubSession.started

    def record(self: StubSession, argv: list[str], env: Mapping[str, str], cwd: str, *, stdin: bool) -> Any:
        started.append(argv)
        return local(self, argv if len(" ".join(argv)) < 200 else ["true"], env, cwd, stdin=stdin)

    monkeypatch.setattr(StubSession, "started", record)
    target = stub()
    result = run_row(row, target, "asyncio")
    target.close()
    assert result.status == "not-provable"
    assert "no attack is let loose" in result.evidence
    assert all(len(" ".join(argv)) < 200 for argv in started)


def test_what_cannot_be_told_apart_is_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StubSession, "started", _nothing_runs(StubSession.started))
    target = stub()
    with pytest.raises(Inconclusive):
        anyio.run(need_isolation, target)
    target.close()


def _nothing_runs(local: Any) -> Any:
    def started(session: StubSession, argv: list[str], *rest: Any, **options: Any) -> Any:
        return local(session, ["false"], *rest, **options)

    return started


def test_a_namespace_is_told_by_its_id_and_its_machine() -> None:
    assert process_namespace() == [
        os.readlink("/proc/self/ns/pid"),
        Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
    ]


@pytest.mark.docker
@pytest.mark.filterwarnings("ignore::sandboxio.WeakEnforcementWarning")
@pytest.mark.parametrize("image", ["python", "busybox?accept_vsock=1"])
def test_a_container_is_somewhere_else(image: str) -> None:
    dsn = f"docker://sandboxio-test/{image}"
    target = Target(dsn, DockerGround(dsn))
    anyio.run(need_isolation, target)
    target.close()
    assert target.isolated
