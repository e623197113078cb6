"""Records: whose they are, and when they are stale."""

import os
import stat
import subprocess
from pathlib import Path

import pytest
from sandboxio_bubblewrap import state
from sandboxio_bubblewrap.state import Record


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(state, "folder", lambda: tmp_path)
    return tmp_path


def record(name: str, *, warden: int, start: str | None, boot: str | None = None) -> Record:
    return {
        "name": name,
        "warden": [warden, start],
        "first": [warden, start],
        "boot": boot or state.boot_id(),
        "groups": [],
    }


def test_a_record_is_read_as_it_was_written() -> None:
    written = record("sbx-a", warden=1, start="2")
    state.write(written)
    assert state.read("sbx-a") == written
    assert list(state.records()) == [written]
    assert state.read("sbx-b") is None
    assert state.read("../sbx-a") is None


def test_a_record_is_for_its_user_alone(folder: Path) -> None:
    state.write(record("sbx-a", warden=1, start="2"))
    assert stat.S_IMODE((folder / "sbx-a.json").stat().st_mode) == 0o600


def test_a_warden_is_known_by_its_start_never_by_its_number_alone() -> None:
    me = os.getpid()
    assert state.is_kept(record("sbx-a", warden=me, start=state.start_of(me)))
    assert not state.is_kept(record("sbx-a", warden=me, start="1"))  # the number was given to another process meanwhile
    assert not state.is_kept(record("sbx-a", warden=me, start=state.start_of(me), boot="another run of the kernel"))


def test_the_remains_of_a_process_are_no_process() -> None:
    with subprocess.Popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert state.start_of(child.pid) is None


def test_a_sweep_removes_what_is_stale_and_nothing_else() -> None:
    me = os.getpid()
    state.write(record("sbx-kept", warden=me, start=state.start_of(me)))
    state.write(record("sbx-stale", warden=me, start="1"))
    state.write(record("sbx-old", warden=me, start=state.start_of(me), boot="before"))
    state.sweep()
    assert [one["name"] for one in state.records()] == ["sbx-kept"]


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    place = Path(f"/tmp/sandboxio-bubblewrap-{4711_4711}")
    place.symlink_to(tmp_path)
    try:
        with pytest.raises(PermissionError):
            state.folder(4711_4711)
    finally:
        place.unlink()
