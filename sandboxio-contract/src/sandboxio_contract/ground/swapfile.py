"""Swap for the time of a row: a memory cap that does not bound swap shows itself only where there is some."""

import contextlib
import os
import subprocess
from collections.abc import Generator
from pathlib import Path

from sandboxio_contract.verdict import Inconclusive

SIZE_MB = 256
PREFIX = "sandboxio-contract-"
FOLDERS = (Path("/var/tmp"), Path("/var/lib"))  # a swap file needs a real file system, which /tmp often is not


@contextlib.contextmanager
def swap_present(size_mb: int = SIZE_MB) -> Generator[str]:
    """Have swap, made for the block and removed in any case, unless the host has enough of its own; yield what it is.

    :raises Inconclusive: none can be made here.
    """
    if free_swap_mb() >= size_mb:
        yield "the host's own swap"
        return
    if os.geteuid() != 0:
        raise Inconclusive("there is no swap on this host, and making some needs root")
    path = _make(size_mb)
    try:
        _tool("mkswap", str(path))
        _tool("swapon", str(path))
        if str(path) not in Path("/proc/swaps").read_text(encoding="utf-8"):
            raise Inconclusive("the swap file was accepted, but /proc/swaps does not list it")
        yield f"a swap file of {size_mb} MiB"
    finally:
        remove(path)


def free_swap_mb() -> int:
    """Return how much swap is free on this host, MiB."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("SwapFree:"):
            return int(line.split()[1]) // 1024
    return 0


def remove(path: Path) -> None:
    """Stop using a swap file and delete it; one that is not in use or not there is success."""
    subprocess.run(["swapoff", str(path)], capture_output=True, check=False)
    path.unlink(missing_ok=True)


def remove_leftovers() -> list[str]:
    """Remove the swap files that killed runs left behind; return their paths."""
    found = [path for folder in FOLDERS for path in folder.glob(f"{PREFIX}*.swap") if not _owner_alive(path)]
    for path in found:
        remove(path)
    return [str(path) for path in found]


def _owner_alive(path: Path) -> bool:
    owner = path.name.removeprefix(PREFIX).split(".")[0].split("-")[0]
    return owner.isdigit() and Path("/proc", owner).exists()


def _make(size_mb: int) -> Path:
    for folder in FOLDERS:
        path = folder / f"{PREFIX}{os.getpid()}-{os.urandom(3).hex()}.swap"
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError:
            continue
        try:
            with os.fdopen(descriptor, "wb") as file:
                for _ in range(size_mb):  # written out: a file with holes is no swap
                    file.write(bytes(1024 * 1024))
        except OSError as error:
            path.unlink(missing_ok=True)
            raise Inconclusive(f"no room for a swap file of {size_mb} MiB in {folder}: {error}") from error
        return path
    raise Inconclusive("no folder of this host takes a swap file")


def _tool(*argv: str) -> None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        raise Inconclusive(f"{argv[0]} can't be used here: {error}") from error
    if done.returncode != 0:
        raise Inconclusive(f"{argv[0]} failed: {done.stderr.strip() or done.returncode}")
