"""What an emulated sandbox reaches: everything, unless the wire said otherwise."""

import asyncio

import pytest
from sandboxio_contract.emulation import EVERYTHING, Egress, Guest, Outside
from sandboxio_contract.network import Outcome, parse_probe, probe_command

from .running import guest, run

pytestmark = [pytest.mark.network, pytest.mark.emulated]
WAYS = frozenset(
    {"tcp4-80", "tcp4-443", "tcp4-53", "udp4", "dns4-udp", "dns4-tcp", "metadata", "dns4-public", "dns-lookup"}
)


async def probed(outside: Outside, one: Guest) -> tuple[Outcome, str]:
    checks = await asyncio.to_thread(outside.arena.checks)
    argv, source = probe_command(checks)
    done = await run(one, argv, source)
    return parse_probe(checks, done.exit_code, done.stdout), checks.token


def reached(outcome: Outcome) -> set[str]:
    return {name for name, one in outcome.results.items() if one.status == "reached"}


def test_without_a_policy_everything_is_reached(outside: Outside) -> None:
    async def main() -> None:
        async with guest(outside) as one:
            outcome, token = await probed(outside, one)
            assert reached(outcome) >= WAYS
            assert all(outside.arena.witness().saw(token, name) for name in WAYS)

    asyncio.run(main())


def test_what_denies_everything_lets_nothing_out(outside: Outside) -> None:
    async def main() -> None:
        async with guest(outside, Egress(deny=EVERYTHING)) as one:
            outcome, token = await probed(outside, one)
            assert reached(outcome) == set()
            assert {outcome.status(name) for name in WAYS} <= {"refused", "unreachable"}
            assert not any(seen.token == token for seen in outside.arena.witness().sightings)
            # Root inside owns nothing of it.
            assert (await run(one, ["/usr/sbin/nft", "flush", "ruleset"], user="root")).exit_code != 0
            assert (await run(one, ["/usr/sbin/ip", "link", "set", "eth0", "down"], user="root")).exit_code != 0

    asyncio.run(main())


def test_without_a_cable_there_is_no_way_at_all(outside: Outside) -> None:
    async def main() -> None:
        async with guest() as one:
            outcome, _ = await probed(outside, one)
            assert reached(outcome) == set()
            assert outcome.interfaces == ("lo",)

    asyncio.run(main())


def test_a_network_on_the_list_is_reached_and_its_neighbour_is_not(outside: Outside) -> None:
    async def main() -> None:
        listed = f"{outside.arena.addresses.v4}/32"
        async with guest(outside, Egress(allow=(listed,), deny=EVERYTHING)) as one:
            outcome, _ = await probed(outside, one)
            assert reached(outcome) == {"tcp4-80", "tcp4-443", "tcp4-53", "udp4", "dns4-udp", "dns4-tcp"}

    asyncio.run(main())


ASK = """
import socket, sys
one = socket.create_connection((sys.argv[1], 80), 5)
one.settimeout(5)
one.sendall(f"GET / HTTP/1.1\\r\\nHost: {sys.argv[3]}\\r\\nX: SBXC {sys.argv[2]}.tcp4-80\\n\\r\\n".encode())
print(one.recv(100).decode()[:4])
"""


def test_a_name_on_the_list_is_let_through_by_what_the_client_says(outside: Outside) -> None:
    async def main() -> None:
        names = ("allowed.test", "*.wild.test")
        async with guest(outside, Egress(deny=EVERYTHING, names=names)) as one:
            outcome, token = await probed(outside, one)
            assert reached(outcome) == set()
            answers = {
                name: (await run(one, ["python3", "-c", ASK, outside.arena.addresses.v4, token, name])).stdout.strip()
                for name in ("allowed.test", "a.wild.test", "wild.test", "other.test")
            }
            assert answers == {"allowed.test": b"SBXN", "a.wild.test": b"SBXN", "wild.test": b"", "other.test": b""}

    asyncio.run(main())


def test_guests_do_not_reach_each_other(outside: Outside) -> None:
    async def main() -> None:
        async with guest(outside) as one, guest() as other:
            address = await outside.connect(other, Egress())
            listener = asyncio.create_task(run(other, ["timeout", "3", "python3", "-c", LISTEN]))
            own = await run(other, ["python3", "-c", CONNECT, address])
            assert own.stdout == b"connected\n"  # it is there
            assert (await run(one, ["timeout", "1", "python3", "-c", CONNECT, address])).stdout == b""
            await listener

    asyncio.run(main())


LISTEN = "import socket, time; one = socket.create_server(('', 7000)); time.sleep(30)"
CONNECT = """
import socket, sys, time
for _ in range(100):
    try:
        socket.create_connection((sys.argv[1], 7000), 1)
    except ConnectionRefusedError:
        time.sleep(0.02)
    else:
        print("connected")
        break
"""


def test_what_is_never_let_through_is_not_let_through_by_an_allowance(outside: Outside) -> None:
    async def main() -> None:
        listed = f"{outside.arena.addresses.v4}/32"
        async with guest(outside, Egress(allow=(listed,), never=(listed,))) as one:
            outcome, _ = await probed(outside, one)
            assert "tcp4-80" not in reached(outcome)
            assert "dns4-public" in reached(outcome)  # nothing else is denied

    asyncio.run(main())
