"""An engine of a test's own, in namespaces of its own, so that runtimes can be registered without touching the shared one."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

START, STOP = 60.0, 30.0


@contextmanager
def private_engine(runtimes: Mapping[str, Mapping[str, Any]], images: Sequence[str]) -> Generator[str]:
    """Run a dockerd with these runtimes and images; yields its address. Skips where none can be started."""
    if os.geteuid() != 0 or not shutil.which("dockerd") or not shutil.which("unshare"):
        pytest.skip("an engine of its own needs root and dockerd")
    with tempfile.TemporaryDirectory(prefix="sbxe") as name:
        folder = Path(name)
        host = f"unix://{folder}/docker.sock"
        (folder / "daemon.json").write_text(json.dumps({"runtimes": runtimes}))
        command = ["unshare", "--mount", "--net", "dockerd", f"--config-file={folder}/daemon.json", f"--host={host}"]
        command += [f"--data-root={folder}/data", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid"]
        # Without a bridge: in namespaces of its own it has nothing to do with that of another engine.
        command += ["--bridge=none", "--iptables=false"]
        with (folder / "log").open("wb") as log:
            engine = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        try:
            _await_answer(host, engine, folder / "log")
            for image in images:
                _copy(image, host)
            yield host
        finally:
            engine.send_signal(signal.SIGTERM)
            try:
                engine.wait(STOP)
            except subprocess.TimeoutExpired:
                engine.kill()
                engine.wait()


def _await_answer(host: str, engine: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + START
    while subprocess.run(["docker", "-H", host, "version"], capture_output=True, check=False).returncode:
        starting = engine.poll() is None and time.monotonic() < end
        assert starting, log.read_text(errors="replace")[-2000:]
        time.sleep(0.2)


def _copy(image: str, host: str) -> None:
    with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as saving:
        subprocess.run(["docker", "-H", host, "load", "--quiet"], stdin=saving.stdout, check=True, capture_output=True)
    assert saving.returncode == 0
