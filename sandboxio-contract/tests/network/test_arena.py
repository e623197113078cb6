"""The arena, and liars inside it: each claims to deny, and each is convicted or at least never proven."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import sandboxio_contract
from sandboxio_contract.network import Arena, Checks, NotProvable, Outcome, Verdict, judge, parse_probe, probe_command

pytestmark = pytest.mark.network

LINK = "sbxc0"
EVERYWHERE = frozenset({"tcp4-80", "tcp4-443", "tcp4-53", "udp4", "icmp4", "dns4-udp", "dns4-tcp", "metadata"})
VERSION6 = frozenset({"tcp6-80", "tcp6-443", "udp6", "icmp6", "dns6-udp", "dns6-tcp"})
NAMES = frozenset({"dns-lookup", "dns-configured", "dns4-udp", "dns4-public", "dns6-udp", "dns6-public"})


def probe(arena: Arena, checks: Checks, around: Sequence[str] = ()) -> Outcome:
    argv, source = probe_command(checks, sys.executable)
    done = arena.run([*around, *argv], source)
    assert done.stderr == b""
    return parse_probe(checks, done.exit_code, done.stdout)


def judged(arena: Arena, control: Outcome, checks: Checks, around: Sequence[str] = ()) -> dict[str, Verdict]:
    return judge(checks, probe(arena, checks, around), control, arena.witness())


def filtered(arena: Arena, rules: str) -> None:
    done = arena.run(["nft", "-f", "-"], rules.encode())
    assert done.exit_code == 0, done.stderr


def having(verdicts: dict[str, Verdict], status: str) -> set[str]:
    return {name for name, verdict in verdicts.items() if verdict.status == status}


def test_the_arena_reaches_its_canary_in_every_way(arena: Arena) -> None:
    checks = arena.checks()
    found = probe(arena, checks)
    assert {name: one.status for name, one in found.results.items() if one.status != "reached"} in (
        {},
        {"vsock": "answered"},
        {"vsock": "refused"},
    )
    seen = arena.witness()
    assert all(seen.saw(checks.token, name) for name in found.results if name != "vsock")
    assert seen.arrivals == ()


def test_any_address_at_all_is_the_canarys(arena: Arena) -> None:
    # Nothing of this leaves: the arena has no uplink, and its default route ends at the canary.
    code = (
        "import socket; s = socket.create_connection(('100.64.7.7', 443), 3); s.send(b'x'); print(s.getpeername()[0])"
    )
    assert arena.run([sys.executable, "-c", code]).stdout == b"100.64.7.7\n"


def test_a_namespace_of_its_own_is_denied_everywhere(arena: Arena) -> None:
    control = probe(arena, arena.checks())
    verdicts = judged(arena, control, arena.checks(), ["unshare", "--net"])
    assert set(verdicts) - having(verdicts, "proven") <= {"vsock"}


def test_a_deny_for_ipv4_only_is_convicted_over_ipv6(arena: Arena) -> None:
    control = probe(arena, arena.checks())
    filtered(
        arena, "table ip liar { chain o { type filter hook output priority 0; policy drop; oifname lo accept; }; }"
    )
    verdicts = judged(arena, control, arena.checks())
    assert having(verdicts, "proven") >= EVERYWHERE
    assert having(verdicts, "violated") >= VERSION6 | {"dns6-public", "link-local6"}


def test_a_deny_that_leaves_names_open_is_convicted_by_them(arena: Arena) -> None:
    control = probe(arena, arena.checks())
    filtered(
        arena,
        "table inet liar { chain o { type filter hook output priority 0; policy drop; oifname lo accept;"
        " icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept; udp dport 53 accept; }; }",
    )
    verdicts = judged(arena, control, arena.checks())
    assert having(verdicts, "violated") - {"vsock", "unix-abstract"} == NAMES
    assert having(verdicts, "proven") >= {"tcp4-80", "tcp6-80", "udp4", "udp6", "metadata"}


def test_one_way_egress_is_convicted_by_the_witness_alone(arena: Arena) -> None:
    control = probe(arena, arena.checks())
    filtered(
        arena,
        f"table inet liar {{ chain i {{ type filter hook input priority 0; policy accept; iifname {LINK}"
        " meta l4proto { tcp, udp, icmp } drop; icmpv6 type echo-reply drop; }; }",
    )
    checks = arena.checks()
    found = probe(arena, checks)
    assert {found.status(name) for name in EVERYWHERE | VERSION6} == {"timeout"}
    verdicts = judge(checks, found, control, arena.witness())
    assert having(verdicts, "violated") >= EVERYWHERE | VERSION6 | {"dns-lookup", "dns-configured", "link-local6"}


FORGER = """
import socket, sys, threading
listener = socket.create_server(("127.0.0.1", 9999)); print("up", flush=True)
def serve(one):
    data = one.recv(200)
    if sys.argv[1] == "relay":
        relay = socket.socket(); relay.setsockopt(socket.SOL_SOCKET, 36, 7)  # SO_MARK: not redirected again
        relay.connect((sys.argv[2], 80)); relay.send(data); relay.recv(200)
    one.sendall(b"SBXN " + b"0" * 32 + b"\\n"); one.close()
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


def forge(arena: Arena, mode: str) -> "subprocess.Popen[bytes]":
    filtered(
        arena,
        "table ip liar { chain o { type nat hook output priority -100; policy accept;"
        " meta mark != 7 tcp dport { 80, 443 } redirect to :9999; }; }",
    )
    argv = arena.command([sys.executable, "-c", FORGER, mode, arena.addresses.v4])
    forger = subprocess.Popen(argv, stdout=subprocess.PIPE)
    assert forger.stdout is not None
    assert forger.stdout.readline() == b"up\n"
    return forger


def end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.communicate()


def test_a_forged_nonce_is_never_proof_and_never_a_control(arena: Arena) -> None:
    control = probe(arena, arena.checks())
    forger = forge(arena, "local")
    try:
        checks = arena.checks()
        forged = probe(arena, checks)
        assert (forged.status("tcp4-80"), forged.status("metadata")) == ("forged", "forged")
        verdicts = judge(checks, forged, control, arena.witness())
        assert verdicts["tcp4-80"].status == "not-provable"
        assert "forged" in verdicts["tcp4-80"].evidence
        as_control = judged(arena, forged, arena.checks(), ["unshare", "--net"])
        assert as_control["tcp4-80"].status == "not-provable"
    finally:
        end(forger)


def test_a_proxy_that_passes_on_and_forges_the_answer_is_convicted(arena: Arena) -> None:
    control = probe(arena, arena.checks())
    forger = forge(arena, "relay")
    try:
        verdicts = judged(arena, control, arena.checks())
        assert verdicts["tcp4-80"].status == "violated"
        assert "saw the token" in verdicts["tcp4-80"].evidence
    finally:
        end(forger)


def test_what_opens_late_is_convicted_by_the_late_probe_only(arena: Arena) -> None:
    control = probe(arena, arena.checks())
    filtered(arena, "table inet liar { chain o { type filter hook output priority 0; policy drop; }; }")
    late = arena.checks(late=True, only=["tcp4-80", "tcp6-80"])
    opener = threading.Timer(1.0, lambda: filtered(arena, "delete table inet liar\n"))
    at_once = judged(arena, control, arena.checks(only=["tcp4-80", "udp4"]))
    opener.start()
    verdicts = judged(arena, control, late)
    opener.join()
    assert having(at_once, "proven") == {"tcp4-80", "udp4"}
    assert having(verdicts, "violated") == {"tcp4-80", "tcp6-80"}


def test_accept_then_silence_is_no_denial(arena: Arena) -> None:
    control = probe(arena, arena.checks())
    filtered(
        arena,
        "table ip liar { chain o { type nat hook output priority -100; policy accept; tcp dport 80 redirect to :9998; }; }",
    )
    code = "import socket, time; s = socket.create_server(('127.0.0.1', 9998)); print('up', flush=True); time.sleep(20)"
    acceptor = subprocess.Popen(arena.command([sys.executable, "-c", code]), stdout=subprocess.PIPE)
    try:
        assert acceptor.stdout is not None
        acceptor.stdout.readline()
        assert judged(arena, control, arena.checks(only=["tcp4-80"]))["tcp4-80"].status == "not-provable"
    finally:
        end(acceptor)


def test_a_function_can_be_called_inside(arena: Arena) -> None:
    assert arena.call(interfaces) == ["lo", LINK]
    assert interfaces() != ["lo", LINK]  # the host itself may have another run's
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        arena.call(lambda: 1 // 0)
    with pytest.raises(TimeoutError):
        arena.call(lambda: time.sleep(30), timeout=0.2)


def interfaces() -> list[str]:
    lines = Path("/proc/self/net/dev").read_text().splitlines()[2:]
    return sorted(line.split(":")[0].strip() for line in lines)


def test_the_arena_is_gone_with_its_owner() -> None:
    code = (
        "import os, signal, sys; from sandboxio_contract.network import Arena;"
        "arena = Arena.start(); print(arena.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=30)
    pid = int(done.stdout)
    end_of_wait = time.monotonic() + 5
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end_of_wait:
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()


def test_a_dead_supervisor_is_a_typed_reason() -> None:
    with Arena.start() as arena:
        os.kill(arena.pid, 9)
        with pytest.raises(NotProvable, match="gone") as raised:
            arena.witness()
        assert raised.value.code == "canary"


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming an ordinary user takes root")
def test_an_ordinary_user_can_have_an_arena() -> None:
    python = next((one for one in (sys.executable, "/usr/bin/python3") if is_for_ordinary_users(one)), None)
    if python is None or as_ordinary_user("unshare", "-rn", "true").returncode != 0:
        pytest.skip("an ordinary user has no Python 3.11, or no user namespaces, here")
    script = (
        "from sandboxio_contract.network import *\n"
        "with Arena.start() as arena:\n"
        "    checks = arena.checks(only=['tcp4-80', 'tcp6-80', 'dns-lookup', 'unix-abstract'])\n"
        "    argv, source = probe_command(checks)\n"
        "    done = arena.run(argv, source)\n"
        "    print(sorted(one.status for one in parse_probe(checks, done.exit_code, done.stdout).results.values()))\n"
        "    print(arena.call(lambda: open('/proc/net/dev').read().count('sbxc0')))\n"
    )
    done = as_ordinary_user(python, "-c", script)
    assert done.stdout == b"['reached', 'reached', 'reached', 'reached']\n1\n", done.stderr


def is_for_ordinary_users(python: str) -> bool:
    code = "import sys, sandboxio_contract.network.world; sys.exit(sys.version_info < (3, 11))"
    return as_ordinary_user(python, "-c", code).returncode == 0


def as_ordinary_user(*argv: str) -> "subprocess.CompletedProcess[bytes]":
    source = str(Path(sandboxio_contract.__file__).parents[1])
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": source}
    with contextlib.suppress(PermissionError):
        return subprocess.run(
            argv, capture_output=True, check=False, timeout=60, cwd="/", env=environment,
            user=65534, group=65534, extra_groups=[],
        )  # fmt: skip
    return subprocess.CompletedProcess(argv, 126, b"", b"not for this user")
