"""Without a Docker engine: `create()` stays what it is and names this backend, the demo uses it and says so."""

import os
import subprocess
import sys

import pytest
import sandboxio

NOWHERE = "unix:///nowhere/engine.sock"


@pytest.fixture(autouse=True)
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", NOWHERE)
    monkeypatch.delenv("SANDBOXIO_BACKEND", raising=False)


@pytest.mark.anyio
async def test_create_without_a_target_never_falls_back_and_names_what_needs_no_engine() -> None:
    with pytest.raises(sandboxio.BackendUnavailable) as unnamed:
        await sandboxio.create()
    assert "bubblewrap://" in unnamed.value.hint
    with pytest.raises(sandboxio.BackendUnavailable) as named:
        await sandboxio.create("docker://")
    assert "bubblewrap://" not in named.value.hint


@pytest.mark.bubblewrap
def test_the_demo_uses_it_and_says_so_in_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sandboxio", "demo"],
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "No Docker engine answers: this is bubblewrap://\n"
    assert "hello from Python" in done.stdout
    assert "egress denial: " in done.stdout
