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
    if processes.named(settings, "dockerd"):
        wait_until_it_answers(settings)
    elif not comes_up(settings):
        # One that was killed, or whose disk was full, can leave databases that no dockerd opens again.
        print(
            f"engine: dockerd ended at once:\n{tail(settings.log_file)}\nengine: starting with empty data", flush=True
        )
        kept = set_aside(settings)
        if not comes_up(settings):
            shutil.rmtree(settings.data_root)
            kept.rename(settings.data_root)
            raise EngineError(f"dockerd ends at once, with empty data too. Its log:\n{tail(settings.log_file)}")
    print(f"engine: dockerd runs at {settings.host}; its log is {settings.log_file}", flush=True)


def install_docker() -> None:
    """Install the daemon and the command line, which newer releases package apart."""
    if not shutil.which("dockerd"):
        install(["docker.io"])
    if not shutil.which("docker"):
        install(["docker-cli"])


def comes_up(settings: Settings) -> bool:
    """Start dockerd after one that may have been killed; return whether it answers, and has not ended instead."""
    clear_leftovers(settings)
    return wait_until_it_answers(settings, launch(settings))


def set_aside(settings: Settings) -> Path:
    """Keep the data of an engine that no longer starts beside the new one's, in place of what was kept before."""
    clear_leftovers(settings)
    kept = settings.data_root.with_name(f"{settings.data_root.name}.unusable")
    if kept.exists():
        shutil.rmtree(kept)
    settings.data_root.rename(kept)
    print(f"engine: the old data is in {kept}", flush=True)
    return kept


def launch(settings: Settings) -> subprocess.Popen[bytes]:
    """Start dockerd in a session of its own, so that it outlives this shell."""
    if not settings.host.startswith("unix://"):
        raise EngineError(f"DOCKER_HOST={settings.host} does not answer, and only a unix:// engine can be started here")
    for folder in (settings.data_root, settings.exec_root):
        folder.mkdir(parents=True, exist_ok=True, mode=0o711)
    with settings.log_file.open("wb") as log:
        return subprocess.Popen(
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


def wait_until_it_answers(settings: Settings, dockerd: "subprocess.Popen[bytes] | None" = None) -> bool:
    """Poll until the engine answers; return whether it does before its process ends.

    :raises EngineError: it does neither, with the end of its log.
    """
    deadline = time.monotonic() + START_PATIENCE
    while not answers():
        if dockerd is not None and dockerd.poll() is not None:
            return False
        if time.monotonic() > deadline:
            said = tail(settings.log_file)
            raise EngineError(f"dockerd does not answer; `make engine-stop` ends it. Its log:\n{said}")
        time.sleep(0.2)
    return True


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
