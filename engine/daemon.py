"""Starting and stopping a private dockerd."""

import shutil
import socket
import subprocess
import time
from pathlib import Path

from engine import processes
from engine.commands import EngineError, run, tail
from engine.packages import install, require_root
from engine.settings import Settings

START_PATIENCE = 60.0
STOP_PATIENCE = 30.0
SYSTEM_CONTAINERD = Path("/run/containerd/containerd.sock")


def answers() -> bool:
    """Whether the engine that a plain `docker` command would use answers."""
    if not shutil.which("docker"):
        return False
    try:
        done = subprocess.run(["docker", "version"], capture_output=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def start(settings: Settings) -> None:
    """Return once an engine answers; start our own where none does."""
    if answers():
        return
    require_root(f"no engine answers at {settings.host}, and starting one")
    install_docker()
    if answers():  # where services are started on installation
        return
    if not processes.named(settings, "dockerd"):
        clear_leftovers(settings)
        launch(settings)
    wait_until_it_answers(settings)
    print(f"engine: dockerd runs at {settings.host}; its log is {settings.log_file}", flush=True)


def install_docker() -> None:
    """Install the daemon and the command line, which newer releases package apart."""
    if not shutil.which("dockerd"):
        install(["docker.io"])
    if not shutil.which("docker"):
        install(["docker-cli"])


def launch(settings: Settings) -> None:
    """Start dockerd in a session of its own, so that it outlives this shell."""
    if not settings.host.startswith("unix://"):
        raise EngineError(f"DOCKER_HOST={settings.host} does not answer, and only a unix:// engine can be started here")
    for folder in (settings.data_root, settings.exec_root):
        folder.mkdir(parents=True, exist_ok=True, mode=0o711)
    with settings.log_file.open("wb") as log:
        subprocess.Popen(
            [
                "dockerd",
                f"--host={settings.host}",
                f"--data-root={settings.data_root}",
                f"--exec-root={settings.exec_root}",
                f"--pidfile={settings.pid_file}",
            ],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def wait_until_it_answers(settings: Settings) -> None:
    """Poll until the engine answers, and show the end of its log when it does not."""
    deadline = time.monotonic() + START_PATIENCE
    while not answers():
        if time.monotonic() > deadline:
            said = tail(settings.log_file)
            raise EngineError(f"dockerd does not answer; `make engine-stop` ends it. Its log:\n{said}")
        time.sleep(0.2)


def clear_leftovers(settings: Settings) -> None:
    """Remove what a killed engine of ours left: a pid file, a containerd without its dockerd, mounts, a dead socket.

    Called only while no dockerd of ours runs. Shims with live containers stay: the new containerd adopts them and dockerd then
    ends their containers, which killing the shims would not.
    """
    settings.pid_file.unlink(missing_ok=True)
    containerd = processes.named(settings, "containerd")
    if containerd:
        processes.end(containerd, STOP_PATIENCE)
    (settings.exec_root / "containerd" / "containerd.pid").unlink(missing_ok=True)
    if not any(processes.of(settings)):
        for mount in processes.mounts_below(settings.data_root, settings.exec_root):
            run(["umount", "--lazy", str(mount)])
    remove_if_dead(SYSTEM_CONTAINERD)


def remove_if_dead(path: Path) -> None:
    """Remove a socket nobody listens on: dockerd takes the mere file for a running containerd and waits for it forever."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()


def stop(settings: Settings) -> None:
    """End the dockerd that `start` started, and nothing else."""
    dockerd = processes.named(settings, "dockerd")
    if not dockerd:
        print("engine: no engine of ours is running")
        return
    processes.end(dockerd, STOP_PATIENCE)
    clear_leftovers(settings)
    print("engine: stopped")
