"""Sandboxes of this machine: what they can do, what holds them, and how they end."""

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import anyio
import pytest
import sandboxio
from sandboxio import CapabilityNotSupported, NetworkPolicy, ResourceLimitExceeded, Resources
from sandboxio_bubblewrap import command, state, tarball
from sandboxio_bubblewrap.backend import BubblewrapBackend
from sandboxio_bubblewrap.config import BubblewrapConfig
from sandboxio_bubblewrap.handle import WardenRefuses, handle

from .ground import groups_of, owner, until
from .specs import spec_of

pytestmark = [pytest.mark.bubblewrap, pytest.mark.anyio]

DSN = "bubblewrap://"
BOMB = """
import os, time
try:
    while os.fork(): pass
except OSError: print("full", flush=True)
time.sleep(60)
"""


async def test_a_sandbox_runs_commands_code_and_files_and_leaves_nothing() -> None:
    async with sandboxio.create(DSN, env={"GREETING": "hi"}, secrets={"TOKEN": "not-a-real-token"}) as sb:
        assert sb.cwd == "/work"
        result = await sb.run('id -u; pwd; echo $GREETING $TOKEN; echo err >&2; awk "BEGIN { print 6 * 7 }"; exit 3')
        assert (result.exit_code, result.stderr) == (3, "err\n")
        assert result.stdout == "1000\n/work\nhi not-a-real-token\n42\n"
        assert (await sb.run_code("import ssl, sys; print(sys.version_info[:2])")).stdout == f"{sys.version_info[:2]}\n"
        await sb.files.write("note", b"kept")
        assert await sb.files.read("note") == b"kept"
        assert len(groups_of(sb.id)) in (1, 3)
        assert (await sandboxio.list_managed(DSN))[-1].backend == "bubblewrap"
    assert await anyio.to_thread.run_sync(until, lambda: not groups_of(sb.id))
    assert state.read(sb.id) is None


async def test_only_bounded_places_can_be_written_to() -> None:
    async with sandboxio.create(DSN, resources=Resources(disk_mb=8)) as sb:
        for place in ("/usr/x", "/etc/x", "/proc/x", "/dev/x", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
            assert not (await sb.run(["sh", "-c", f"echo 1 > {place}"])).ok, place
        wrote = await sb.run("for at in /work /tmp /home/sandbox /; do head -c 6000000 /dev/zero > $at/big; done")
        assert "No space left" in wrote.stderr
        assert int((await sb.run("du -sk --one-file-system / | cut -f1")).stdout) <= 8 * 1024


async def test_hitting_the_memory_cap_is_told() -> None:
    async with sandboxio.create(DSN, resources=Resources(memory_mb=64)) as sb:
        with pytest.raises(ResourceLimitExceeded) as hit:
            await sb.run(["python3", "-c", "print('begun', flush=True); held = b'x' * 200_000_000"])
        assert (hit.value.limit, hit.value.value, hit.value.stdout) == ("memory_mb", 64, "begun\n")
        assert (await sb.run(["true"])).ok


async def test_hitting_the_process_cap_is_told() -> None:
    async with sandboxio.create(DSN, resources=Resources(pids=24)) as sb:
        async with sb.stream(["python3", "-c", BOMB]) as bomb:
            await anext(bomb)
            with pytest.raises(ResourceLimitExceeded) as hit:
                await sb.run(["true"])
        assert hit.value.limit == "pids"
        assert (await sb.run(["true"])).ok


async def test_a_processor_is_shared_as_planned() -> None:
    async with sandboxio.create(DSN, resources=Resources(cpu=0.25)) as sb:
        cpu = await sb.run_code(
            "import time\nwhile time.monotonic() % 1 < 2:\n    if time.process_time() > 0.5: break\nprint(1)"
        )
        assert cpu.duration > 1.0  # half a second of work at a quarter of a core


async def test_connect_and_detach_are_refused() -> None:
    async with sandboxio.create(DSN) as sb:
        with pytest.raises(CapabilityNotSupported, match="ends with its owner"):
            await sandboxio.connect(DSN, sb.id)
        with pytest.raises(CapabilityNotSupported, match="ends with its owner"):
            await sb.detach()
        assert (await sb.run(["true"])).ok


@pytest.mark.parametrize("fork", [False, True])
async def test_the_end_of_an_owner_is_the_end_of_its_sandboxes(fork: bool) -> None:
    mark = f"{os.getpid()}-{fork}"
    with owner(mark, 3, fork=fork) as process:
        assert process.stdout
        names = json.loads(await anyio.to_thread.run_sync(process.stdout.readline))
        listed = await sandboxio.list_managed(DSN, labels={"owner": mark})
        assert sorted(one.sandbox_id for one in listed) == sorted(names)
        process.kill()
        gone = await anyio.to_thread.run_sync(until, lambda: not any(groups_of(name) for name in names))
        assert gone
        assert await sandboxio.list_managed(DSN, labels={"owner": mark}) == []


async def test_the_end_of_a_warden_is_the_end_of_its_sandboxes_and_the_next_one_cleans_up() -> None:
    mark = f"{os.getpid()}-warden"
    with owner(mark) as process:
        assert process.stdout
        (name,) = json.loads(await anyio.to_thread.run_sync(process.stdout.readline))
        record = state.read(name)
        assert record
        os.kill(record["warden"][0], signal.SIGKILL)
        assert await anyio.to_thread.run_sync(until, lambda: not state.is_alive(record))
        assert await sandboxio.list_managed(DSN, labels={"owner": mark}) == []  # which sweeps
        assert (groups_of(name), state.read(name)) == ([], None)


async def test_a_sandbox_of_another_process_can_be_killed_by_its_full_id() -> None:
    with owner(f"{os.getpid()}-killed") as process:
        assert process.stdout
        (name,) = json.loads(await anyio.to_thread.run_sync(process.stdout.readline))
        with pytest.raises(sandboxio.ConfigurationError):
            await sandboxio.kill_managed(DSN, name[:12])
        await sandboxio.kill_managed(DSN, name)
        assert await anyio.to_thread.run_sync(until, lambda: (groups_of(name), state.read(name)) == ([], None))
        assert process.poll() is None


def copy_of_python(root: Path) -> None:
    """Put the running Python, its library and what it is linked with into a root directory."""
    prefix = Path(sys.base_prefix)
    library = Path(sysconfig.get_path("stdlib"))
    ignored = shutil.ignore_patterns("test", "site-packages", "__pycache__", "idlelib", "tkinter", "config-*", "*.a")
    shutil.copytree(library, root / "usr" / library.relative_to(prefix), ignore=ignored)
    (root / "usr" / "bin").mkdir()
    shutil.copy2(Path(sys.executable).resolve(), root / "usr" / "bin" / "python3")
    linked = [sys.executable, *map(str, (library / "lib-dynload").glob("*.so"))]
    said = subprocess.run(["ldd", *linked], capture_output=True, text=True, check=True).stdout
    for path in {Path(word) for word in said.split() if word.startswith("/") and not word.endswith(":")}:
        # The directory of the running Python, which may be below /root, is no part of a template.
        known = path.is_relative_to("/usr") or path.is_relative_to("/lib") or path.is_relative_to("/lib64")
        place = root / (str(path.parent.resolve())[1:] if known else "usr/lib") / path.name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place)
    for top in (path for path in Path("/").iterdir() if path.is_symlink() and path.name.startswith("lib")):
        (root / top.name).symlink_to(top.readlink())


async def test_a_root_directory_is_a_template(tmp_path: Path) -> None:
    root = tmp_path / "rootfs"
    for name in ("etc", "srv", "home"):
        (root / name).mkdir(parents=True)
    (root / "srv" / "here").write_text("of the template\n")
    (root / "etc" / "hosts").write_text("198.51.100.1 of.the.template\n")
    (root / "home" / "not-shown").touch()
    copy_of_python(root)
    async with sandboxio.create(f"bubblewrap://{root}") as sb:
        seen = "import os; print(open('/srv/here').read(), open('/etc/hosts').read().split()[1], os.listdir('/home'))"
        assert (await sb.run_code(seen)).stdout == "of the template\n localhost ['sandbox']\n"
        assert not (await sb.run(["python3", "-c", "open('/srv/x', 'w')"])).ok


async def test_a_root_directory_in_an_archive_is_a_template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tarball, "cache", lambda: tmp_path / "cache")
    (tmp_path / "rootfs").mkdir()
    copy_of_python(tmp_path / "rootfs")
    with tarfile.open(tmp_path / "image.tar", "w") as archive:
        archive.add(tmp_path / "rootfs", ".")
    said: list[str] = []
    for _ in range(2):
        async with sandboxio.create(f"bubblewrap://{tmp_path}/image.tar", on_progress=said.append) as sb:
            assert (await sb.run_code("import sys; print(sys.executable)")).stdout == "/usr/bin/python3\n"
    assert said == [f"unpacking {tmp_path}/image.tar"]


async def test_a_template_without_python_is_refused_with_the_fix(tmp_path: Path) -> None:
    (tmp_path / "srv").mkdir()
    with pytest.raises(sandboxio.CreationError) as refused:
        await sandboxio.create(f"bubblewrap://{tmp_path}")
    assert "python3" in str(refused.value)


async def test_sharing_the_network_is_seen_and_said() -> None:
    async with sandboxio.create(f"{DSN}?share_network=1", network=NetworkPolicy(egress="allow")) as sb:
        shared = Path("/proc/self/ns/net").readlink()
        assert (await sb.run(["readlink", "/proc/self/ns/net"])).stdout.strip() == str(shared)
        (item,) = [one for one in sb.policy if one.policy == "network.egress"]
        assert isinstance(item, sandboxio.Enforcement)
        assert item.residuals


async def test_a_sandbox_that_is_never_opened_ends_with_its_backend() -> None:
    backend, spec = BubblewrapBackend(BubblewrapConfig()), spec_of()
    name = await backend.provision(backend.plan(spec, await backend.probe(spec)))
    seen = await backend.observe(name)
    assert seen
    assert {"cpu", "memory", "memory.swap", "pids", "disk", "labels", "isolation", "network.egress"} <= set(
        seen.applied
    )
    await backend.aclose()
    assert await anyio.to_thread.run_sync(until, lambda: not groups_of(name))


async def test_a_program_that_can_not_be_started_leaves_nothing() -> None:
    backend, spec = BubblewrapBackend(BubblewrapConfig()), spec_of()
    order = command.order(backend.plan(spec, await backend.probe(spec)))
    order["argv"] = ["/nowhere/bwrap"]
    with pytest.raises(WardenRefuses, match="No such file"):
        await anyio.to_thread.run_sync(handle().start, order, (0, 1, 2))
    assert (groups_of(spec.create_id), state.read(spec.create_id)) == ([], None)
