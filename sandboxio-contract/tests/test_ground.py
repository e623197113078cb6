"""Grounds: what they can't see is said, and what they leave behind can be cleaned up."""

import os
from pathlib import Path

import pytest
from sandboxio_contract.ground import Ground, dockerwire, ground_for, swapfile
from sandboxio_contract.verdict import Inconclusive


def test_a_backend_is_looked_at_by_the_ground_of_its_name() -> None:
    assert ground_for("docker://image").kind == "docker"
    assert ground_for("acme://image").kind == "acme"
    assert type(ground_for("acme://image")) is Ground


def test_a_backend_without_a_ground_gets_a_reason_for_each_question() -> None:
    ground = Ground("acme")
    questions = (
        lambda: ground.objects({}),
        lambda: ground.exists("x"),
        lambda: ground.lose("x"),
        lambda: ground.inspect("x"),
        lambda: ground.processes("x"),
        lambda: ground.memory_peak("x"),
        lambda: ground.status("x"),
        lambda: ground.swapping_control(1, ""),
        lambda: ground.address("x"),
        ground.swap,
        ground.spied,
        ground.network,
    )
    for question in questions:
        with pytest.raises(Inconclusive, match="for acme"):
            question()
    ground.release_network()
    ground.close()


@pytest.mark.parametrize(
    "dsn, through",
    [
        ("docker://", "docker://?host=unix:///b"),
        ("docker://image", "docker://image?host=unix:///b"),
        ("docker://reg:5000/ns/img:tag@sha256:ab", "docker://reg:5000/ns/img:tag@sha256:ab?host=unix:///b"),
        ("docker://image?host=unix:///a&accept_vsock=1", "docker://image?accept_vsock=1&host=unix:///b"),
    ],
)
def test_the_recorder_stands_between_a_target_and_its_engine(dsn: str, through: str) -> None:
    assert dockerwire.through(dsn, "unix:///b") == through


def test_the_swap_file_of_a_killed_run_is_removed_and_that_of_a_running_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(swapfile, "FOLDERS", (tmp_path,))
    dead, alive = (
        tmp_path / "sandboxio-contract-999999999-a.swap",
        tmp_path / f"sandboxio-contract-{os.getpid()}-b.swap",
    )
    other = tmp_path / "other.swap"
    for path in (dead, alive, other):
        path.touch()
    assert swapfile.remove_leftovers() == [str(dead)]
    assert sorted(tmp_path.iterdir()) == sorted((alive, other))
