"""Two ways of ssh for tests: a program that only looks like it, and a private sshd on the loopback interface."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from pwd import getpwuid

from engine import ssh

FAKE = """#!{python} -IS
import os, socket, sys, threading

with open({log!r}, "a") as log:
    print(repr((os.getpid(), sys.argv[1:])), file=log)
{first}
engine = socket.socket(socket.AF_UNIX)
engine.connect({engine!r})


def forth():
    while data := os.read(0, 65536):
        engine.sendall(data)
    engine.shutdown(socket.SHUT_WR)


threading.Thread(target=forth, daemon=True).start()
while data := engine.recv(65536):
    os.write(1, data)
os._exit(0)
"""
SSHD = """
HostKey {folder}/host_key
PidFile {folder}/sshd.pid
AuthorizedKeysFile {folder}/user_key.pub
ListenAddress 127.0.0.1
Port {port}
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
SetEnv DOCKER_HOST={engine}
"""
CLIENT = """
IdentityFile {folder}/user_key
IdentitiesOnly yes
UserKnownHostsFile {folder}/known_hosts
GlobalKnownHostsFile /dev/null
"""


@dataclass
class FakeSsh:
    """A program of that name that connects to a unix socket, after doing what a test tells it to do first."""

    folder: Path
    engine: str

    def install(self, first: str = "") -> None:
        text = FAKE.format(python=sys.executable, log=str(self._log), engine=self.engine, first=first)
        write_program(self.folder / "ssh", text)

    def fail(self, words: str, code: int = 255) -> None:
        self.install(f"sys.stderr.write({words!r}); sys.exit({code})")

    @property
    def runs(self) -> list[tuple[int, list[str]]]:
        """Process number and arguments of each run."""
        return [eval(line) for line in self._log.read_text().splitlines()] if self._log.exists() else []

    @property
    def living(self) -> list[int]:
        return [pid for pid, _ in self.runs if is_alive(pid)]

    @property
    def _log(self) -> Path:
        return self.folder / "log"


@dataclass
class Sshd:
    """A private sshd, and a folder whose ``ssh`` is the system's with a configuration of its own."""

    folder: Path
    port: int
    user: str = getpwuid(os.getuid()).pw_name

    @property
    def host(self) -> str:
        return f"ssh://{self.user}@127.0.0.1:{self.port}"

    def forget_host_key(self) -> None:
        (self.folder / "known_hosts").write_text("")

    def change_host_key(self) -> None:
        key = (self.folder / "user_key.pub").read_text().split()
        (self.folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {key[0]} {key[1]}\n")


@contextlib.contextmanager
def sshd(folder: Path) -> Generator[Sshd, None, None]:
    """Run one; it is ended by its process number."""
    for name in ("host_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    engine = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    (folder / "sshd_config").write_text(SSHD.format(folder=folder, port=port, engine=engine))
    (folder / "ssh_config").write_text(CLIENT.format(folder=folder))
    host_key = (folder / "host_key.pub").read_text().split()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key[0]} {host_key[1]}\n")
    write_program(folder / "ssh", f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/ssh_config "$@"\n')
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(
            mode=0o755, exist_ok=True
        )  # where its unprivileged half lives; made by systemd elsewhere
    with (folder / "log").open("wb") as log:
        command = [ssh.found("sshd") or "sshd", "-D", "-e", "-f", str(folder / "sshd_config")]
        with subprocess.Popen(command, stderr=log) as process:
            try:
                _wait_for(port, process)
                yield Sshd(folder, port)
            finally:
                process.terminate()


def write_program(file: Path, text: str) -> None:
    # Under another name first: a program that is open for writing can't be started.
    draft = file.with_suffix(".draft")
    draft.write_text(text)
    draft.chmod(0o755)
    draft.rename(file)


def is_alive(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), 1) as knock:
            knock.recv(1)
            return
        time.sleep(0.02)
    raise AssertionError("sshd does not listen")
