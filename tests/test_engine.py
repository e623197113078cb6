"""The private engine's own code: what it takes for its own, and what it leaves alone."""

import os
import signal
import socket
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from engine import daemon, images, processes, rootfs
from engine.__main__ import main
from engine.commands import EngineError, run
from engine.settings import DEFAULT_HOST, Settings

WAITING = "import signal, sys; print(flush=True); signal.pause()"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(DEFAULT_HOST, tmp_path / "state", tmp_path / "runtime", tmp_path / "cache")


@pytest.fixture
def stand_in(settings: Settings) -> Iterator[subprocess.Popen[bytes]]:
    """A process with the name and the arguments of a dockerd of ours."""
    command = ["dockerd", "-c", WAITING, f"--pidfile={settings.pid_file}"]
    with subprocess.Popen(command, executable=sys.executable, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        yield process
        process.kill()


def test_folders_come_from_the_environment() -> None:
    found = Settings.from_environment({"DOCKER_HOST": "unix:///here.sock", "SANDBOXIO_ENGINE_STATE": "/there"})
    assert (found.host, found.data_root) == ("unix:///here.sock", Path("/there/data"))
    assert Settings.from_environment({}).host == DEFAULT_HOST


def test_a_dockerd_of_ours_is_found_by_its_arguments(settings: Settings, stand_in: subprocess.Popen[bytes]) -> None:
    found = processes.named(settings, "dockerd")
    assert found
    assert found.pid == stand_in.pid


def test_a_dockerd_of_someone_else_is_not_ours(
    settings: Settings, tmp_path: Path, stand_in: subprocess.Popen[bytes]
) -> None:
    elsewhere = Settings(DEFAULT_HOST, settings.state, tmp_path / "elsewhere", settings.cache)
    assert not processes.named(elsewhere, "dockerd")


def test_a_program_that_only_mentions_our_folder_is_not_ours(settings: Settings) -> None:
    command = [sys.executable, "-c", WAITING, f"--pidfile={settings.pid_file}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        assert not list(processes.of(settings))
        process.kill()


def test_the_same_arguments_in_another_mount_namespace_are_not_ours(
    settings: Settings, stand_in: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace = Path(f"/proc/{stand_in.pid}/ns/mnt")
    known = Path.readlink

    def as_if_it_ran_in_a_container(path: Path) -> Path:
        return Path("mnt:[1]") if path == namespace else known(path)

    monkeypatch.setattr(Path, "readlink", as_if_it_ran_in_a_container)
    assert not processes.named(settings, "dockerd")


def test_a_zombie_counts_as_dead(settings: Settings, stand_in: subprocess.Popen[bytes]) -> None:
    found = processes.named(settings, "dockerd")
    assert found
    stand_in.kill()
    os.waitid(os.P_PID, stand_in.pid, os.WEXITED | os.WNOWAIT)
    assert not found.alive()


def test_ending_a_process_asks_before_it_kills(settings: Settings, stand_in: subprocess.Popen[bytes]) -> None:
    found = processes.named(settings, "dockerd")
    assert found
    processes.end(found, patience=10)
    assert stand_in.wait() == -signal.SIGTERM


def test_stopping_when_nothing_runs_says_so(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.stop(settings)
    assert "no engine of ours is running" in capsys.readouterr().out


def test_mounts_are_named_the_innermost_first(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text("1 0 0:1 / /a rw - x x rw\n2 1 0:2 / /a/b\\040c rw - x x rw\n3 1 0:3 / /ab rw - x x rw\n")
    assert processes.mounts_below(Path("/a"), table=table) == [Path("/a/b c"), Path("/a")]


def test_a_socket_nobody_listens_on_is_removed_and_a_live_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        daemon.remove_if_dead(path)
        assert path.exists()
    daemon.remove_if_dead(path)
    assert not path.exists()


def test_only_an_engine_on_a_unix_socket_can_be_started(settings: Settings) -> None:
    remote = Settings("tcp://192.0.2.1:2375", settings.state, settings.runtime, settings.cache)
    with pytest.raises(EngineError, match="only a unix:// engine"):
        daemon.launch(remote)


def test_a_program_that_fails_is_reported_with_what_it_said() -> None:
    with pytest.raises(EngineError, match=r"status 3:\nbroken"):
        run([sys.executable, "-c", "import sys; sys.stderr.write('broken'); sys.exit(3)"])


def test_a_missing_program_is_reported_by_name() -> None:
    with pytest.raises(EngineError, match="no-such-program is not installed"):
        run(["no-such-program"])


def test_a_failing_program_with_a_log_is_reported_with_the_end_of_the_log(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="last words"):
        run([sys.executable, "-c", "import sys; print('last words'); sys.exit(1)"], log=tmp_path / "log")


def test_an_account_is_added_without_losing_a_file(tmp_path: Path) -> None:
    base, target = tmp_path / "base.tar", tmp_path / "target.tar"
    with tarfile.open(base, "w") as archive:
        rootfs.add_folder(archive, "./home")
        rootfs.add_file(archive, "./etc/passwd", b"root:x:0:0::/root:/bin/sh\n")
        rootfs.add_file(archive, "./bin/program", b"x", mode=0o4755)
    rootfs.with_user(base, target, "agent", 1000)
    with tarfile.open(target) as archive:
        assert archive.getnames() == ["./home", "./etc/passwd", "./bin/program", "./home/agent"]
        assert (archive.getmember("./bin/program").mode, archive.getmember("./home/agent").uid) == (0o4755, 1000)
        passwd = archive.extractfile("./etc/passwd")
        assert passwd
        assert passwd.read().splitlines()[1] == b"agent:x:1000:1000::/home/agent:/bin/bash"


def test_every_image_has_a_recipe_of_its_own() -> None:
    assert len({image.recipe for image in images.IMAGES}) == len(images.IMAGES)


@pytest.mark.parametrize("arguments", [[], ["destroy"], ["start", "now"]])
def test_an_unknown_verb_prints_the_usage(arguments: list[str]) -> None:
    assert (main(arguments) or "").startswith("usage:")


@pytest.mark.docker
def test_the_images_of_the_recipes_are_on_the_engine() -> None:
    assert not images.outdated()


@pytest.fixture
def engine_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Have a stand-in for dockerd, a shell script that finds its data root in ``$1`` and answers by staying alive."""
    running: list[subprocess.Popen[bytes]] = []

    def script(text: str) -> None:
        def launch(of: Settings) -> subprocess.Popen[bytes]:
            of.data_root.mkdir(parents=True, exist_ok=True)
            running.append(subprocess.Popen(["sh", "-c", text, "dockerd", str(of.data_root)]))
            return running[-1]

        monkeypatch.setattr(daemon, "launch", launch)

    def leave(path: Path) -> None:
        pass

    def answers() -> bool:
        with suppress(subprocess.TimeoutExpired, IndexError):
            running[-1].wait(0.3)
            return False
        return bool(running)

    monkeypatch.setattr(daemon, "answers", answers)
    monkeypatch.setattr(daemon, "install_docker", lambda: None)
    monkeypatch.setattr(daemon, "remove_if_dead", leave)
    yield script
    for process in running:
        process.kill()
        process.wait()


def test_data_that_no_dockerd_opens_is_set_aside(
    settings: Settings, engine_of: Callable[[str], None], capfd: pytest.CaptureFixture[str]
) -> None:
    settings.data_root.mkdir(parents=True)
    (settings.data_root / "torn").touch()
    engine_of('[ ! -e "$1/torn" ] && exec sleep 60')
    daemon.start(settings)
    assert (settings.state / "data.unusable" / "torn").exists()
    assert not (settings.data_root / "torn").exists()
    assert "starting with empty data" in capfd.readouterr().out


def test_data_stays_where_dockerd_ends_with_none_too(settings: Settings, engine_of: Callable[[str], None]) -> None:
    settings.data_root.mkdir(parents=True)
    (settings.data_root / "image").touch()
    engine_of("exit 1")
    with pytest.raises(EngineError, match="with empty data too"):
        daemon.start(settings)
    assert (settings.data_root / "image").exists()
