"""Rows about trees and large files that go in and out."""

import hashlib
import os
import tempfile
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from sandboxio import CapabilityNotSupported, ConfigurationError, Enforcement, Resources, Sandbox, SandboxError

from sandboxio_contract.rows import row
from sandboxio_contract.rows.inside import need_files, need_shell, output_of
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, Inconclusive, proven, require, violated

MEBI = 2**20
SIZE_MB = 1024
ROOM_MB = 256
"""Beside the file, where a disk of memory has no more than it needs."""
GROWTH_MB = 64
"""What a transfer may add to this process's memory, whatever its size (FS-11)."""
LIFETIME = 590.0


@row("FIL-02", within=600, world=True)
async def a_gibibyte_goes_both_ways_in_constant_memory(target: Target) -> Finding:
    """FS-11: what comes back is what was sent, and this process's memory did not grow with it."""
    sb = await _with_room(target)
    target.made.add(sb.id)
    with tempfile.TemporaryDirectory(prefix="sandboxio-contract-") as folder:
        source, back = Path(folder, "source"), Path(folder, "back")
        async with sb:
            await need_files(sb)
            await target.look(_write, source, 8)
            await _both_ways(sb, source, back)  # whatever is loaded or grown once
            sent = await target.look(_write, source, SIZE_MB)
            async with constant_memory() as grown:
                await _both_ways(sb, source, back)
        require(await target.look(_digest, back) == sent, f"{SIZE_MB} MiB came back changed")
    return proven(f"{SIZE_MB} MiB up and down, unchanged; memory grew by {grown() / MEBI:.0f} MiB")


async def _with_room(target: Target) -> Sandbox:
    try:
        return await target.create(timeout=LIFETIME, resources=Resources(disk_mb=3 * SIZE_MB))
    except (CapabilityNotSupported, ConfigurationError):
        held_in_memory = Resources(disk_mb=SIZE_MB + ROOM_MB, memory_mb=2 * (SIZE_MB + ROOM_MB))
    try:
        return await target.create(timeout=LIFETIME, resources=held_in_memory)
    except (CapabilityNotSupported, ConfigurationError) as error:
        if (await target.info()).resource_caps_supported:
            raise Inconclusive(f"no sandbox with room for it: {error.message}") from error
    made = await target.create(timeout=LIFETIME)
    disk = next(item for item in made.policy if item.policy == "disk")
    held = disk.requested if isinstance(disk, Enforcement) else 0
    if not isinstance(held, (int, float)) or held < 2 * SIZE_MB:
        await made.kill()
        raise Inconclusive(f"the template's disk has no room for it: {held} MiB")
    return made


@row("FIL-03", within=90, world=True)
async def nothing_is_written_outside_a_target(target: Target) -> Finding:
    """Links that lead out, and a directory that turns into one, write nothing beside a download; no upload follows one in."""
    with tempfile.TemporaryDirectory(prefix="sandboxio-contract-") as folder:
        outside = _outside(Path(folder))
        async with target.sandbox() as sb:
            await need_shell(sb)
            outcomes = [await _downloaded(sb, name, outside, Path(folder)) for name in _hostile(outside)]
            await _uploaded(sb, Path(folder))
            await _turning(sb, outside, Path(folder))  # last: it ends a command, and maybe the sandbox with it
        require(_listing(outside) == {"kept": b"kept"}, f"a download wrote {sorted(_listing(outside))} outside")
        beside = _names(Path(folder)) - {"outside", "here", "source"}
        require(not beside, f"a download left {', '.join(sorted(beside))} beside its target")
    return proven(f"{len(outcomes)} hostile trees and a race: nothing outside ({', '.join(dict.fromkeys(outcomes))})")


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def _outside(folder: Path) -> Path:
    outside = folder / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    return outside


def _hostile(outside: Path) -> dict[str, str]:
    return {
        "absolute": f"ln -s {outside} absolute/link; ln -s {outside}/kept absolute/file; ln -s {outside}/new absolute/new",
        "upwards": "ln -s ../outside upwards/link; ln -s ../../outside/kept upwards/file; ln -s .. upwards/up",
        "names": "mkdir -p 'names/...' 'names/a\\b'; echo x > 'names/.. '; echo x > 'names/..\\x'",
    }


async def _downloaded(sb: Sandbox, name: str, outside: Path, folder: Path) -> str:
    await output_of(sb, ["sh", "-c", f"mkdir {name}; echo good > {name}/good; {_hostile(outside)[name]}"])
    here = folder / "here"
    here.mkdir(exist_ok=True)
    try:
        await sb.files.download(name, here / name)
    except SandboxError:
        require(not (here / name).exists(), f"a refused download of {name} left something behind")
        return "refused"
    for path in (here / name).rglob("*"):
        if path.is_symlink():
            inside = path.resolve().is_relative_to((here / name).resolve())
            require(inside, f"a download of {name} holds a link that leads out: {path.name} → {path.readlink()}")
    return "copied"


async def _turning(sb: Sandbox, outside: Path, folder: Path) -> None:
    """Let a directory become a link and back while it is downloaded."""
    script = f"mkdir -p turn/d; echo x > turn/d/planted; i=0; while [ $i -lt 100000 ]; do mv turn/d turn/e; ln -s {outside} turn/d; rm turn/d; mv turn/e turn/d; i=$((i+1)); done"
    async with sb.stream(["sh", "-c", script], timeout=30):
        for number in range(5):
            try:
                await sb.files.download("turn", folder / "here" / f"turn{number}")
            except SandboxError:
                continue


async def _uploaded(sb: Sandbox, folder: Path) -> None:
    """Upload over a link of the sandbox's that leads to another place of it, and a local tree with a link that leads out."""
    source = folder / "source"
    source.mkdir()
    (source / "file").write_text("uploaded")
    (source / "link").symlink_to("/etc/hostname")
    await output_of(sb, ["sh", "-c", "mkdir victim into; ln -s ../victim into/source"])
    try:
        await sb.files.upload(source, "tree")
    except SandboxError:
        return
    shown = await sb.run(["sh", "-c", "test -L tree/link || test ! -e tree/link"])
    require(shown.ok, "an upload followed a local link out of its tree")


def _listing(top: Path) -> dict[str, bytes]:
    return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


async def _both_ways(sb: Sandbox, source: Path, back: Path) -> None:
    await sb.files.upload(source, "file")
    await sb.files.download("file", back)
    await sb.files.remove("file")


def _write(path: Path, size_mb: int) -> str:
    block, digest = os.urandom(MEBI), hashlib.sha256()
    with path.open("wb") as file:
        for number in range(size_mb):
            data = number.to_bytes(8, "big") + block[8:]
            digest.update(data)
            file.write(data)
    return digest.hexdigest()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@asynccontextmanager
async def constant_memory(most_mb: int = GROWTH_MB) -> AsyncGenerator[Callable[[], int]]:
    """Convict as soon as this process has grown too much: before the machine has no memory left."""
    idle, peak, ended = _resident(), 0, threading.Event()

    def sample() -> None:
        nonlocal peak
        while not ended.wait(0.02):
            peak = max(peak, _resident() - idle)

    async def watch() -> None:
        while peak <= most_mb * MEBI:
            await anyio.sleep(0.1)
        violated(f"this process grew by {peak / MEBI:.0f} MiB, {most_mb} are allowed")

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            yield lambda: peak
            group.cancel_scope.cancel()
    finally:
        ended.set()
        sampler.join()


def _resident() -> int:
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError as error:
        raise Inconclusive(f"this process's memory can't be read: {error}") from error
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
