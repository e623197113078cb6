"""The root file system of an emulated sandbox: the host's programs read-only, everything else new and in memory."""

import fcntl
import os
import shutil
import socket
import struct
from pathlib import Path
from typing import Any

from sandboxio_contract.emulation.inside import kernel

DEVICES = ("null", "zero", "full", "random", "urandom")
SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def make_root(order: dict[str, Any]) -> None:
    """Make a root of its own: the host's programs read-only, everything else new and in memory."""
    root = str(order["root"])
    kernel.mount("none", "/", flags=kernel.REC | kernel.PRIVATE)
    kernel.mount("emulated", root, "tmpfs", kernel.NOSUID | kernel.NODEV, f"size={order['disk_mb']}m,mode=0755")
    for name in ("dev", "etc", "home", "opt", "proc", "root", "run", "srv", "tmp", "usr", "var", "var/tmp", "mnt"):
        Path(root, name).mkdir()
    for name in ("tmp", "var/tmp"):
        Path(root, name).chmod(0o1777)
    Path(root, "root").chmod(0o700)
    bind("/usr", f"{root}/usr")
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        if Path("/", name).is_symlink():
            Path(root, name).symlink_to(Path("/", name).readlink())
        elif Path("/", name).is_dir():
            Path(root, name).mkdir()
            bind(f"/{name}", f"{root}/{name}")
    make_devices(root)
    make_etc(root, order)
    for name, uid in order["homes"].items():
        home = Path(root, name.lstrip("/"))
        home.mkdir(parents=True, exist_ok=True)
        os.chown(home, uid, uid)
    kernel.mount("proc", f"{root}/proc", "proc", kernel.NOSUID | kernel.NODEV)
    os.chdir(root)
    kernel.pivot_root()
    os.chdir("/")


def bind(path: str, target: str) -> None:
    """Show a directory of the host, read-only."""
    Path(target).mkdir(parents=True, exist_ok=True)
    kernel.mount(path, target, flags=kernel.BIND | kernel.REC)
    kernel.mount("none", target, flags=kernel.BIND | kernel.REMOUNT | kernel.RDONLY | kernel.NOSUID | kernel.NODEV)


def make_devices(root: str) -> None:
    """Show the devices that every program expects."""
    for name in DEVICES:
        Path(root, "dev", name).touch()
        kernel.mount(f"/dev/{name}", f"{root}/dev/{name}", flags=kernel.BIND)
    Path(root, "dev", "shm").mkdir(mode=0o1777)
    Path(root, "dev", "shm").chmod(0o1777)
    for name, target in {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}.items():
        Path(root, "dev", name).symlink_to(target)


def make_etc(root: str, order: dict[str, Any]) -> None:
    """Write the few files of /etc that programs need, nothing of the host's own but how its libraries are found."""
    for name in ("ld.so.cache", "nsswitch.conf", "protocols", "services"):
        if Path("/etc", name).is_file():
            shutil.copy(f"/etc/{name}", f"{root}/etc/{name}")
    if Path("/etc/alternatives").is_dir():
        bind("/etc/alternatives", f"{root}/etc/alternatives")
    for name, content in order["etc"].items():
        Path(root, "etc", name).write_text(content, encoding="utf-8")


def open_loopback() -> None:
    """Let processes inside talk to each other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        fcntl.ioctl(one, SIOCSIFFLAGS, struct.pack("16sH", b"lo", IFF_UP))
