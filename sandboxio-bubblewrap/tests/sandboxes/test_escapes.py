"""Ways out of a sandbox. Each is first made on this machine itself, where it works: one that can't work proves nothing."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
import sandboxio

pytestmark = [pytest.mark.bubblewrap, pytest.mark.anyio]

CALL = """
import ctypes, os, errno
libc = ctypes.CDLL(None, use_errno=True)
def call(*a):
    r = libc.syscall(*a)
    return 'done' if r >= 0 else errno.errorcode[ctypes.get_errno()]
"""
X86 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86_64")
KEYCTL, USERFAULT, UNSHARE, PERF = 250, 323, 272, 298


@pytest.fixture
async def sb() -> AsyncIterator[sandboxio.Sandbox]:
    async with sandboxio.create("bubblewrap://") as made:
        yield made


async def said(sb: sandboxio.Sandbox, code: str) -> str:
    result = await sb.run(["python3", "-c", code])
    assert result.ok, result.stderr
    return result.stdout.strip()


def here(code: str) -> str:
    """Run the same on this machine."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


async def test_processes_of_the_host_are_neither_seen_nor_signalled(sb: sandboxio.Sandbox) -> None:
    with subprocess.Popen(["sleep", "60"]) as victim:
        code = f"import os\ntry:\n    os.kill({victim.pid}, 0); print('reached')\nexcept OSError as e: print(type(e).__name__)"
        assert here(code) == "reached"
        assert await said(sb, code) == "ProcessLookupError"
        ptrace = CALL + f"print(libc.ptrace(16, {victim.pid}, 0, 0) and errno.errorcode[ctypes.get_errno()])"
        assert await said(sb, ptrace) == "ESRCH"
        victim.kill()
    pids = await said(sb, "import os; print(len([p for p in os.listdir('/proc') if p.isdigit()]))")
    assert int(pids) < 12


async def test_the_first_process_is_closed(sb: sandboxio.Sandbox) -> None:
    code = """
import os
for name in ("root", "cwd", "fd", "mem", "environ", "ns/mnt"):
    try:
        (os.listdir if name in ("root", "fd") else os.readlink if "/" in name or name == "cwd" else open)(f"/proc/PID/{name}")
        print(name)
    except OSError: pass
"""
    assert {"root", "fd", "mem"} <= set(here(code.replace("PID", str(os.getpid()))).split())
    assert await said(sb, code.replace("PID", "1")) == ""


async def test_sockets_of_the_host_are_not_reached(sb: sandboxio.Sandbox, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as abstract, socket.socket(socket.AF_UNIX) as named:
        abstract.bind(f"\0sandboxio-test-{os.getpid()}")
        named.bind(str(tmp_path / "s"))
        for one in (abstract, named):
            one.listen()
        code = f"""
import socket
for address in ("\\0sandboxio-test-{os.getpid()}", {str(tmp_path / "s")!r}):
    s = socket.socket(socket.AF_UNIX)
    try: s.connect(address); print("reached")
    except OSError as e: print(type(e).__name__)
"""
        assert here(code) == "reached\nreached"
        assert await said(sb, code) == "ConnectionRefusedError\nFileNotFoundError"


async def test_nothing_of_the_hosts_user_or_secrets_is_there(sb: sandboxio.Sandbox) -> None:
    listed = await said(
        sb, "import os; print(*sorted(os.listdir('/')), '|', *os.listdir('/home'), '|', *os.listdir('/run'))"
    )
    assert listed.endswith("| sandbox |")
    assert not {"var", "opt", "srv", "boot", "mnt"} & set(listed.split())
    assert set((await said(sb, "import os; print(*os.listdir('/etc'))")).split()) <= {
        *("passwd", "group", "hosts", "hostname", "nsswitch.conf", "resolv.conf", "ld.so.cache", "alternatives"),
        *("ssl", "ca-certificates", "pki"),
    }
    names = set((await said(sb, "import os; print(*os.environ)")).split())
    assert names <= {"PATH", "HOME", "USER", "LANG", "PWD"}


BUSY_OWNER = """
import os, sys, anyio, sandboxio
held = [os.open("/dev/null", os.O_RDONLY) for _ in range(300)]
for one in held:
    os.set_inheritable(one, True)
async def main():
    async with sandboxio.create("bubblewrap://") as sb:
        print((await sb.run(["python3", "-c", sys.argv[1]])).stdout)
anyio.run(main)
"""
OPEN = "import os; print(*[n for n in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}')])"


def test_nothing_of_an_owner_with_many_descriptors_leaks() -> None:
    """The socket to the warden leaked where its number was over a hundred."""
    done = subprocess.run([sys.executable, "-c", BUSY_OWNER, OPEN], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("0 1 2", 0), done.stderr


async def test_no_descriptor_or_terminal_leaks(sb: sandboxio.Sandbox) -> None:
    leaked, leak = os.pipe()
    os.set_inheritable(leak, True)
    try:
        async with sandboxio.create("bubblewrap://") as other:
            assert await said(other, OPEN) == "0 1 2"
            status = await said(
                other, "try: open('/dev/tty'); print('a terminal')\nexcept OSError as e: print(e.errno)"
            )
            assert status == "6"
    finally:
        os.close(leaked)
        os.close(leak)


async def test_read_only_places_stay_so(sb: sandboxio.Sandbox) -> None:
    code = (
        CALL
        + "import ctypes\nprint(libc.mount(b'', b'/usr', None, 32 | 4096, None), errno.errorcode[ctypes.get_errno()])"
    )
    assert await said(sb, code) == "-1 EPERM"
    assert not (await sb.run("chmod 777 /usr; touch /usr/x")).ok


async def test_a_link_out_of_the_sandbox_leads_nowhere(sb: sandboxio.Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    await sb.run(["ln", "-s", str(secret), "/work/link"])
    assert not await sb.files.exists("/work/link")
    with pytest.raises(sandboxio.SandboxError):
        await sb.files.read("/work/link")


async def test_programs_that_change_their_user_do_not(sb: sandboxio.Sandbox) -> None:
    code = "import os; print(*[f for d in ('/usr/bin', '/usr/sbin') for f in os.listdir(d) if os.lstat(f'{d}/{f}').st_mode & 0o4000])"
    special = (await said(sb, code)).split()
    status = await said(sb, "print(open('/proc/self/status').read())")
    assert "NoNewPrivs:\t1" in status
    for line in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert f"{line}:\t0000000000000000" in status
    if "su" in special:
        assert not (await sb.run(["su", "-c", "true"])).ok
    assert "nosuid" in (await sb.run("grep ' /usr ' /proc/mounts")).stdout


@X86
async def test_calls_past_the_namespaces_are_refused(sb: sandboxio.Sandbox) -> None:
    code = (
        CALL
        + f"print(call({KEYCTL}, 0, -3, 1), call({USERFAULT}, 1), call({UNSHARE}, 0x10000000), call({PERF}, 0, 0, -1, -1, 0))"
    )
    there = here(code).split()
    assert there[0] == "done"
    assert there[2] == "done"
    assert await said(sb, code) == "EPERM EPERM EPERM EPERM"


async def test_no_further_user_namespace_is_made_whoever_asks(sb: sandboxio.Sandbox) -> None:
    assert not (await sb.run(["unshare", "--user", "true"])).ok


async def test_raw_and_foreign_sockets_are_refused(sb: sandboxio.Sandbox) -> None:
    code = """
import socket
for family, kind in ((2, socket.SOCK_RAW), (17, socket.SOCK_RAW), (40, socket.SOCK_STREAM), (38, socket.SOCK_SEQPACKET)):
    try: socket.socket(family, kind, 1 if family == 2 else 0); print("made")
    except OSError as e: print(type(e).__name__)
"""
    assert set((await said(sb, code)).split()) <= {"PermissionError", "OSError"}


async def test_nothing_can_be_typed_into_a_terminal(sb: sandboxio.Sandbox) -> None:
    code = """
import fcntl, os, pty
master, slave = pty.openpty()
for request in (0x5412, 0x541C):
    try: fcntl.ioctl(slave, request, b"x"); print("typed")
    except OSError as e: print(e.errno)
"""
    assert await said(sb, code) == "1\n1"


async def test_what_the_kernel_tells_of_the_machine_is_masked(sb: sandboxio.Sandbox) -> None:
    code = """
for name in ("kcore", "keys", "timer_list", "kallsyms"):
    try: print(*[name for _ in open("/proc/" + name, "rb").read(1)])
    except OSError: pass
"""
    assert "kallsyms" in here(code)
    assert (await said(sb, code)).split() == []
    wrote = await sb.run("echo x > /proc/sys/kernel/core_pattern; echo b > /proc/sysrq-trigger")
    assert not wrote.ok


async def test_two_sandboxes_share_nothing(sb: sandboxio.Sandbox) -> None:
    async with sandboxio.create("bubblewrap://") as other:
        await sb.run("echo mine > /tmp/mine; echo mine > /dev/shm/mine")
        assert (await other.run("ls /tmp /dev/shm")).stdout == "/dev/shm:\n\n/tmp:\n"
        spaces = "import os; print(*[os.readlink('/proc/self/ns/' + n) for n in ('mnt', 'pid', 'net', 'ipc', 'uts', 'user', 'cgroup')])"
        one, two, outside = (await said(sb, spaces)).split(), (await said(other, spaces)).split(), here(spaces).split()
        assert not set(one) & set(two)
        assert not set(one) & set(outside)


async def test_the_sandbox_is_nobodys_user_on_this_machine_where_root_makes_it(sb: sandboxio.Sandbox) -> None:
    pid = sb.native
    assert isinstance(pid, int)
    uid = Path(f"/proc/{pid}/status").read_text().split("Uid:\t")[1].split("\t")[0]
    assert int(uid) >= 2**30 if os.geteuid() == 0 else int(uid) == os.geteuid()


async def test_a_hundred_commands_at_once_in_many_sandboxes() -> None:
    async def one() -> None:
        async with sandboxio.create("bubblewrap://") as made:
            assert (await made.run(["true"])).ok

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(one)
    assert threading.active_count() < 60
