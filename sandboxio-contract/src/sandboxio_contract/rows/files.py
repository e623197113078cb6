"""Rows about files."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
from sandboxio import (
    CapabilityNotSupported,
    FileSystemError,
    IsADirectory,
    NotADirectory,
    PathExists,
    PathNotFound,
    ResourceLimitExceeded,
    Sandbox,
    SandboxError,
)

from sandboxio_contract.rows import row
from sandboxio_contract.rows.inside import output_of, raises
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, Inconclusive, proven, require

SIZES = (0, 1, 98_304, 131_072, 1_048_577)
NAMES = (
    "with space",
    "new\nline",
    "é日\U0001f389",
    "-delete",
    "-rf",
    "quote'\"",
    "*",
    "$HOME",
    "`id`",
    "tab\t",
    ".hidden",
)


@row("FIL-01", within=90, world=True)
async def files_are_exact(target: Target) -> Finding:
    """Contents byte for byte, hostile names, links, and the right error for each wrong path (FS-01, FS-03, FS-05, FS-14, ENC-06)."""
    async with target.sandbox() as sb:
        try:
            await sb.files.write("first", b"")
        except SandboxError as error:
            if isinstance(error, (FileSystemError, ResourceLimitExceeded)):
                raise
            raise Inconclusive(f"no files here: {error.message}") from error
        await _contents(sb)
        await _names(sb)
        await _directories(sb)
        await _links(sb)
        await _special(sb)
        await _tree(sb)
    return proven(f"{len(SIZES)} sizes, {len(NAMES)} hostile names, directories, links, special files, a tree and back")


async def _contents(sb: Sandbox) -> None:
    files = sb.files
    for size in SIZES:
        data = os.urandom(size)
        await files.write("data", data)
        require(await files.read("data") == data, f"{size} bytes do not come back as they were")
        require((await files.stat("data")).size == size, f"stat gives another size than {size}")
        counted = await output_of(sb, ["wc", "-c", "data"])
        require(int(counted.split()[0]) == size, f"a command sees {counted.split()[0]} bytes of {size}")
    border = b"a" * 8190 + "가나다".encode()
    await files.write("border", border)
    require(await files.read("border") == border, "text is changed at the border of 8192 bytes")
    await files.write("text", "é\r\n")
    require(await files.read("text") == "é\r\n".encode(), "text is not written as it is")
    require(await files.read_text("text") == "é\r\n", "text does not come back as it was")


async def _names(sb: Sandbox) -> None:
    files = sb.files
    await files.mkdir("names")
    for name in NAMES:
        await files.write(f"names/{name}", name.encode())
    for name in NAMES:
        require(await files.read(f"names/{name}") == name.encode(), f"the file {name!r} does not come back")
    listed = [entry.path.rpartition("/")[2] for entry in await files.ls("names")]
    require(sorted(listed) == sorted(NAMES), f"ls gives {listed!r}")
    await files.mkdir("-m777x")
    require(await files.ls("-m777x") == [], "a directory whose name looks like an option is not empty")
    for name in NAMES:
        await files.remove(f"names/{name}")
    require(await files.ls("names") == [], "removed files are still listed")
    for wrong in ("a\0b", ""):
        await raises(SandboxError, files.write(wrong, b"x"), f"write({wrong!r})")


async def _directories(sb: Sandbox) -> None:
    files = sb.files
    await files.write("tree/deep/er/file", b"1")  # missing parents are made
    await files.mkdir("tree/deep", parents=True)
    await raises(PathExists, files.mkdir("tree"), "mkdir of what exists")
    await raises(PathNotFound, files.mkdir("no/parent"), "mkdir without its parent")
    await raises(IsADirectory, files.read("tree"), "read of a directory")
    await raises(NotADirectory, files.ls("data"), "ls of a file")
    await raises(FileSystemError, files.remove("tree"), "remove of a directory that is not empty")
    info = await files.stat("tree")
    require(info.is_dir and info.path == f"{sb.cwd.rstrip('/')}/tree", f"stat of a directory gives {info!r}")
    missing: dict[str, Callable[[], Any]] = {
        "read": lambda: files.read("nope"),
        "ls": lambda: files.ls("nope"),
        "stat": lambda: files.stat("nope"),
        "remove": lambda: files.remove("nope"),
    }
    for name, call in missing.items():
        await raises(PathNotFound, call(), f"{name} of a missing path")
    await files.remove("tree", recursive=True)
    require(not await files.exists("tree"), "a removed tree is still there")
    require(await files.exists("data"), "removing a tree took a file beside it")


async def _links(sb: Sandbox) -> None:
    files = sb.files
    await output_of(sb, ["ln", "-s", "data", "link"])
    await output_of(sb, ["ln", "-s", "nowhere", "broken"])
    await output_of(sb, ["ln", "-s", "loop", "loop"])
    require(await files.read("link") == await files.read("data"), "a link is not followed")
    require(await files.exists("link") and not await files.exists("broken"), "exists() is wrong about links")
    entries = {entry.path.rpartition("/")[2]: entry for entry in await files.ls(".")}
    require(entries["link"].is_symlink and entries["link"].size == entries["data"].size, f"{entries['link']!r}")
    require(entries["broken"].is_symlink and entries["broken"].size == 0, "a broken link is not listed with size 0")
    await raises(PathNotFound, files.read("broken"), "read of a broken link")
    with anyio.fail_after(10):
        await raises(FileSystemError, files.read("loop"), "read of a link to itself")
    await files.remove("link")
    require(await files.exists("data"), "removing a link removed what it points to")


async def _special(sb: Sandbox) -> None:
    files = sb.files
    made = await sb.run(["mkfifo", "fifo"])
    with anyio.move_on_after(10) as waited:
        if made.ok:
            await raises(FileSystemError, files.read("fifo"), "read of a FIFO")
        await raises(FileSystemError, files.read("/dev/zero"), "read of a device")
    require(not waited.cancelled_caught, "reading a FIFO or device was waited for")


async def _tree(sb: Sandbox) -> None:
    """Send a tree there and back: it has hostile names, an empty directory and file, a program and a link."""
    with tempfile.TemporaryDirectory(prefix="sandboxio-contract-") as folder:
        source, back = Path(folder, "source"), Path(folder, "back")
        _plant(source)
        try:
            await sb.files.upload(source, "sent")
            await sb.files.download("sent", back)
        except CapabilityNotSupported as error:
            raise Inconclusive(f"no tree goes in or out here: {error.message}") from error
        sent, came = _grown(source), _grown(back)
    lost = sorted(sent.keys() ^ came.keys())
    require(not lost, f"of a tree that went there and back these differ: {lost!r}")
    changed = [name for name in sent if sent[name] != came[name]]
    require(not changed, f"of a tree that went there and back these came changed: {changed!r}")


def _plant(top: Path) -> None:
    for folder in ("deep/er", "empty"):
        (top / folder).mkdir(parents=True)
    for name in NAMES:
        (top / "deep" / name).write_text(name, encoding="utf-8")
    (top / "nothing").touch()
    (top / "program").write_bytes(b"#!/bin/sh\nexit 7\n")
    (top / "program").chmod(0o755)
    (top / "link").symlink_to("deep/er")


def _grown(top: Path) -> dict[str, object]:
    """Return what a tree holds by name: contents and whether it is a program, or where a link leads."""
    found: dict[str, object] = {}
    for path in top.rglob("*"):
        name = str(path.relative_to(top))
        if path.is_symlink():
            found[name] = str(path.readlink())
        else:
            found[name] = None if path.is_dir() else (path.read_bytes(), bool(path.stat().st_mode & 0o100))
    return found
